//! Volumes and their signatures.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::LvmReport;
use crate::desired::{FileSystemId, NamespaceId, Volume};

/// Major and minor number of a device. The kernel gives a file system without a device, such as Lustre, a number too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    /// Parses `<major>:<minor>`, as sysfs and the mount table write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The block device of a namespace on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    pub namespace: NamespaceId,
    /// Current path; device names change from boot to boot.
    pub path: PathBuf,
    pub number: DeviceNumber,
}

/// The identity of a device, independent of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceName {
    Namespace(NamespaceId),
    Logical { group: String, name: String },
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(id) => id.fmt(f),
            Self::Logical { group, name } => write!(f, "{group}/{name}"),
        }
    }
}

/// The block device that carries a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeDevice {
    pub name: DeviceName,
    pub path: PathBuf,
    pub number: DeviceNumber,
}

impl From<&BlockDevice> for VolumeDevice {
    fn from(device: &BlockDevice) -> Self {
        Self {
            name: DeviceName::Namespace(device.namespace.clone()),
            path: device.path.clone(),
            number: device.number,
        }
    }
}

/// The state of a volume on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeState {
    /// Devices of the namespaces that this node reaches.
    pub devices: Vec<BlockDevice>,
    /// Namespaces that this node does not reach.
    pub missing: Vec<NamespaceId>,
    /// LVM's state on the devices; `None` with the `plain` layer.
    pub lvm: Option<LvmState>,
    /// The signature of the device that carries the file system; `None` unless exactly one device can carry it.
    pub signature: Option<Signature>,
}

impl VolumeState {
    pub fn at(&self, path: &Path) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.path == path)
    }
}

/// The state of a logical volume on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LvmState {
    pub activation: Activation,
    /// Whether other volumes of the group are active on this node.
    pub siblings_active: bool,
    pub in_lock_space: bool,
    /// LVM's metadata on the devices; `None` when the observation did not need it and so did not run LVM.
    pub report: Option<LvmReport>,
    /// The group's name and the volume's name in LVM's report, when the desired names were a guess.
    pub names: Option<(String, String)>,
}

impl LvmState {
    /// Returns the volume's mapping if the volume is active on this node.
    pub fn active(&self) -> Option<&Mapped> {
        match &self.activation {
            Activation::Active(mapped) => Some(mapped),
            _ => None,
        }
    }

    /// Returns the mappings that an interrupted command left, in the order in which they can be removed.
    pub fn leftovers(&self) -> &[Unfinished] {
        match &self.activation {
            Activation::Active(mapped) => &mapped.unused_parts,
            Activation::Unfinished(leftovers) => leftovers,
            Activation::Inactive | Activation::Suspended(_) => &[],
        }
    }
}

/// The state of a logical volume's device on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Activation {
    #[default]
    Inactive,
    Active(Mapped),
    /// The device is suspended: a command was interrupted while it changed the table.
    Suspended(DeviceNumber),
    /// A command was interrupted while it activated or deactivated the volume. These mappings remain, listed in the
    /// order in which they can be removed.
    Unfinished(Vec<Unfinished>),
}

impl Activation {
    /// Returns the state of a volume that is not active, with its leftover mappings.
    pub fn of_leftovers(leftovers: Vec<Unfinished>) -> Self {
        if leftovers.is_empty() { Self::Inactive } else { Self::Unfinished(leftovers) }
    }
}

/// An active logical volume: a device of device-mapper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// Path of the device, `/dev/mapper/<name>`.
    pub path: PathBuf,
    pub number: DeviceNumber,
    /// Devices beneath the volume that are not the volume's namespaces, by their names in `/sys/block`.
    pub foreign_devices: Vec<String>,
    /// Parts that the RAID's table does not use because a repair was interrupted: parts made by the repair, or parts to
    /// be replaced by it.
    pub unused_parts: Vec<Unfinished>,
}

/// A mapping that an interrupted command left: it has no active table, or it is a part of a RAID that the RAID does not
/// use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Name of the mapping in `/dev/mapper`.
    pub name: String,
    pub number: DeviceNumber,
}

impl Mapped {
    /// Returns the mapping as the device that carries the volume's file system.
    pub fn device(&self, volume: &Volume) -> VolumeDevice {
        let (group, name) = (volume.group.clone(), volume.logical.clone());
        let name = DeviceName::Logical { group, name };
        VolumeDevice { name, path: self.path.clone(), number: self.number }
    }
}

/// The signature at the beginning of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// No signature that wipefs(8) knows.
    Blank,
    /// A complete file system that Warren made.
    Ours(FileSystemId),
    /// A file system of Warren's whose mkfs was interrupted (`sb_inprogress` is set).
    HalfMade(FileSystemId),
    /// A signature that Warren did not write.
    Foreign {
        /// Type of the signature, as wipefs(8) names it.
        kind: String,
        /// UUID of the file system, if it has one.
        uuid: Option<String>,
    },
}
