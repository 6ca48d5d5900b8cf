//! Paths beneath the allowed roots, and the mounts there.

use std::{collections::BTreeMap, path::PathBuf};

use super::DeviceNumber;
use crate::desired::{FileSystemId, FileSystemKind, NamespaceId, Owner};

/// The object at a path beneath an allowed root. Symbolic links are not followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PathState {
    /// The path, or a parent of it, does not exist.
    #[default]
    Absent,
    Directory {
        /// Whether the directory is empty. False also for a mount point, whose contents are not read.
        empty: bool,
    },
    File {
        empty: bool,
    },
    /// A block device: a raw volume that is bind-mounted on a file.
    BlockDevice,
    /// A FIFO, a socket or a character device.
    Other,
    /// The path, or a parent of it, is a symbolic link.
    Symlink {
        at: PathBuf,
    },
    /// A parent is not a directory.
    NotDirectory {
        at: PathBuf,
    },
    /// A parent is a mount point: the path belongs to the owner of the file system mounted there.
    ThroughMount {
        at: PathBuf,
    },
}

/// A mount point, and the mounts at its path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetState {
    pub path: PathState,
    /// The topmost mount at the path; `None` if a mount at a parent directory covers it.
    pub mounted: Option<MountedThing>,
    /// Mounts at the path that other mounts cover, at the path itself or at a parent; topmost first.
    pub beneath: Vec<MountedThing>,
    pub owner: Option<Owner>,
    /// Whether the path is absent and its nearest existing parent is an empty directory that was made for mount points.
    pub parent_empty: bool,
}

/// One entry of the mount table (proc_pid_mountinfo(5)), with the facts that prove its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedThing {
    /// Device of the file system; for a block device that is bind-mounted on a file, that block device.
    pub device: DeviceNumber,
    /// Source of the mount, from the mount table.
    pub source: String,
    /// File system type; `none` for a block device that is bind-mounted on a file.
    pub kind: String,
    /// The part of the file system that is mounted; `/` for all of it.
    pub root: String,
    /// The owner of the file system, from its superblock.
    pub superblock: Superblock,
    /// The namespace that `device` is, or one of the namespaces beneath it if it is a logical volume that lies only on
    /// namespaces; `None` for any other device.
    pub namespace: Option<NamespaceId>,
}

impl MountedThing {
    /// Returns whether the mount is provably Warren's: a file system that Warren made, or a namespace that is
    /// bind-mounted on a file.
    pub fn is_warrens(&self) -> bool {
        matches!(self.superblock, Superblock::Ours(_))
            || (self.namespace.is_some() && self.kind == FileSystemKind::Raw.as_str())
    }
}

/// The owner of a mounted file system, according to its superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superblock {
    Ours(FileSystemId),
    Foreign,
    /// The device cannot be read, or the agent does not read superblocks of this type.
    Unknown,
}

/// The root of an index tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeState {
    pub path: PathState,
    pub entries: BTreeMap<String, TreeEntry>,
}

/// An entry of an index tree's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    Link(String),
    Other,
}
