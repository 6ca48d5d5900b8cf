//! Paths beneath the allowed roots, and what is mounted there.

use std::{collections::BTreeMap, path::PathBuf};

use super::DeviceNumber;
use crate::desired::{FileSystemId, FileSystemKind, NamespaceId, Owner};

/// What a path beneath an allowed root leads to. Symbolic links are not followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PathState {
    /// The path, or a parent of it, does not exist.
    #[default]
    Absent,
    Directory {
        /// Whether it is empty; false without looking when something is mounted there.
        empty: bool,
    },
    File {
        empty: bool,
    },
    /// A block device: a raw volume bound on a file.
    BlockDevice,
    /// A FIFO, a socket or a character device.
    Other,
    /// A symbolic link stands in the way, or at the end.
    Symlink {
        at: PathBuf,
    },
    /// A parent is not a directory.
    NotDirectory {
        at: PathBuf,
    },
    /// A parent is a mount point: what is beneath belongs to whoever owns that file system.
    ThroughMount {
        at: PathBuf,
    },
}

/// A mount point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetState {
    pub path: PathState,
    /// The topmost mount there, when it can be reached.
    pub mounted: Option<MountedThing>,
    /// Mounts at this path that another mount covers, there or at a parent; topmost first.
    pub beneath: Vec<MountedThing>,
    pub owner: Option<Owner>,
    /// Whether it is absent and its nearest existing parent is an empty directory that was made for mount points.
    pub parent_empty: bool,
}

/// One entry of the mount table (proc_pid_mountinfo(5)), with what proves whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedThing {
    /// The file system's device; of a bound block device, that device.
    pub device: DeviceNumber,
    /// Its source, as the mount table has it.
    pub source: String,
    /// File system type; `none` for a block device bound on a file.
    pub kind: String,
    /// The part of the file system that is mounted; `/` for all of it.
    pub root: String,
    /// The owner of the file system, from its superblock.
    pub superblock: Superblock,
    /// The namespace behind `device`, when it is one of the drives'.
    pub namespace: Option<NamespaceId>,
}

impl MountedThing {
    /// Whether it is provably a mount of Warren's: a file system Warren made, or a namespace bound on a file.
    pub fn is_warrens(&self) -> bool {
        matches!(self.superblock, Superblock::Ours(_))
            || (self.namespace.is_some() && self.kind == FileSystemKind::Raw.as_str())
    }
}

/// Whose a mounted file system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superblock {
    Ours(FileSystemId),
    Foreign,
    /// Unknown: its device cannot be read, or the agent does not read superblocks of its type.
    Unknown,
}

/// The root of an index tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeState {
    pub path: PathState,
    pub entries: BTreeMap<String, TreeEntry>,
}

/// One name in an index tree's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    Link(String),
    Other,
}
