//! Paths beneath the allowed roots, and what is mounted there.

use std::{collections::BTreeMap, path::PathBuf};

use super::DeviceNumber;
use crate::desired::{FileSystemId, FileSystemKind, NamespaceId, Owner};

/// What a path beneath an allowed root leads to; no symbolic link is followed to find out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PathState {
    /// Nothing, or a parent is missing.
    #[default]
    Absent,
    /// A directory.
    Directory {
        /// Whether nothing is in it; of a mounted one this is not looked at, and false.
        empty: bool,
    },
    /// A regular file.
    File {
        /// Whether it is empty.
        empty: bool,
    },
    /// A block device: a raw volume bound on a file.
    BlockDevice,
    /// A FIFO, a socket or a character device.
    Other,
    /// A symbolic link stands in the way, or at the end.
    Symlink {
        /// The link.
        at: PathBuf,
    },
    /// A parent is not a directory.
    NotDirectory {
        /// The parent.
        at: PathBuf,
    },
    /// A parent is a mount point: what is beneath belongs to whoever owns that file system.
    ThroughMount {
        /// The parent.
        at: PathBuf,
    },
}

/// A mount point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetState {
    /// What is there.
    pub path: PathState,
    /// The topmost mount there, when it can be reached.
    pub mounted: Option<MountedThing>,
    /// Mounts at this very path that cannot be reached, topmost first: another one there, or on a parent, covers them.
    pub beneath: Vec<MountedThing>,
    /// Owner of what is there.
    pub owner: Option<Owner>,
    /// Whether it is absent, and the nearest directory above it is empty and one that was made for mount points.
    pub parent_empty: bool,
}

/// One entry of the mount table (proc_pid_mountinfo(5)), with what proves whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedThing {
    /// The file system's device; of a bound block device, that device.
    pub device: DeviceNumber,
    /// As the kernel tells it.
    pub source: String,
    /// File system type; `none` for a block device bound on a file.
    pub kind: String,
    /// The part of the file system that shows, `/` for all of it.
    pub root: String,
    /// Whose file system it is, as its superblock tells.
    pub superblock: Superblock,
    /// The namespace that `device` is, when it is one of the pool's.
    pub namespace: Option<NamespaceId>,
}

impl MountedThing {
    /// Whether it is provably a mount of Warren's: a file system Warren made, or a namespace bound on a file.
    #[must_use]
    pub fn is_warrens(&self) -> bool {
        matches!(self.superblock, Superblock::Ours(_))
            || (self.namespace.is_some() && self.kind == FileSystemKind::Raw.as_str())
    }
}

/// Whose a mounted file system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superblock {
    /// One that Warren made.
    Ours(FileSystemId),
    /// Somebody else's.
    Foreign,
    /// It cannot be told: its device cannot be read, or its type is one whose superblock is not read here.
    Unknown,
}

/// The root of an index tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeState {
    /// What is at its path.
    pub path: PathState,
    /// What is in it.
    pub entries: BTreeMap<String, TreeEntry>,
}

/// One name in an index tree's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    /// A symbolic link and its text.
    Link(String),
    /// Anything else.
    Other,
}
