//! What should be: validated values only.
//!
//! One [`Desired`] is one unit of work: it converges, fails and is reported by itself, and units of different groups run
//! side by side. A ClientMount with sixteen mounts is sixteen units and a tree.

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
pub(crate) use volume::mapper_name;
pub use volume::{LvmLines, Volume, VolumeLayer};

use crate::observed::Attached;

/// One unit of what a node should have, or should have no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Desired {
    /// Namespaces of the asked capacity exist and exactly these hosts reach them.
    Allocated(Allocation),
    /// The namespaces that its status reports are recorded as its own again, where records were lost; nothing else is done for
    /// it.
    Adopted(Allocation),
    /// No namespace of this allocation exists.
    Released(AllocationId),
    /// This host reaches no namespace of the allocation. Nothing is made, attached or deleted for it, whatever else is missing:
    /// a fence must not wait for drives to have room.
    Withdrawn {
        allocation: AllocationId,
        /// Who is to reach them no more, as the drives have it.
        host: Attached,
    },
    /// The file system is made and its set-up hooks have run.
    FileSystemReady(FileSystem),
    /// The file system's tear-down hooks have run and nothing of it is active.
    FileSystemGone(FileSystem),
    /// The Lustre target is made, set up and mounted: it serves.
    TargetReady(LustreTarget),
    /// Its tear-down hooks have run, and neither its mount nor its pool is left.
    TargetGone(LustreTarget),
    /// The file system is mounted, owned as asked, and the mount hooks have run.
    Mounted(Mount),
    /// It is not, and the mount point is gone.
    Unmounted(Mount),
    /// The tree shows exactly these links.
    IndexTree(IndexTree),
    /// The tree shows none of them, and its root is gone when nothing else is in it.
    NoIndexTree(IndexTree),
    /// Of the mounts beneath the allowed roots that are provably ours, only these remain.
    OnlyMounts(Vec<MountPoint>),
    /// Of volume groups that are provably gone nothing remains here, neither device nor lock space, but for groups that are
    /// named after these owners: their objects see to them. Groups that are there stay, and are shown.
    OnlyVolumes(BTreeSet<ObjectUid>),
    /// Nothing is asked of the node but a look at its drives and namespaces.
    Inventory,
}

impl Desired {
    /// The name under which work is serialised: two units with one group never run at the same time.
    pub fn group(&self) -> String {
        match self {
            Self::Allocated(allocation) | Self::Adopted(allocation) => allocation.id.to_string(),
            Self::Released(id) => id.to_string(),
            // Whoever withdraws cannot wait until a namespace of the allocation is zeroed, and makes sure himself that nobody
            // gives it back.
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

    /// The name of what is read: when reading one unit of a group hangs, reading the others may not.
    pub fn unit(&self) -> String {
        match self {
            Self::FileSystemReady(fs) | Self::FileSystemGone(fs) => fs.volume.to_string(),
            Self::Mounted(mount) | Self::Unmounted(mount) => mount.target.to_string(),
            _ => self.group(),
        }
    }
}
