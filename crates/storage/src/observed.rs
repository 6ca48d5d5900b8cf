//! What is: facts about one node, as far as one desire needs them.

mod attached;
mod group;
mod holders;
mod link;
mod target;
mod volume;
mod zpool;

pub use attached::Attached;
pub use group::{Mapping, OwnGroup, owner_of_group};
pub use holders::{Holders, Use};
pub use link::{LinkEnd, LinkState, Pair, PortLink};
pub use target::{MountedThing, PathState, Superblock, TargetState, TreeEntry, TreeState};
pub use volume::{
    Activation, BlockDevice, DeviceName, DeviceNumber, LogicalVolume, LvmReport, LvmState, Mapped,
    Membership, Percent, PhysicalVolume, Signature, Unfinished, VolumeDevice, VolumeGroup,
    VolumeState, WARRENS,
};

pub use zpool::{DatasetState, FoundPool, PoolHealth, PoolState, Vdev, VdevPlace, Zpool};

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, path::PathBuf};

use crate::{
    desired::{Access, AllocationId, HookId, MountPoint, NamespaceId, Nqn, RootFile},
    health::Smart,
};

/// A look at a node. What the desire does not concern is left empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The rabbit's drives.
    pub drives: Vec<Drive>,
    /// SMART logs of those that have one and could be asked.
    pub smart: BTreeMap<Nqn, Smart>,
    /// The namespaces on them, foreign ones included.
    pub namespaces: Vec<Namespace>,
    /// What is recorded of namespaces that are no more, as their drives tell: a crash came between the deletion and its record.
    pub lost: BTreeMap<NamespaceId, NamespaceOwner>,
    /// Drives whose slot holds another one by now: they are gone for good, unlike one that is merely absent.
    pub replaced: BTreeSet<Nqn>,
    /// Drives of which what was written down cannot be read: anything of ours may be on them, and given to anybody.
    pub unread: BTreeSet<Nqn>,
    /// The file system that carries file-backed drives; `None` for real ones.
    pub pool: Option<Pool>,
    /// Volume groups on namespaces of ours, as far as this node reaches those.
    pub groups: Vec<OwnGroup>,
    /// All of device-mapper's devices on this node.
    pub mappings: Vec<Mapping>,
    /// Volume groups in whose lock space this node is, whether they exist or not.
    pub lock_spaces: Vec<String>,
    /// The volume, as this node sees it.
    pub volume: Option<VolumeState>,
    /// A Lustre target's pool, as this node sees it.
    pub zpool: Option<PoolState>,
    /// The mount point.
    pub target: Option<TargetState>,
    /// Who uses what the mount point showed and shows no more: the device, or a file system without one.
    pub in_use: Use,
    /// The file that is to be in the root of what is mounted there, as it is.
    pub file: Option<RootFile>,
    /// Where hooks of a file system see it.
    pub temporary: Option<TargetState>,
    /// The mount that a bind mount shows once more.
    pub source: Option<TargetState>,
    /// Mounts beneath the allowed roots, in the order they were made.
    pub mounts: Vec<(MountPoint, MountedThing)>,
    /// The index tree's root.
    pub tree: Option<TreeState>,
    /// The desire's hooks of which it is recorded that they ran.
    pub hooks: BTreeSet<HookId>,
    /// Whether the scope of those hooks is open: something was begun that its tear-down hooks must end.
    pub hooks_open: bool,
}

impl Observed {
    /// Whether another drive is in this one's slot: it is plugged in nowhere, and nobody reaches what is on it.
    #[must_use]
    pub fn is_replaced(&self, drive: &Nqn) -> bool {
        self.replaced.contains(drive)
    }

    /// How many namespaces a drive can have, if it has them all.
    #[must_use]
    pub fn namespace_limit(&self, drive: &Drive) -> Option<u32> {
        let on_it =
            self.namespaces.iter().filter(|namespace| namespace.id.subsystem == drive.nqn).count();
        drive.max_namespaces.filter(|most| on_it >= *most as usize)
    }
}

/// A drive of the rabbit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Its subsystem.
    pub nqn: Nqn,
    /// Serial number.
    pub serial: String,
    /// Model number.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// Its slot, counted from 0.
    pub slot: u32,
    /// What is written beside that slot; empty where nothing tells.
    pub label: String,
    /// Bytes.
    pub capacity: u64,
    /// Bytes that its namespaces occupy.
    pub allocated: u64,
    /// How many namespaces it can have; `None` where nothing tells.
    pub max_namespaces: Option<u32>,
    /// Percent of its life that is used; more than 100 on one that outlives its estimate.
    pub wear: u8,
    /// What it warns of.
    pub warnings: Vec<DriveWarning>,
    /// Why it cannot be used now; what is known of its namespaces is what was written down of them.
    pub fault: Option<String>,
}

impl Drive {
    /// Bytes that are free for namespaces: none on a drive that warns of losing them.
    #[must_use]
    pub fn free(&self) -> u64 {
        let left = self.capacity.saturating_sub(self.allocated);
        let may_fail = self.warnings.iter().any(|warning| *warning != DriveWarning::Temperature);
        if self.fault.is_none() && !may_fail { left } else { 0 }
    }
}

/// What a drive warns of (NVM Express Base Specification 2.0, 5.16.1.3, Critical Warning).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveWarning {
    /// Spare blocks run out.
    SpareLow,
    /// Too hot, or too cold.
    Temperature,
    /// Its reliability is degraded.
    Degraded,
    /// It takes no more data.
    ReadOnly,
    /// Its cache would not survive a loss of power.
    BackupFailed,
    /// Its persistent memory is read-only or unreliable.
    MemoryUnreliable,
}

impl DriveWarning {
    /// Whether the drive will take no more data, or soon.
    #[must_use]
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

/// Bytes of the file system beneath file-backed drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// What it can still take.
    pub available: u64,
    /// What existing namespaces may still claim of that: their files are sparse.
    pub promised: u64,
}

impl Pool {
    /// Bytes that may still be promised.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.available.saturating_sub(self.promised)
    }
}

/// A namespace on a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its identity.
    pub id: NamespaceId,
    /// Whose it is.
    pub owner: NamespaceOwner,
    /// Bytes.
    pub size: u64,
    /// Hosts that reach it.
    pub access: BTreeSet<Attached>,
    /// Its block device on this node, when it has one.
    pub device: Option<PathBuf>,
    /// How many namespaces its allocation was made of, as it is written down with each; 0 when that is not known.
    pub members: u16,
}

impl Namespace {
    /// Whether the host that `access` means reaches it, and is known by its name.
    #[must_use]
    pub fn is_given(&self, access: &Access) -> bool {
        self.access.iter().any(|host| host.is(access))
    }
}

/// Whose a namespace is. Only what an allocation of ours owns is ever deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceOwner {
    /// An allocation's.
    Ours(AllocationId),
    /// Begun for an allocation and never finished: a crash left it.
    Partial(AllocationId),
    /// An allocation's until its drive was gone for good and another namespace took its place. It may hold the last copy of
    /// what somebody needs, so it goes with its allocation and not before.
    Replaced(AllocationId),
    /// Nothing is recorded of it: somebody else's, or ours with its record lost.
    Unknown,
    /// Somebody else's; the text says what gave it away.
    Foreign(String),
}

impl NamespaceOwner {
    /// The allocation that it was made for, as far as that is known.
    #[must_use]
    pub const fn allocation(&self) -> Option<AllocationId> {
        match self {
            Self::Ours(id) | Self::Partial(id) | Self::Replaced(id) => Some(*id),
            Self::Unknown | Self::Foreign(_) => None,
        }
    }
}
