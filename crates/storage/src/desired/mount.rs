//! Mounts: one file system at one mount point.

use super::{FileSystemId, FileSystemKind, Hook, HookScope, MountPoint, Volume};
use crate::template::SiteCommand;

/// Numeric owner of a mount's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A file in a mount's root that tells its users about it. Everybody may read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootFile {
    /// Its name.
    pub name: String,
    /// All of it.
    pub text: String,
    /// To whom it belongs.
    pub owner: Owner,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountSource {
    /// A file system on a volume, proved by its UUID. Raw volumes have no superblock to prove.
    Volume {
        /// The volume that it is on.
        volume: Volume,
        /// The UUID that its superblock must have.
        id: FileSystemId,
    },
    /// Another mount, bound to this mount point too, for `--index-root`.
    Bind(MountPoint),
    /// A Lustre file system: `<mgs nids>:/<fsname>`.
    Lustre(String),
}

/// A site's hooks around a mount, in the order of their fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountHooks {
    /// Before the volume is activated.
    pub pre_activate: Vec<Hook>,
    /// After it is.
    pub post_activate: Vec<Hook>,
    /// Before mounting.
    pub pre_mount: Vec<Hook>,
    /// After mounting and chown.
    pub post_mount: Vec<Hook>,
    /// Before unmounting.
    pub pre_unmount: Vec<Hook>,
    /// After unmounting.
    pub post_unmount: Vec<Hook>,
    /// Before the volume is deactivated.
    pub pre_deactivate: Vec<Hook>,
    /// After it is.
    pub post_deactivate: Vec<Hook>,
}

/// One file system at one mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The key of its hook records.
    pub scope: HookScope,
    /// The mount point.
    pub target: MountPoint,
    /// Its type. Raw is bound on a file, everything else on a directory.
    pub kind: FileSystemKind,
    /// The file system to mount.
    pub source: MountSource,
    /// Arguments of `mount -t <kind>`; `None` when the site's line is empty: the step and its checks are skipped.
    pub mount: Option<SiteCommand>,
    /// Arguments of `umount`; `None` likewise.
    pub unmount: Option<SiteCommand>,
    /// Owner of the mount's root, when the object says `setPermissions`.
    pub owner: Option<Owner>,
    /// A file to write into its root.
    pub file: Option<RootFile>,
    /// The site's hooks.
    pub hooks: MountHooks,
}

impl Mount {
    /// The volume group it needs, else its mount point.
    #[must_use]
    pub fn group(&self) -> String {
        match &self.source {
            MountSource::Volume { volume, .. } => volume.group.clone(),
            MountSource::Bind(_) | MountSource::Lustre(_) => self.target.to_string(),
        }
    }
}
