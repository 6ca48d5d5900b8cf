//! Block devices and what is written at their beginning.

use std::{fmt, path::PathBuf};

use crate::desired::{FileSystemId, NamespaceId};

/// Major and minor number of a device, or of a file system without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The block device of a namespace on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Which namespace it is.
    pub namespace: NamespaceId,
    /// Its name today; names move from boot to boot.
    pub path: PathBuf,
    /// Its number.
    pub number: DeviceNumber,
}

/// A volume as this node sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeState {
    /// Devices of those of its namespaces that this node reaches.
    pub devices: Vec<BlockDevice>,
    /// Namespaces that it does not reach.
    pub missing: Vec<NamespaceId>,
    /// What the one device begins with; `None` unless there is exactly one.
    pub signature: Option<Signature>,
}

/// What a device begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// Nothing that any tool knows.
    Blank,
    /// A whole file system that Warren made.
    Ours(FileSystemId),
    /// One whose mkfs was cut off (`sb_inprogress` is set).
    HalfMade(FileSystemId),
    /// Somebody else's.
    Foreign {
        /// As wipefs(8) names it.
        kind: String,
        /// Its UUID, when it has one.
        uuid: Option<String>,
    },
}
