//! Pools of ZFS, and what is in them.

use std::fmt;

use super::{BlockDevice, Percent};
use crate::desired::NamespaceId;

/// A Lustre target's pool as this node sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Devices of those of its namespaces that this node reaches.
    pub devices: Vec<BlockDevice>,
    /// Namespaces that it does not reach.
    pub missing: Vec<NamespaceId>,
    /// The pool of that name, when this node has it imported.
    pub imported: Option<Zpool>,
    /// Pools that could be imported from those devices; looked for only while there is none of the name.
    pub found: Vec<FoundPool>,
}

/// A pool that was written to the devices, and that no kernel uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPool {
    pub name: String,
    /// What it would be once imported.
    pub health: PoolHealth,
}

/// How a pool is (zpoolconcepts(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolHealth {
    Online,
    /// A device is lost, and nothing of what is written.
    Degraded,
    /// It cannot be used: `FAULTED`, `UNAVAIL`, `SUSPENDED`, …
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
    /// From the word that zpool(8) uses.
    pub fn of(word: &str) -> Self {
        match word {
            "ONLINE" => Self::Online,
            "DEGRADED" => Self::Degraded,
            other => Self::Broken(other.to_owned()),
        }
    }
}

/// An imported pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zpool {
    pub name: String,
    pub health: PoolHealth,
    /// The devices at its bottom.
    pub vdevs: Vec<Vdev>,
    /// How much of what a device lacks was written to it, while that is being done (`resilver` in zpoolconcepts(7)).
    pub resilvered: Option<Percent>,
    pub dataset: DatasetState,
}

impl Zpool {
    /// Whether it does without something: zpool(8) calls some pools `ONLINE` that have lost a device (openzfs/zfs 4653), and
    /// the device too until it is next written to.
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
    /// mkfs.lustre(8) has begun: its last word, `lustre:svname`, is missing.
    HalfMade,
    Whole,
}

/// A device of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vdev {
    /// As zpool(8) calls it: a path, or a number where the device is lost.
    pub name: String,
    /// Its state, as zpool(8) says it.
    pub state: String,
    pub device: VdevDevice,
}

impl Vdev {
    /// Whether the pool uses it.
    pub fn is_used(&self) -> bool {
        matches!(self.state.as_str(), "ONLINE" | "AVAIL" | "INUSE")
    }
}

/// What is behind a device of a pool on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VdevDevice {
    /// A namespace of the allocation.
    Namespace(NamespaceId),
    /// Another device of this node.
    Foreign,
    Missing,
    /// It is missing, and the pool is writing its contents to a replacement.
    Replaced,
}
