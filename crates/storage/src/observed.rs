//! The observed state: facts about one node, as far as one [`Desired`](crate::Desired) needs them.

mod attached;
mod group;
mod holders;
mod link;
mod lvm_report;
mod target;
mod unready;
mod volume;
mod zpool;

pub use attached::Attached;
pub use group::{Mapping, OwnGroup, owner_of_group};
pub use holders::{Holders, Use};
pub use link::{LinkEnd, LinkState, Pair, PortLink};
pub use lvm_report::is_part_of;
pub use lvm_report::{
    LogicalVolume, LvmReport, Membership, Percent, PhysicalVolume, VolumeGroup, WARRENS,
};
pub use target::{MountedThing, PathState, Superblock, TargetState, TreeEntry, TreeState};
pub use unready::{Functions, Unready};
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

/// One observation of a node. Fields that do not concern the desired unit stay empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    pub drives: Vec<Drive>,
    /// SMART logs of the drives that answered.
    pub smart: BTreeMap<Nqn, Smart>,
    /// The namespaces on the drives, foreign ones included.
    pub namespaces: Vec<Namespace>,
    /// Recorded namespaces that their drives no longer have: a crash came between a namespace's deletion and the
    /// removal of its record.
    pub vanished: BTreeMap<NamespaceId, NamespaceOwner>,
    /// Drives whose slot now holds another drive: they are gone for good, not just absent.
    pub replaced: BTreeSet<Nqn>,
    /// Drives whose ledger cannot be read: they may hold namespaces of allocations, attached to any host.
    pub unreadable: BTreeSet<Nqn>,
    /// The file system that carries file-backed drives; `None` for real drives.
    pub pool: Option<Pool>,
    /// Volume groups on namespaces of allocations that this node reaches.
    pub groups: Vec<OwnGroup>,
    pub mappings: Vec<Mapping>,
    /// Volume groups whose lock space this node has joined, whether the groups exist or not.
    pub lock_spaces: Vec<String>,
    pub volume: Option<VolumeState>,
    pub zpool: Option<PoolState>,
    pub target: Option<TargetState>,
    /// How the device is still used once it is not mounted at the desired mount point; for a file system without a
    /// device, how the file system is still used. Observed only for an unmount.
    pub in_use: Use,
    /// The file found in the root of the mount; the desired file is [`Mount::file`](crate::desired::Mount).
    pub file: Option<RootFile>,
    /// The temporary mount point at which hooks see a file system.
    pub temporary: Option<TargetState>,
    /// State of the mount point whose mount should be bind-mounted at the desired mount point.
    pub source: Option<TargetState>,
    /// Mounts beneath the allowed roots, in the order in which they were made.
    pub mounts: Vec<(MountPoint, MountedThing)>,
    pub tree: Option<TreeState>,
    /// The hooks of the desired unit that ran, according to their records.
    pub hooks: BTreeSet<HookId>,
    /// Whether the hooks' scope is open: set-up has begun, and not all tear-down hooks have run.
    pub hooks_open: bool,
}

impl Observed {
    /// Returns whether another drive is in this drive's slot, so that no host reaches this drive's data.
    pub fn is_replaced(&self, drive: &Nqn) -> bool {
        self.replaced.contains(drive)
    }

    pub fn of_allocation(&self, id: AllocationId) -> impl Iterator<Item = &Namespace> {
        self.namespaces.iter().filter(move |namespace| namespace.owner.allocation() == Some(id))
    }

    /// Returns the maximum number of namespaces of a drive, if the drive has reached it; else `None`.
    pub fn namespace_limit(&self, drive: &Drive) -> Option<u32> {
        let count =
            self.namespaces.iter().filter(|namespace| namespace.id.subsystem == drive.nqn).count();
        drive.max_namespaces.filter(|most| count >= *most as usize)
    }
}

/// A drive of the rabbit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    pub nqn: Nqn,
    pub serial: String,
    pub model: String,
    pub firmware: String,
    /// Slot of the drive, counted from 0.
    pub slot: u32,
    /// Label printed beside the slot; empty when unknown.
    pub label: String,
    /// Capacity in bytes: TNVMCAP of a real drive (Identify Controller), or the drive size in the pool's file.
    pub capacity: u64,
    /// Bytes that namespaces occupy.
    pub allocated: u64,
    /// Maximum number of namespaces; `None` when unknown.
    pub max_namespaces: Option<u32>,
    /// Percentage of the drive's life used; more than 100 when it outlives its estimate.
    pub wear: u8,
    pub warnings: Vec<DriveWarning>,
    /// The reason why the drive cannot be used now. The drive's namespaces are then those that its ledger records.
    pub fault: Option<String>,
    pub unready: Unready,
}

impl Drive {
    /// Returns a drive with this NQN, about which nothing else is known.
    pub fn with_nqn(nqn: Nqn) -> Self {
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
            unready: Unready::default(),
        }
    }

    /// Returns the bytes free for new namespaces. A drive with a fault has none; a drive with a warning has none
    /// either, unless the warning is only about temperature.
    pub fn free(&self) -> u64 {
        let free = self.capacity.saturating_sub(self.allocated);
        let may_fail = self.warnings.iter().any(|warning| *warning != DriveWarning::Temperature);
        if self.fault.is_none() && !may_fail { free } else { 0 }
    }
}

/// A drive's critical warning (NVM Express Base Specification 2.0, 5.16.1.3, Critical Warning).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveWarning {
    SpareLow,
    /// The drive is too hot or too cold.
    Temperature,
    Degraded,
    /// The drive accepts no more data.
    ReadOnly,
    /// The drive's cache would not survive a loss of power.
    BackupFailed,
    /// The drive's persistent memory is read-only or unreliable.
    MemoryUnreliable,
}

impl DriveWarning {
    /// Returns whether this warning means that the drive accepts no more data, now or soon.
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
    /// Free bytes of the file system.
    pub available: u64,
    /// Bytes that existing namespaces may still take: their files are sparse.
    pub promised: u64,
}

impl Pool {
    /// Returns the bytes that new namespaces may take.
    pub fn room(&self) -> u64 {
        self.available.saturating_sub(self.promised)
    }
}

/// A namespace on a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub id: NamespaceId,
    pub owner: NamespaceOwner,
    /// Size in bytes, according to the drive or its ledger.
    pub size: u64,
    pub access: BTreeSet<Attached>,
    /// Path of the namespace's block device on this node, if it has one.
    pub device: Option<PathBuf>,
    /// Number of namespaces of the allocation that this namespace belongs to, from the namespace's
    /// record; 0 when unknown.
    pub members: u16,
    /// Whether the namespace must be erased before it is deleted. False if it was erased, and for a namespace in a file,
    /// whose blocks are gone with the file.
    pub needs_erasure: bool,
    /// Whether the namespace may still hold data of earlier owners: it must be zeroed before a host gets access. False
    /// on a drive that promises zeroes for blocks that were never written.
    pub needs_zeroing: bool,
}

impl Namespace {
    /// Returns whether the namespace is attached to the host that `access` describes, under the name in `access`.
    pub fn is_attached_to(&self, access: &Access) -> bool {
        self.access.iter().any(|host| host.is(access))
    }
}

/// The owner of a namespace. The agent deletes only namespaces that an allocation owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceOwner {
    Ours(AllocationId),
    /// A crash interrupted the creation of the namespace for this allocation.
    Partial(AllocationId),
    /// The namespace belonged to this allocation until its drive was gone for good and another namespace replaced it.
    /// It may hold the last copy of a user's data, so the agent deletes it only together with the allocation.
    Replaced(AllocationId),
    /// The namespace has no record: it is foreign, or its record was lost.
    Unknown,
    /// The namespace is not Warren's; the text says how the agent detected that.
    Foreign(String),
}

impl NamespaceOwner {
    /// Returns the allocation that the namespace was made for, when that is known.
    pub const fn allocation(&self) -> Option<AllocationId> {
        match self {
            Self::Ours(id) | Self::Partial(id) | Self::Replaced(id) => Some(*id),
            Self::Unknown | Self::Foreign(_) => None,
        }
    }
}
