//! The reasons for which the planner changes nothing.

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

/// The reason why a desired unit cannot be reached in the current state of the node. A rejected plan has no steps.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Rejection {
    #[error("allocation {allocation}: its capacity is 0 bytes: ask for at least 1 byte")]
    ZeroCapacity { allocation: AllocationId },
    #[error(
        "allocation {allocation}: no drive to allocate {requested} bytes on, because the agent finds no drive on this node: check its drives and their driver"
    )]
    NoDrives { allocation: AllocationId, requested: u64 },
    #[error(
        "insufficient capacity: {requested} bytes are requested on at least {least} drives, but only {usable} of {drives} drives \
         have room and can be used{}: check the drives of this node, or delete other allocations",
        full_drives(.full)
    )]
    TooFewDrives {
        requested: u64,
        usable: usize,
        least: usize,
        drives: usize,
        full: Vec<(Nqn, u32)>,
    },
    /// Too few drives are usable now, but there would be enough if the temporarily unusable drives came back.
    #[error(
        "{requested} bytes are requested on at least {least} drives, but only {usable} of {drives} drives have room and can be \
         used now; {}: wait until these drives work again, or exchange them",
        faulty_drives(.faulty)
    )]
    DrivesFaulty {
        requested: u64,
        usable: usize,
        least: usize,
        drives: usize,
        faulty: Vec<(Nqn, String)>,
    },
    #[error("insufficient capacity: {0}: ask for fewer bytes, or delete other allocations")]
    DriveRefused(RoomRefused),
    #[error(
        "insufficient capacity: {requested} bytes are requested, {each} on each of {drives} drives, but drive {lacking} has \
         only {left} of {capacity} bytes free: ask for fewer bytes, or delete other allocations"
    )]
    InsufficientCapacity {
        requested: u64,
        each: u64,
        drives: usize,
        lacking: Nqn,
        left: u64,
        capacity: u64,
    },
    #[error(
        "{}: the agent does not replace namespaces that may hold data: bring the drives back, or delete the allocation and its data",
        missing_list(.missing)
    )]
    Lost { allocation: AllocationId, missing: Vec<Missing> },
    #[error(
        "insufficient capacity: {requested} bytes are requested, but the disk that holds the pool of file drives has {available} \
         bytes free, of which existing namespaces may still take {promised}: free space on that disk"
    )]
    PoolFull {
        requested: u64,
        available: u64,
        /// Bytes that the sparse files of existing namespaces may still take.
        promised: u64,
    },
    #[error(
        "no device for {volume}: namespace {} is not visible on this node: wait until the rabbit attaches it, or check the PCIe link",
        namespace_list(.missing)
    )]
    NoDevice { volume: String, missing: Vec<NamespaceId> },
    #[error(
        "{volume} has {count} namespaces: without LVM a volume has exactly one; start the agents with --volumes lvm, and \
         use a profile with lines for LVM"
    )]
    TooManyDevices { volume: String, count: usize },
    #[error(
        "{} belongs to volume group {group}, not {wanted}: the agent leaves it alone; find out who made that group", .device.display()
    )]
    ForeignGroup { device: PathBuf, group: String, wanted: String },
    #[error(
        "logical volume {volume} lies on {}, which are none of its namespaces: the agent leaves it alone; find out who made it",
        .devices.join(", ")
    )]
    ForeignMapping { volume: String, devices: Vec<String> },
    #[error("logical volume {volume} is not on its namespaces: wait until the rabbit has made it")]
    NoVolume { volume: String },
    #[error(
        "logical volume {volume} is being synchronised, and {percent} % are done: wait until 100 % are done"
    )]
    Syncing { volume: String, percent: Percent },
    #[error(
        "zpool {pool} is being resilvered, and {percent} % are done: wait until 100 % are done"
    )]
    Resilvering { pool: String, percent: Percent },
    #[error("logical volume {volume} is mounted, or open, on this node: unmount it first")]
    StillMounted { volume: String },
    #[error(
        "{what} is no longer mounted at {target}, but is still in use by {holders}: the agent releases it when they have ended"
    )]
    StillInUse { what: String, target: MountPoint, holders: Holders },
    #[error(
        "logical volume {volume} is not active, and the profile's lvChange.activate is empty: activate the volume, or \
         set lvChange.activate"
    )]
    NoActivation { volume: String },
    #[error(
        "zpool {pool} does not consist of exactly the allocation's devices{}: the agent leaves it alone; find out who made it",
        difference(.strange, .unused)
    )]
    ForeignPool {
        pool: String,
        /// Devices of the pool that do not belong to the allocation, with their names from zpool(8).
        strange: Vec<String>,
        unused: Vec<PathBuf>,
    },
    #[error(
        "the devices of zpool {wanted} carry zpool {found}: the agent leaves them alone; find out who made that pool"
    )]
    OtherPool { found: String, wanted: String },
    #[error(
        "{count} pools called {pool} are on the allocation's devices, and the agent cannot choose between them: import the right pool by its numeric id"
    )]
    ManyPools { pool: String, count: usize },
    #[error(
        "zpool {pool} is {state}: bring its drives back, or delete the allocation and its data (zpool status shows the missing devices)"
    )]
    PoolBroken {
        pool: String,
        /// Health of the pool, in the words of zpool(8), for example `UNAVAIL`.
        state: String,
    },
    #[error("{} carries a foreign {kind} signature{}: the agent leaves it alone; wipe it by hand if its data is not needed", .device.display(), with_uuid(.uuid))]
    ForeignSignature {
        device: PathBuf,
        /// Type of the signature, as wipefs(8) names it.
        kind: String,
        uuid: Option<String>,
    },
    #[error("{} carries file system {found} of another allocation, not {wanted}: the agent leaves it alone; find out why both allocations have this device", .device.display())]
    WrongFileSystem { device: PathBuf, found: FileSystemId, wanted: FileSystemId },
    #[error("{} carries no finished file system yet: wait until the rabbit has made file system {wanted}", .device.display())]
    NotMade { device: PathBuf, wanted: FileSystemId },
    #[error(transparent)]
    TooSmall(TooSmall),
    #[error(
        "{} could not be read and may carry a file system, so the agent makes no file system on it: the agent tries again; if the \
         error persists, check the drive and the kernel log", .device.display()
    )]
    SignatureUnread { device: PathBuf },
    #[error("{target} is occupied by {kind} {from}: unmount it or use another mount path")]
    Occupied { target: MountPoint, from: String, kind: String },
    #[error("{target} is mounted, and another mount on {} covers it: unmount the covering mount first", .at.display())]
    Covered { target: MountPoint, at: PathBuf },
    /// The mount may be Warren's, but nothing proves it.
    #[error(
        "{target} carries {kind} {from}, and its owner is unknown because its device cannot be read: unmount it by hand"
    )]
    Unproved { target: MountPoint, from: String, kind: String },
    #[error("{target} leads through the symbolic link {}: use the path that the link points to, or remove the link", .at.display())]
    ThroughSymlink { target: MountPoint, at: PathBuf },
    #[error("{target} is inside the file system mounted on {}: use a path outside of it", .at.display())]
    ThroughMount { target: MountPoint, at: PathBuf },
    #[error("{target} leads through {}, which is not a directory: remove that file, or use another mount path", .at.display())]
    ThroughFile { target: MountPoint, at: PathBuf },
    #[error(
        "{target} is {found}, but {kind} can be mounted only on {wanted}: remove {target}, or use another mount path"
    )]
    WrongType {
        target: MountPoint,
        kind: FileSystemKind,
        found: &'static str,
        wanted: &'static str,
    },
    /// The mount would hide existing files.
    #[error(
        "{target} is not empty: a mount would hide its contents; empty it or use another mount path"
    )]
    NotEmpty { target: MountPoint },
    #[error(
        "{from} is not mounted, so it cannot be shown at {target}: wait until {from} is mounted"
    )]
    SourceNotMounted { from: MountPoint, target: MountPoint },
    #[error(
        "mkfs: {line:?} sets a UUID: remove that option from the profile, because the agent recognises file systems by the UUID that it derives"
    )]
    MkfsSetsUuid { line: String },
    #[error(
        "{root}/{name} is not a symbolic link: remove it, because the index tree needs a link with this name"
    )]
    NotALink { root: MountPoint, name: String },
    #[error("index tree {root}: compute {name} is listed twice: list each compute once")]
    DuplicateLink { root: MountPoint, name: String },
    #[error("{what} is not supported by this build: {remedy}")]
    Unsupported { what: String, remedy: &'static str },
}

impl Rejection {
    /// Returns the rejection for a `path` that does not lead to the directory `target`.
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

fn full_drives(full: &[(Nqn, u32)]) -> String {
    let described =
        |(drive, most): &(Nqn, u32)| format!("; all {most} namespaces of {drive} are in use");
    full.iter().map(described).collect()
}

fn faulty_drives(faulty: &[(Nqn, String)]) -> String {
    let described = |(drive, fault): &(Nqn, String)| format!("{drive} cannot be used ({fault})");
    let described: Vec<_> = faulty.iter().map(described).collect();
    described.join(", ")
}

fn namespace_list(namespaces: &[NamespaceId]) -> String {
    if namespaces.is_empty() {
        return "(the object lists no namespace)".to_owned();
    }
    let names: Vec<_> = namespaces.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn missing_list(missing: &[Missing]) -> String {
    let described: Vec<_> = missing.iter().map(ToString::to_string).collect();
    described.join("; ")
}

fn difference(strange: &[String], unused: &[PathBuf]) -> String {
    let lies = (!strange.is_empty()).then(|| format!("it lies on {}", strange.join(", ")));
    let unused: Vec<_> = unused.iter().map(|path| path.display().to_string()).collect();
    let lacks = (!unused.is_empty()).then(|| format!("it lacks {}", unused.join(", ")));
    let described: Vec<_> = lies.into_iter().chain(lacks).collect();
    if described.is_empty() { String::new() } else { format!(" ({})", described.join("; ")) }
}

fn with_uuid(uuid: &Option<String>) -> String {
    uuid.as_ref().map_or_else(String::new, |uuid| format!(" (UUID {uuid})"))
}
