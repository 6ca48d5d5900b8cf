//! Mounts: a file system at a mount point.

use super::{FileSystemId, FileSystemKind, Hook, HookScope, MountPoint, Volume};
use crate::template::SiteCommand;

/// Numeric owner of the root of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// A file in a mount's root that describes the mount to its users. All users may read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootFile {
    pub name: String,
    pub text: String,
    pub owner: Owner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountSource {
    /// A file system on a volume, identified by its UUID. The contents of a raw volume cannot be identified, because a
    /// raw volume has no superblock.
    Volume {
        volume: Volume,
        /// The UUID that the superblock of the file system must have.
        id: FileSystemId,
    },
    /// Another mount point, whose mount is bind-mounted (`mount --bind`) at this mount point too. Only the agent's flag
    /// `--index-root` asks for such mounts.
    Bind(MountPoint),
    /// A Lustre file system: `<mgs nids>:/<fsname>`.
    Lustre(String),
}

/// One file system at one mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub scope: HookScope,
    pub target: MountPoint,
    /// Type of the file system. A raw volume is mounted on a file, a volume of any other type on a directory.
    pub kind: FileSystemKind,
    pub source: MountSource,
    /// Arguments of `mount -t <kind>`; `None` when the site's line is empty: the agent then skips the
    /// mount and its checks.
    pub mount: Option<SiteCommand>,
    /// Arguments of `umount`; `None` when the site's line is empty: the agent then skips the unmount and its checks.
    pub unmount: Option<SiteCommand>,
    /// Owner of the mount's root, when the object sets `setPermissions`.
    pub owner: Option<Owner>,
    pub file: Option<RootFile>,
    pub hooks: Vec<Hook>,
}

impl Mount {
    /// Returns the volume group that the mount needs; for a mount without a volume group, its mount point.
    pub fn group(&self) -> String {
        match &self.source {
            MountSource::Volume { volume, .. } => volume.group.clone(),
            MountSource::Bind(_) | MountSource::Lustre(_) => self.target.to_string(),
        }
    }
}
