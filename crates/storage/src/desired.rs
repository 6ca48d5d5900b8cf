//! The desired state of a node: validated values only.
//!
//! One [`Desired`] is one unit of work: it converges, fails and is reported separately. Units of different groups
//! ([`Desired::group`]) run in parallel. A ClientMount with sixteen mounts is sixteen units and one more unit for its
//! index tree.

mod allocation;
mod file_system;
mod hook;
mod index_tree;
mod lustre;
mod mount;
mod mount_point;
mod names;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::BTreeSet;

pub use allocation::{Access, Allocation, AllocationId, Endpoint, Reported, Spread, SpreadError};
pub use file_system::{FileSystem, FileSystemId, FileSystemKind};
pub use hook::{Hook, HookId, HookPoint, HookScope};
pub use index_tree::{IndexLink, IndexLinkError, IndexTree};
pub use lustre::{Dataset, LustreClient, LustreTarget, TargetLines};
pub use mount::{Mount, MountSource, Owner, RootFile};
pub use mount_point::{AllowedRoots, MountPoint, MountPointError};
pub use names::{NameError, NamespaceId, NodeName, Nqn, ObjectUid};
pub use volume::mapper_name;
pub use volume::{LvmLines, Volume, VolumeLayer};

use crate::observed::Attached;

/// One unit of a node's desired state: something that should exist, or that should be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Desired {
    /// The namespaces of the requested capacity exist, and only the requested hosts reach them.
    Allocated(Allocation),
    /// The namespaces that the object's status names are recorded for the allocation again, after a drive's ledger lost
    /// its records. No other step is taken for the allocation.
    Adopted(Allocation),
    /// No namespace of this allocation exists.
    Released(AllocationId),
    /// The host `host` reaches no namespace of the allocation. No other step is taken, even when namespaces are
    /// missing: the fencing of a host must not wait until drives have room.
    Withdrawn {
        allocation: AllocationId,
        /// The host that loses access, as the drives record it.
        host: Attached,
    },
    /// The file system is made and its set-up hooks have run.
    FileSystemReady(FileSystem),
    /// The file system's tear-down hooks have run, and its volume is removed.
    FileSystemGone(FileSystem),
    /// The Lustre target is made, set up and mounted, so that it serves clients.
    TargetReady(LustreTarget),
    /// The target's tear-down hooks have run, and its mount and its pool are gone.
    TargetGone(LustreTarget),
    /// The file system is mounted, its root has the requested owner, and the mount hooks have run.
    Mounted(Mount),
    /// The file system is not mounted, and its mount point is removed.
    Unmounted(Mount),
    /// The index tree has exactly these links.
    IndexTree(IndexTree),
    /// The index tree has none of these links, and its root is removed unless it has other entries.
    NoIndexTree(IndexTree),
    /// Beneath the allowed roots, no mount is provably Warren's except the mounts at these mount points.
    OnlyMounts(Vec<MountPoint>),
    /// This node keeps neither a device-mapper mapping nor a DLM lock space of a volume group that provably no longer
    /// exists. Volume groups whose names contain the uid of one of these owners are exempt: other units handle them.
    /// Existing volume groups stay, and the observation lists them.
    OnlyVolumes(BTreeSet<ObjectUid>),
    /// The node's drives are ready for their hosts; drives and namespaces are observed.
    Inventory,
}

impl Desired {
    /// Returns the name of the unit's group: two units of one group never run at the same time.
    pub fn group(&self) -> String {
        match self {
            Self::Allocated(allocation) | Self::Adopted(allocation) => allocation.id.to_string(),
            Self::Released(id) => id.to_string(),
            // Withdrawals have a group of their own: a fence must not wait until another unit has zeroed a namespace of
            // the allocation. The caller ensures that no other unit grants the access again.
            Self::Withdrawn { allocation, host } => format!("{allocation} of {host}"),
            Self::FileSystemReady(fs) | Self::FileSystemGone(fs) => fs.volume.group.clone(),
            Self::TargetReady(target) | Self::TargetGone(target) => {
                target.dataset.pool().to_owned()
            }
            Self::Mounted(mount) | Self::Unmounted(mount) => mount.group(),
            Self::IndexTree(tree) | Self::NoIndexTree(tree) => tree.root.to_string(),
            Self::OnlyMounts(_) => "mounts".to_owned(),
            Self::OnlyVolumes(_) => "volumes".to_owned(),
            Self::Inventory => "inventory".to_owned(),
        }
    }

    /// Returns the name under which the unit's observation runs: when the observation of one unit hangs, other units of
    /// its group can still be observed.
    pub fn unit(&self) -> String {
        match self {
            Self::FileSystemReady(fs) | Self::FileSystemGone(fs) => fs.volume.to_string(),
            Self::Mounted(mount) | Self::Unmounted(mount) => mount.target.to_string(),
            _ => self.group(),
        }
    }
}
