//! Why a node is left untouched.

use std::path::PathBuf;

use thiserror::Error;

use crate::desired::{AllocationId, FileSystemId, FileSystemKind, MountPoint, NamespaceId};

/// A desire that must not be acted on as things are. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Rejection {
    /// An allocation of nothing.
    #[error("allocation {allocation}: capacity is 0 bytes: ask for at least 1")]
    ZeroCapacity {
        /// Which.
        allocation: AllocationId,
    },
    /// The rabbit has no drives.
    #[error(
        "allocation {allocation}: no drive to allocate {asked} bytes on: check the drives of this node"
    )]
    NoDrives {
        /// Which.
        allocation: AllocationId,
        /// Bytes.
        asked: u64,
    },
    /// No drive has that much left.
    #[error(
        "insufficient capacity: {asked} bytes asked for, the freest of {drives} drives has {largest} of {capacity} \
         bytes left: ask for less or free allocations"
    )]
    InsufficientCapacity {
        /// Bytes asked for.
        asked: u64,
        /// Free bytes of the freest drive.
        largest: u64,
        /// That drive's size.
        capacity: u64,
        /// How many drives there are.
        drives: usize,
    },
    /// The disk beneath file-backed drives has no room.
    #[error(
        "insufficient capacity: {asked} bytes asked for, the disk that holds the pool has {available} bytes free, of \
         which {promised} are promised to other namespaces: free space on it"
    )]
    PoolFull {
        /// Bytes asked for.
        asked: u64,
        /// Free bytes of that disk.
        available: u64,
        /// Bytes that sparse files may still claim.
        promised: u64,
    },
    /// Namespaces of the volume are not visible on this node.
    #[error(
        "no device for {volume}: namespace {} is not visible on this node: wait for access, or check the PCIe link",
        join(.missing)
    )]
    NoDevice {
        /// Which volume.
        volume: String,
        /// Which namespaces.
        missing: Vec<NamespaceId>,
    },
    /// More devices than a volume without LVM can have.
    #[error(
        "{volume} has {count} namespaces: without LVM a volume has exactly one; use a profile and drives that give one"
    )]
    TooManyDevices {
        /// Which volume.
        volume: String,
        /// How many there are.
        count: usize,
    },
    /// Somebody else's data.
    #[error("{} carries a foreign {kind} signature{}: it is left alone; wipe it by hand if nobody needs it", .device.display(), with_uuid(.uuid))]
    ForeignSignature {
        /// Where.
        device: PathBuf,
        /// As wipefs(8) names it.
        kind: String,
        /// Its UUID.
        uuid: Option<String>,
    },
    /// A file system of Warren's, but of another allocation.
    #[error("{} carries file system {found}, not {wanted}: the device belongs to another allocation", .device.display())]
    WrongFileSystem {
        /// Where.
        device: PathBuf,
        /// What is there.
        found: FileSystemId,
        /// What should be.
        wanted: FileSystemId,
    },
    /// The rabbit has not made the file system yet.
    #[error("{} carries no finished file system yet: wait until the rabbit has made {wanted}", .device.display())]
    NotMade {
        /// Where.
        device: PathBuf,
        /// What should be there.
        wanted: FileSystemId,
    },
    /// Another mount is in the way.
    #[error("{target} is occupied by {kind} {from}: unmount it or use another mount path")]
    Occupied {
        /// Where.
        target: MountPoint,
        /// Its source.
        from: String,
        /// Its type.
        kind: String,
    },
    /// Ours, and out of reach.
    #[error("{target} is mounted, and another mount on {} covers it: unmount that one first", .at.display())]
    Covered {
        /// Where.
        target: MountPoint,
        /// Where the mount is that covers it.
        at: PathBuf,
    },
    /// It may be ours.
    #[error(
        "{target} carries {kind} {from}, and its device cannot be read to tell whose it is: unmount it by hand"
    )]
    Unproved {
        /// Where.
        target: MountPoint,
        /// Its source.
        from: String,
        /// Its type.
        kind: String,
    },
    /// A symbolic link is in the way.
    #[error("{target} leads through the symbolic link {}: use the path it stands for, or remove it", .at.display())]
    ThroughSymlink {
        /// Where.
        target: MountPoint,
        /// The link.
        at: PathBuf,
    },
    /// A parent is somebody's file system.
    #[error("{target} is inside the file system mounted on {}: use a path outside of it", .at.display())]
    ThroughMount {
        /// Where.
        target: MountPoint,
        /// Its mount point.
        at: PathBuf,
    },
    /// A parent is not a directory.
    #[error("{target} leads through {}, which is not a directory: remove it or use another mount path", .at.display())]
    ThroughFile {
        /// Where.
        target: MountPoint,
        /// The parent.
        at: PathBuf,
    },
    /// The mount point exists and is of the wrong type.
    #[error(
        "{target} is {found}, {kind} is mounted on {wanted}: remove it or use another mount path"
    )]
    WrongType {
        /// Where.
        target: MountPoint,
        /// What should be mounted.
        kind: FileSystemKind,
        /// What is there.
        found: &'static str,
        /// What should be.
        wanted: &'static str,
    },
    /// The mount would hide something.
    #[error(
        "{target} is not empty: a mount would hide what is in it; empty it or use another mount path"
    )]
    NotEmpty {
        /// Where.
        target: MountPoint,
    },
    /// The mount that should be shown once more is not there.
    #[error("{from} is not mounted, so {target} cannot show it: wait until it is")]
    SourceNotMounted {
        /// The mount to show.
        from: MountPoint,
        /// Where.
        target: MountPoint,
    },
    /// The profile's mkfs line sets what Warren sets.
    #[error(
        "mkfs: {line:?} sets uuid: remove it from the profile, file systems are recognised by the one that is derived"
    )]
    MkfsSetsUuid {
        /// The expanded line.
        line: String,
    },
    /// A name in an index tree is taken.
    #[error("{root}/{name} is not a symbolic link: remove it, the index tree needs the name")]
    NotALink {
        /// The tree.
        root: MountPoint,
        /// The name.
        name: String,
    },
    /// Two links of one name.
    #[error("{root}: compute {name} is listed twice: list each once")]
    DuplicateLink {
        /// The tree.
        root: MountPoint,
        /// The name.
        name: String,
    },
    /// What this build cannot do.
    #[error("{what} is not supported by this build: {remedy}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// What to do instead.
        remedy: &'static str,
    },
}

/// Who can do something about a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionClass {
    /// It passes when another node has done its part: try again.
    Waiting,
    /// Too little room: the workload manager should place the job elsewhere.
    Capacity,
    /// What was asked for is wrong: its author must change it.
    Input,
    /// Something on the node is not Warren's: an admin must look.
    Foreign,
    /// Another build or another profile is needed.
    Unsupported,
}

impl Rejection {
    /// Who can do something about it.
    #[must_use]
    pub fn class(&self) -> RejectionClass {
        match self {
            Self::NoDevice { .. } | Self::NotMade { .. } | Self::SourceNotMounted { .. } => {
                RejectionClass::Waiting
            }
            Self::NoDrives { .. } | Self::InsufficientCapacity { .. } | Self::PoolFull { .. } => {
                RejectionClass::Capacity
            }
            Self::ZeroCapacity { .. } | Self::MkfsSetsUuid { .. } | Self::DuplicateLink { .. } => {
                RejectionClass::Input
            }
            Self::ForeignSignature { .. }
            | Self::WrongFileSystem { .. }
            | Self::Occupied { .. }
            | Self::Covered { .. }
            | Self::Unproved { .. }
            | Self::ThroughSymlink { .. }
            | Self::ThroughMount { .. }
            | Self::ThroughFile { .. }
            | Self::WrongType { .. }
            | Self::NotEmpty { .. }
            | Self::NotALink { .. } => RejectionClass::Foreign,
            Self::TooManyDevices { .. } | Self::Unsupported { .. } => RejectionClass::Unsupported,
        }
    }
}

fn join(namespaces: &[NamespaceId]) -> String {
    if namespaces.is_empty() {
        return "(none is named)".to_owned();
    }
    let names: Vec<_> = namespaces.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn with_uuid(uuid: &Option<String>) -> String {
    uuid.as_ref().map_or_else(String::new, |uuid| format!(" (UUID {uuid})"))
}
