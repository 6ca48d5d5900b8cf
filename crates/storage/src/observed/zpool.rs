//! ZFS pools and their datasets.

use std::fmt;

use super::{BlockDevice, Percent};
use crate::desired::NamespaceId;

/// The state of a Lustre target's pool on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Devices of the target's namespaces that this node reaches.
    pub devices: Vec<BlockDevice>,
    /// Namespaces of the target that this node does not reach.
    pub missing: Vec<NamespaceId>,
    /// The pool with the target's name, when this node has imported it.
    pub imported: Option<Zpool>,
    /// Pools that could be imported from the devices; searched only while no pool with the target's name is imported.
    pub found: Vec<FoundPool>,
}

/// A pool that lies on the devices and is not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPool {
    pub name: String,
    /// The health that the pool would have after an import.
    pub health: PoolHealth,
}

/// The health of a pool (zpoolconcepts(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolHealth {
    Online,
    /// A device is lost, but no data is lost.
    Degraded,
    /// The pool cannot be used: `FAULTED`, `UNAVAIL`, `SUSPENDED`, …
    Broken(String),
}

impl fmt::Display for PoolHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Online => "ONLINE",
            Self::Degraded => "DEGRADED",
            Self::Broken(state) => state,
        })
    }
}

impl PoolHealth {
    /// Parses the word that zpool(8) prints.
    pub fn parse(word: &str) -> Self {
        match word {
            "ONLINE" => Self::Online,
            "DEGRADED" => Self::Degraded,
            other => Self::Broken(other.to_owned()),
        }
    }
}

/// A pool that this node has imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zpool {
    pub name: String,
    pub health: PoolHealth,
    /// The devices of the pool.
    pub vdevs: Vec<Vdev>,
    /// Progress of a resilver, while one runs (zpoolconcepts(7)).
    pub resilvered: Option<Percent>,
    pub dataset: DatasetState,
}

impl Zpool {
    /// Returns whether the pool lacks redundancy. zpool(8) may show a pool as `ONLINE` although it has lost a device
    /// (openzfs/zfs 4653), and may show the lost device as `ONLINE` too until the next write to it.
    pub fn is_degraded(&self) -> bool {
        let is_away =
            |vdev: &Vdev| matches!(vdev.device, VdevDevice::Missing | VdevDevice::Replaced);
        let is_lost = |vdev: &Vdev| !vdev.is_used() || is_away(vdev);
        let is_lacking = self.resilvered.is_some() || self.vdevs.iter().any(is_lost);
        self.health != PoolHealth::Online || is_lacking
    }
}

/// The dataset of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatasetState {
    Absent,
    /// mkfs.lustre(8) was interrupted: the property that it sets last, `lustre:svname`, is missing.
    HalfMade,
    Whole,
}

/// A device of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vdev {
    /// Name of the device in zpool(8): a path, or a number where the device is lost.
    pub name: String,
    /// State of the device in the words of zpool(8).
    pub state: String,
    pub device: VdevDevice,
}

impl Vdev {
    /// Returns whether the pool uses the device.
    pub fn is_used(&self) -> bool {
        matches!(self.state.as_str(), "ONLINE" | "AVAIL" | "INUSE")
    }
}

/// The block device on this node behind a device of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VdevDevice {
    /// A namespace of the allocation.
    Namespace(NamespaceId),
    /// Another device of this node.
    Foreign,
    Missing,
    /// The device is missing, and ZFS is writing the device's contents to a replacement.
    Replaced,
}
