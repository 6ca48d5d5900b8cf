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

/// A desired unit that cannot be carried out in the current state of the node. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Rejection {
    #[error("allocation {allocation}: capacity is 0 bytes: ask for at least 1")]
    ZeroCapacity { allocation: AllocationId },
    #[error(
        "allocation {allocation}: no drive to allocate {asked} bytes on; this node knows of none: check its drives and their driver"
    )]
    NoDrives { allocation: AllocationId, asked: u64 },
    #[error(
        "insufficient capacity: {asked} bytes asked for, over at least {least} drives, and {usable} of {drives} have room and can \
         be used{}: check the drives of this node, or free allocations",
        crowded(.full)
    )]
    TooFewDrives { asked: u64, usable: usize, least: usize, drives: usize, full: Vec<(Nqn, u32)> },
    /// Too few drives are usable now; together with the temporarily unusable drives there would be enough.
    #[error(
        "{asked} bytes asked for, over at least {least} drives, and {usable} of {drives} have room and can be used now: {}: wait \
         for them, or exchange them if they stay so",
        unusable(.faulty)
    )]
    DrivesFaulty {
        asked: u64,
        usable: usize,
        least: usize,
        drives: usize,
        faulty: Vec<(Nqn, String)>,
    },
    #[error("insufficient capacity: {0}: ask for less or free allocations")]
    DriveRefused(RoomRefused),
    #[error(
        "insufficient capacity: {asked} bytes asked for, {each} on each of {drives} drives, and {lacking} has {left} of \
         {capacity} bytes left: ask for less or free allocations"
    )]
    InsufficientCapacity {
        asked: u64,
        each: u64,
        drives: usize,
        lacking: Nqn,
        left: u64,
        capacity: u64,
    },
    #[error(
        "{}: the agent does not replace namespaces that may hold data: bring the drives back, or give the allocation up",
        list(.missing)
    )]
    Lost { allocation: AllocationId, missing: Vec<Missing> },
    #[error(
        "insufficient capacity: {asked} bytes asked for, the disk that holds the pool has {available} bytes free, of \
         which {promised} are promised to other namespaces: free space on it"
    )]
    PoolFull {
        asked: u64,
        available: u64,
        /// Bytes that sparse files may still take.
        promised: u64,
    },
    #[error(
        "no device for {volume}: namespace {} is not visible on this node: wait for access, or check the PCIe link",
        join(.missing)
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
        "logical volume {volume} is being synchronised, {percent} % are done: wait until it is whole"
    )]
    Syncing { volume: String, percent: Percent },
    #[error("zpool {pool} is being resilvered, {percent} % are done: wait until it is whole")]
    Resilvering { pool: String, percent: Percent },
    #[error("logical volume {volume} is mounted, or open, on this node: unmount it first")]
    StillMounted { volume: String },
    #[error(
        "{what} is no longer mounted at {target}, but is still in use by {holders}: the agent releases it when they have ended"
    )]
    StillInUse { what: String, target: MountPoint, holders: Holders },
    #[error(
        "logical volume {volume} is not active, and the profile's lvChange.activate is empty: activate it, or name the \
         arguments"
    )]
    NoActivation { volume: String },
    #[error(
        "zpool {pool} is not made of exactly the allocation's devices{}: the agent leaves it alone; find out who made it",
        differing(.strange, .unused)
    )]
    ForeignPool {
        pool: String,
        /// Devices of the pool that do not belong to the allocation, as zpool(8) names them.
        strange: Vec<String>,
        unused: Vec<PathBuf>,
    },
    #[error(
        "the devices of zpool {wanted} carry zpool {found}: the agent leaves them alone; find out who made that pool"
    )]
    OtherPool { found: String, wanted: String },
    #[error(
        "{count} pools called {pool} are on its devices, and the agent cannot choose one: import the right one by its number"
    )]
    ManyPools { pool: String, count: usize },
    #[error(
        "zpool {pool} is {state}: bring its drives back, or give the allocation up (zpool status shows the missing devices)"
    )]
    PoolBroken {
        pool: String,
        /// Health of the pool in the word of zpool(8), for example `UNAVAIL`.
        state: String,
    },
    #[error("{} carries a foreign {kind} signature{}: the agent leaves it alone; wipe it by hand if its data is not needed", .device.display(), with_uuid(.uuid))]
    ForeignSignature {
        device: PathBuf,
        /// Type of the signature, as wipefs(8) names it.
        kind: String,
        uuid: Option<String>,
    },
    #[error("{} carries file system {found}, not {wanted}: the device belongs to another allocation", .device.display())]
    WrongFileSystem { device: PathBuf, found: FileSystemId, wanted: FileSystemId },
    #[error("{} carries no finished file system yet: wait until the rabbit has made {wanted}", .device.display())]
    NotMade { device: PathBuf, wanted: FileSystemId },
    #[error(transparent)]
    TooSmall(TooSmall),
    #[error(
        "{} could not be read, so it may carry a file system and the agent makes none on it: the agent tries again; if this stays, \
         check the drive and the kernel log", .device.display()
    )]
    NotLookedAt { device: PathBuf },
    #[error("{target} is occupied by {kind} {from}: unmount it or use another mount path")]
    Occupied { target: MountPoint, from: String, kind: String },
    #[error("{target} is mounted, and another mount on {} covers it: unmount that one first", .at.display())]
    Covered { target: MountPoint, at: PathBuf },
    /// The mount may be Warren's, but nothing proves it.
    #[error(
        "{target} carries {kind} {from}, and its owner is unknown because its device cannot be read: unmount it by hand"
    )]
    Unproved { target: MountPoint, from: String, kind: String },
    #[error("{target} leads through the symbolic link {}: use the path it stands for, or remove it", .at.display())]
    ThroughSymlink { target: MountPoint, at: PathBuf },
    #[error("{target} is inside the file system mounted on {}: use a path outside of it", .at.display())]
    ThroughMount { target: MountPoint, at: PathBuf },
    #[error("{target} leads through {}, which is not a directory: remove it or use another mount path", .at.display())]
    ThroughFile { target: MountPoint, at: PathBuf },
    #[error(
        "{target} is {found}, {kind} is mounted on {wanted}: remove it or use another mount path"
    )]
    WrongType {
        target: MountPoint,
        kind: FileSystemKind,
        found: &'static str,
        wanted: &'static str,
    },
    /// The mount would hide existing files.
    #[error(
        "{target} is not empty: a mount would hide what is in it; empty it or use another mount path"
    )]
    NotEmpty { target: MountPoint },
    #[error("{from} is not mounted, so {target} cannot show it: wait until it is")]
    SourceNotMounted { from: MountPoint, target: MountPoint },
    #[error(
        "mkfs: {line:?} sets uuid: remove it from the profile, because the agent recognises file systems by the UUID that it derives"
    )]
    MkfsSetsUuid { line: String },
    #[error("{root}/{name} is not a symbolic link: remove it, the index tree needs the name")]
    NotALink { root: MountPoint, name: String },
    #[error("{root}: compute {name} is listed twice: list each once")]
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

fn crowded(full: &[(Nqn, u32)]) -> String {
    let described =
        |(drive, most): &(Nqn, u32)| format!("; all {most} namespaces of {drive} are in use");
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
