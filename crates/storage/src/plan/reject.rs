//! Why the planner leaves a node untouched.

mod class;

pub use class::{RejectionClass, without_remedy};

use std::path::PathBuf;

use thiserror::Error;

use super::Missing;
use crate::{
    desired::{AllocationId, FileSystemId, FileSystemKind, MountPoint, NamespaceId, Nqn},
    host::{RoomRefused, TooSmall},
    observed::{Holders, PathState, Percent},
};

/// A desire that cannot be carried out as things are. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The allocation asks for 0 bytes.
    #[error("allocation {allocation}: capacity is 0 bytes: ask for at least 1")]
    ZeroCapacity {
        /// The allocation, which has no size.
        allocation: AllocationId,
    },
    /// The rabbit knows of no drive, not even of an absent one.
    #[error(
        "allocation {allocation}: no drive to allocate {asked} bytes on; this node knows of none: check its drives and their driver"
    )]
    NoDrives {
        /// The allocation that needs drives.
        allocation: AllocationId,
        /// Bytes that it asks for.
        asked: u64,
    },
    /// Too few drives are usable.
    #[error(
        "insufficient capacity: {asked} bytes asked for, over at least {least} drives, and {usable} of {drives} have room and can \
         be used{}: check the drives of this node, or free allocations",
        crowded(.full)
    )]
    TooFewDrives {
        /// Bytes asked for.
        asked: u64,
        /// Drives with room that can be used.
        usable: usize,
        /// Drives that it takes.
        least: usize,
        /// How many drives there are.
        drives: usize,
        /// Those that have as many namespaces as they can have, and how many that is.
        full: Vec<(Nqn, u32)>,
    },
    /// Too few drives are usable now; with those that cannot be used at the moment there would be enough.
    #[error(
        "{asked} bytes asked for, over at least {least} drives, and {usable} of {drives} have room and can be used now: {}: wait \
         for them, or exchange them if they stay so",
        unusable(.faulty)
    )]
    DrivesFaulty {
        /// Bytes asked for.
        asked: u64,
        /// Drives with room that can be used.
        usable: usize,
        /// Drives that it takes.
        least: usize,
        /// How many drives there are.
        drives: usize,
        /// Those that cannot be used now, and why.
        faulty: Vec<(Nqn, String)>,
    },
    /// A drive refused a namespace although it reports room.
    #[error("insufficient capacity: {0}: ask for less or free allocations")]
    DriveRefused(RoomRefused),
    /// A drive has less room than its share.
    #[error(
        "insufficient capacity: {asked} bytes asked for, {each} on each of {drives} drives, and {lacking} has {left} of \
         {capacity} bytes left: ask for less or free allocations"
    )]
    InsufficientCapacity {
        /// Bytes asked for.
        asked: u64,
        /// Bytes of that on each drive.
        each: u64,
        /// How many drives the allocation was to be spread over.
        drives: usize,
        /// The one of them with the least room.
        lacking: Nqn,
        /// Bytes that it has left.
        left: u64,
        /// Its size in bytes.
        capacity: u64,
    },
    /// Nothing of an allocation that its object reports can be reached.
    #[error(
        "{}: nothing is made in the place of what may hold data: bring the drives back, or give the allocation up",
        list(.missing)
    )]
    Lost {
        /// The allocation whose drives are away.
        allocation: AllocationId,
        /// Its namespaces that cannot be reached, each with the reason.
        missing: Vec<Missing>,
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
        /// The volume, `<group>/<logical volume>`.
        volume: String,
        /// Namespaces without a block device on this node.
        missing: Vec<NamespaceId>,
    },
    /// More devices than a volume without LVM can have.
    #[error(
        "{volume} has {count} namespaces: without LVM a volume has exactly one; start the agents with --volumes lvm, and \
         use a profile with lines for LVM"
    )]
    TooManyDevices {
        /// The volume, `<group>/<logical volume>`.
        volume: String,
        /// How many namespaces it has.
        count: usize,
    },
    /// A device is a member of another group than the volume's.
    #[error(
        "{} belongs to volume group {group}, not {wanted}: it is left alone; find out whose that group is", .device.display()
    )]
    ForeignGroup {
        /// Path of the device node.
        device: PathBuf,
        /// The group that is there.
        group: String,
        /// The one that should be.
        wanted: String,
    },
    /// A mapping has the volume's name, and lies on other devices.
    #[error(
        "logical volume {volume} lies on {}, which are none of its namespaces: it is left alone; find out who made it",
        .devices.join(", ")
    )]
    ForeignMapping {
        /// `<group>/<logical volume>`.
        volume: String,
        /// Its devices.
        devices: Vec<String>,
    },
    /// The rabbit has not made the volume yet.
    #[error("logical volume {volume} is not on its namespaces: wait until the rabbit has made it")]
    NoVolume {
        /// `<group>/<logical volume>`.
        volume: String,
    },
    /// A RAID is not whole yet.
    #[error(
        "logical volume {volume} is being synchronised, {percent} % are done: wait until it is whole"
    )]
    Syncing {
        /// `<group>/<logical volume>`.
        volume: String,
        /// How much of it is done.
        percent: Percent,
    },
    /// A pool is not whole yet.
    #[error("zpool {pool} is being resilvered, {percent} % are done: wait until it is whole")]
    Resilvering {
        /// Name of the pool.
        pool: String,
        /// How much of it is done.
        percent: Percent,
    },
    /// The volume should be released and is still mounted.
    #[error("logical volume {volume} is mounted, or open, on this node: unmount it first")]
    StillMounted {
        /// `<group>/<logical volume>`.
        volume: String,
    },
    /// It was unmounted here, and is still in use.
    #[error(
        "{what} is not mounted at {target} any more, and still in use, by {holders}: it is let go when that has ended"
    )]
    StillInUse {
        /// The volume, the mount point that is bound, or the source of the Lustre file system.
        what: String,
        /// Where it was mounted.
        target: MountPoint,
        /// What still has it open or lies on it.
        holders: Holders,
    },
    /// It is not active here, and no line says how to activate it.
    #[error(
        "logical volume {volume} is not active, and the profile's lvChange.activate is empty: activate it, or name the \
         arguments"
    )]
    NoActivation {
        /// `<group>/<logical volume>`.
        volume: String,
    },
    /// A pool with the target's name lies on other devices.
    #[error(
        "zpool {pool} is not made of exactly the allocation's devices{}: it is left alone; find out who made it",
        differing(.strange, .unused)
    )]
    ForeignPool {
        /// Its name.
        pool: String,
        /// Devices of the pool that do not belong to the allocation, as zpool(8) names them.
        strange: Vec<String>,
        /// Devices of the allocation that the pool does not use and that replace no lost one.
        unused: Vec<PathBuf>,
    },
    /// The devices carry another pool than the target's.
    #[error(
        "the devices of zpool {wanted} carry zpool {found}: they are left alone; find out whose that pool is"
    )]
    OtherPool {
        /// The pool that is there.
        found: String,
        /// The one that should be.
        wanted: String,
    },
    /// Several pools of one name are written on the devices.
    #[error(
        "{count} pools called {pool} are on its devices, and which is the one cannot be told: import the right one by its number"
    )]
    ManyPools {
        /// Their name.
        pool: String,
        /// How many there are.
        count: usize,
    },
    /// A pool that cannot be used.
    #[error(
        "zpool {pool} is {state}: bring its drives back, or give the allocation up (zpool-status(8) tells what it lacks)"
    )]
    PoolBroken {
        /// Its name.
        pool: String,
        /// Its health in zpool(8)'s word, e.g. `UNAVAIL`.
        state: String,
    },
    /// The device holds somebody else's data.
    #[error("{} carries a foreign {kind} signature{}: it is left alone; wipe it by hand if nobody needs it", .device.display(), with_uuid(.uuid))]
    ForeignSignature {
        /// Path of the device node.
        device: PathBuf,
        /// As wipefs(8) names it.
        kind: String,
        /// Its UUID.
        uuid: Option<String>,
    },
    /// The device holds a file system of Warren's that belongs to another allocation.
    #[error("{} carries file system {found}, not {wanted}: the device belongs to another allocation", .device.display())]
    WrongFileSystem {
        /// Path of the device node.
        device: PathBuf,
        /// What is there.
        found: FileSystemId,
        /// What should be.
        wanted: FileSystemId,
    },
    /// The rabbit has not made the file system yet.
    #[error("{} carries no finished file system yet: wait until the rabbit has made {wanted}", .device.display())]
    NotMade {
        /// Path of the device node.
        device: PathBuf,
        /// What should be there.
        wanted: FileSystemId,
    },
    /// The device is too small for mkfs.
    #[error(transparent)]
    TooSmall(TooSmall),
    /// The agent did not read what is on the device.
    #[error(
        "{} could not be read in this look, so whether it carries a file system is not known and nothing is made on it: the agent \
         tries again; if this stays, check the drive and the kernel log", .device.display()
    )]
    NotLookedAt {
        /// Path of the device node.
        device: PathBuf,
    },
    /// Another mount is at the mount point.
    #[error("{target} is occupied by {kind} {from}: unmount it or use another mount path")]
    Occupied {
        /// The mount point.
        target: MountPoint,
        /// Its source.
        from: String,
        /// Its type.
        kind: String,
    },
    /// A mount of ours is covered by another mount.
    #[error("{target} is mounted, and another mount on {} covers it: unmount that one first", .at.display())]
    Covered {
        /// The mount point.
        target: MountPoint,
        /// The mount point of the covering mount.
        at: PathBuf,
    },
    /// The mount may be ours; nothing proves it.
    #[error(
        "{target} carries {kind} {from}, and its device cannot be read to tell whose it is: unmount it by hand"
    )]
    Unproved {
        /// The mount point.
        target: MountPoint,
        /// Its source.
        from: String,
        /// Its type.
        kind: String,
    },
    /// A symbolic link is in the way.
    #[error("{target} leads through the symbolic link {}: use the path it stands for, or remove it", .at.display())]
    ThroughSymlink {
        /// The mount point.
        target: MountPoint,
        /// The link.
        at: PathBuf,
    },
    /// A parent directory is a mount point of somebody's file system.
    #[error("{target} is inside the file system mounted on {}: use a path outside of it", .at.display())]
    ThroughMount {
        /// The mount point.
        target: MountPoint,
        /// Its mount point.
        at: PathBuf,
    },
    /// A parent is not a directory.
    #[error("{target} leads through {}, which is not a directory: remove it or use another mount path", .at.display())]
    ThroughFile {
        /// The mount point.
        target: MountPoint,
        /// The parent.
        at: PathBuf,
    },
    /// The mount point exists and is of the wrong type.
    #[error(
        "{target} is {found}, {kind} is mounted on {wanted}: remove it or use another mount path"
    )]
    WrongType {
        /// The mount point.
        target: MountPoint,
        /// What should be mounted.
        kind: FileSystemKind,
        /// What is there.
        found: &'static str,
        /// What should be.
        wanted: &'static str,
    },
    /// The mount would hide existing files.
    #[error(
        "{target} is not empty: a mount would hide what is in it; empty it or use another mount path"
    )]
    NotEmpty {
        /// The mount point.
        target: MountPoint,
    },
    /// The mount to bind does not exist.
    #[error("{from} is not mounted, so {target} cannot show it: wait until it is")]
    SourceNotMounted {
        /// The mount point of the mount to bind.
        from: MountPoint,
        /// The mount point.
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
        /// Root directory of the index tree.
        root: MountPoint,
        /// The name.
        name: String,
    },
    /// Two links of one name.
    #[error("{root}: compute {name} is listed twice: list each once")]
    DuplicateLink {
        /// Root directory of the index tree.
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

impl Rejection {
    /// What keeps `path` from leading to the directory `target`.
    pub(super) fn through(target: &MountPoint, path: &PathState) -> Self {
        let target = target.clone();
        match path {
            PathState::Symlink { at } => Self::ThroughSymlink { target, at: at.clone() },
            PathState::ThroughMount { at } => Self::ThroughMount { target, at: at.clone() },
            PathState::NotDirectory { at } => Self::ThroughFile { target, at: at.clone() },
            PathState::Absent
            | PathState::Directory { .. }
            | PathState::File { .. }
            | PathState::BlockDevice
            | PathState::Other => Self::ThroughFile { at: target.path(), target },
        }
    }
}

fn crowded(full: &[(Nqn, u32)]) -> String {
    let described = |(drive, most): &(Nqn, u32)| {
        format!("; {drive} has all {most} namespaces that it can have")
    };
    full.iter().map(described).collect()
}

fn unusable(faulty: &[(Nqn, String)]) -> String {
    let described = |(drive, fault): &(Nqn, String)| format!("{drive} cannot ({fault})");
    let described: Vec<_> = faulty.iter().map(described).collect();
    described.join(", ")
}

fn join(namespaces: &[NamespaceId]) -> String {
    if namespaces.is_empty() {
        return "(none is named)".to_owned();
    }
    let names: Vec<_> = namespaces.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn list(missing: &[Missing]) -> String {
    let described: Vec<_> = missing.iter().map(ToString::to_string).collect();
    described.join("; ")
}

fn differing(strange: &[String], unused: &[PathBuf]) -> String {
    let lies = (!strange.is_empty()).then(|| format!("it lies on {}", strange.join(", ")));
    let unused: Vec<_> = unused.iter().map(|path| path.display().to_string()).collect();
    let lacks = (!unused.is_empty()).then(|| format!("it lacks {}", unused.join(", ")));
    let described: Vec<_> = lies.into_iter().chain(lacks).collect();
    if described.is_empty() { String::new() } else { format!(" ({})", described.join("; ")) }
}

fn with_uuid(uuid: &Option<String>) -> String {
    uuid.as_ref().map_or_else(String::new, |uuid| format!(" (UUID {uuid})"))
}
