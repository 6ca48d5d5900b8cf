//! What is: facts about one node, as far as one desire needs them.

mod attached;
mod group;
mod holders;
mod link;
mod lvm_report;
mod target;
mod volume;
mod zpool;

pub use attached::Attached;
pub use group::{Mapping, OwnGroup, owner_of_group};
pub use holders::{Holders, Use};
pub use link::{LinkEnd, LinkState, Pair, PortLink};
pub(crate) use lvm_report::is_part_of;
pub use lvm_report::{
    LogicalVolume, LvmReport, Membership, Percent, PhysicalVolume, VolumeGroup, WARRENS,
};
pub use target::{MountedThing, PathState, Superblock, TargetState, TreeEntry, TreeState};
pub use volume::{
    Activation, BlockDevice, DeviceName, DeviceNumber, LvmState, Mapped, Signature, Unfinished,
    VolumeDevice, VolumeState,
};

pub use zpool::{DatasetState, FoundPool, PoolHealth, PoolState, Vdev, VdevDevice, Zpool};

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, path::PathBuf};

use crate::{
    desired::{Access, AllocationId, HookId, MountPoint, NamespaceId, Nqn, RootFile},
    health::Smart,
};

/// One observation of a node. What the desire does not concern stays empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    pub drives: Vec<Drive>,
    /// SMART logs of the drives that could be asked.
    pub smart: BTreeMap<Nqn, Smart>,
    /// The namespaces on them, foreign ones included.
    pub namespaces: Vec<Namespace>,
    /// Recorded namespaces that their drives do not have any more: a crash came between the deletion and its record.
    pub vanished: BTreeMap<NamespaceId, NamespaceOwner>,
    /// Drives whose slot holds another drive now: they are gone for good, not just absent.
    pub replaced: BTreeSet<Nqn>,
    /// Drives whose ledger cannot be read: they may hold namespaces of ours, attached to any host.
    pub unreadable: BTreeSet<Nqn>,
    /// The file system that carries file-backed drives; `None` for real ones.
    pub pool: Option<Pool>,
    /// Volume groups on namespaces of ours that this node reaches.
    pub groups: Vec<OwnGroup>,
    pub mappings: Vec<Mapping>,
    /// Volume groups in whose lock space this node is, whether they exist or not.
    pub lock_spaces: Vec<String>,
    pub volume: Option<VolumeState>,
    pub zpool: Option<PoolState>,
    pub target: Option<TargetState>,
    /// Who uses the device, or a file system without one, after it was unmounted from the mount point.
    pub in_use: Use,
    /// The file in the root of what is mounted there, which should be [`Mount::file`](crate::desired::Mount).
    pub file: Option<RootFile>,
    /// The temporary mount point at which hooks see a file system.
    pub temporary: Option<TargetState>,
    /// The mount that a bind mount repeats.
    pub source: Option<TargetState>,
    /// Mounts beneath the allowed roots, in the order they were made.
    pub mounts: Vec<(MountPoint, MountedThing)>,
    pub tree: Option<TreeState>,
    /// Those of the desire's hooks that ran, by their records.
    pub hooks: BTreeSet<HookId>,
    /// Whether the hooks' scope is open: something began that tear-down hooks must end.
    pub hooks_open: bool,
}

impl Observed {
    /// Whether another drive is in this drive's slot, so that no host reaches what is on it.
    pub fn is_replaced(&self, drive: &Nqn) -> bool {
        self.replaced.contains(drive)
    }

    pub(crate) fn of_allocation(&self, id: AllocationId) -> impl Iterator<Item = &Namespace> {
        self.namespaces.iter().filter(move |namespace| namespace.owner.allocation() == Some(id))
    }

    /// The number of namespaces that a drive can have, if it has reached that; else `None`.
    pub fn namespace_limit(&self, drive: &Drive) -> Option<u32> {
        let on_it =
            self.namespaces.iter().filter(|namespace| namespace.id.subsystem == drive.nqn).count();
        drive.max_namespaces.filter(|most| on_it >= *most as usize)
    }
}

/// A drive of the rabbit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    pub nqn: Nqn,
    pub serial: String,
    pub model: String,
    pub firmware: String,
    /// Its slot, counted from 0.
    pub slot: u32,
    /// The label printed beside the slot; empty when unknown.
    pub label: String,
    /// Capacity in bytes.
    pub capacity: u64,
    /// Bytes that namespaces occupy.
    pub allocated: u64,
    /// How many namespaces it can have; `None` when unknown.
    pub max_namespaces: Option<u32>,
    /// Percentage of its life used; more than 100 when it outlives its estimate.
    pub wear: u8,
    pub warnings: Vec<DriveWarning>,
    /// Why it cannot be used now. What is known of its namespaces then comes from the ledger.
    pub fault: Option<String>,
}

impl Drive {
    /// A drive of which only the name is known.
    pub(crate) fn named(nqn: Nqn) -> Self {
        Self {
            nqn,
            serial: String::new(),
            model: String::new(),
            firmware: String::new(),
            slot: 0,
            label: String::new(),
            capacity: 0,
            allocated: 0,
            max_namespaces: None,
            wear: 0,
            warnings: Vec::new(),
            fault: None,
        }
    }

    /// Bytes free for new namespaces: 0 when it warns of anything but its temperature.
    pub fn free(&self) -> u64 {
        let left = self.capacity.saturating_sub(self.allocated);
        let may_fail = self.warnings.iter().any(|warning| *warning != DriveWarning::Temperature);
        if self.fault.is_none() && !may_fail { left } else { 0 }
    }
}

/// A drive's critical warning (NVM Express Base Specification 2.0, 5.16.1.3, Critical Warning).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveWarning {
    SpareLow,
    /// Too hot, or too cold.
    Temperature,
    Degraded,
    /// It takes no more data.
    ReadOnly,
    /// Its cache would not survive a loss of power.
    BackupFailed,
    /// Its persistent memory is read-only or unreliable.
    MemoryUnreliable,
}

impl DriveWarning {
    /// Whether the drive accepts no more data, now or soon.
    pub fn ends_writing(&self) -> bool {
        matches!(self, Self::SpareLow | Self::ReadOnly)
    }
}

impl fmt::Display for DriveWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpareLow => "spare blocks run out",
            Self::Temperature => "its temperature is beyond a threshold",
            Self::Degraded => "its reliability is degraded",
            Self::ReadOnly => "it is read-only",
            Self::BackupFailed => "its cache would not survive a loss of power",
            Self::MemoryUnreliable => "its persistent memory is unreliable",
        })
    }
}

/// Space of the file system beneath file-backed drives, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Free bytes.
    pub available: u64,
    /// Bytes that existing namespaces may still take, because their files are sparse.
    pub promised: u64,
}

impl Pool {
    /// Bytes that new namespaces may take.
    pub fn room(&self) -> u64 {
        self.available.saturating_sub(self.promised)
    }
}

/// A namespace on a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub id: NamespaceId,
    pub owner: NamespaceOwner,
    /// Size in bytes.
    pub size: u64,
    pub access: BTreeSet<Attached>,
    /// Its block device on this node, when it has one.
    pub device: Option<PathBuf>,
    /// How many namespaces its allocation was made of, from the namespace's record; 0 when unknown.
    pub members: u16,
}

impl Namespace {
    /// Whether it is attached to the host that `access` means, and under that name.
    pub fn is_attached_to(&self, access: &Access) -> bool {
        self.access.iter().any(|host| host.is(access))
    }
}

/// Whose a namespace is. The agent deletes only what an allocation of ours owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceOwner {
    Ours(AllocationId),
    /// A crash interrupted its creation for an allocation.
    Partial(AllocationId),
    /// It belonged to an allocation until its drive was gone for good and another namespace replaced it. It may hold
    /// the last copy of somebody's data, so the agent deletes it only with its allocation.
    Replaced(AllocationId),
    /// There is no record: it is somebody else's, or ours with a lost record.
    Unknown,
    /// Somebody else's; the text says how that was seen.
    Foreign(String),
}

impl NamespaceOwner {
    /// The allocation that it was made for, when that is known.
    pub const fn allocation(&self) -> Option<AllocationId> {
        match self {
            Self::Ours(id) | Self::Partial(id) | Self::Replaced(id) => Some(*id),
            Self::Unknown | Self::Foreign(_) => None,
        }
    }
}
