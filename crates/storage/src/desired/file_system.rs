//! File systems: made once on an allocation, and recognised by their UUID from then on.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use super::{Hook, HookScope, MountPoint, ObjectUid, Volume};
use crate::template::SiteCommand;

/// UUID of a file system that Warren made.
///
/// The UUID is derived from facts about the allocation that every node knows, so a compute can prove that it is about
/// to mount the right file system. The first four bytes spell "wrrn" (a version 8 UUID, RFC 9562 section 5.8, leaves
/// them free): by these bytes a starting agent recognises Warren's file systems without a list of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSystemId(Uuid);

const MARK: [u8; 4] = *b"wrrn";

impl FileSystemId {
    /// Derives the id of allocation `index` of an NnfNodeStorage.
    ///
    /// `owner` is the uid of the NnfStorage that owns the NnfNodeStorage (label `owner.uid` on the NnfNodeStorage,
    /// `target_owner_uid` on a ClientMount).
    pub fn derive(owner: ObjectUid, rabbit: &str, node_storage: &str, index: u32) -> Self {
        let name = format!("{owner}/{rabbit}/{node_storage}/{index}");
        let mut bytes = *Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).as_bytes();
        bytes[..4].copy_from_slice(&MARK);
        Self(Uuid::new_v8(bytes))
    }

    /// Recognises a UUID that Warren derived; returns `None` for any other.
    pub fn recognise(uuid: Uuid) -> Option<Self> {
        (uuid.as_bytes()[..4] == MARK && uuid.get_version_num() == 8).then_some(Self(uuid))
    }

    /// Returns the UUID as it stands in the superblock.
    pub fn uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for FileSystemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The contents of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileSystemKind {
    /// No file system: the block device itself is bind-mounted on a file.
    Raw,
    /// XFS, mounted by one node at a time.
    Xfs,
    /// GFS2, mounted by many nodes at a time.
    Gfs2,
    Lustre,
}

impl FileSystemKind {
    /// Returns the bytes of the smallest device that mkfs accepts: mkfs.xfs(8) refuses less than 300 MiB since xfsprogs
    /// 5.19; mkfs.gfs2(8) needs 16 MiB with one journal, and more with several.
    pub fn least(self) -> u64 {
        match self {
            Self::Raw | Self::Lustre => 0,
            Self::Xfs => 300 << 20,
            Self::Gfs2 => 16 << 20,
        }
    }

    /// Returns the type as mount(2) and `mkfs -t` name it; `none` for raw.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "none",
            Self::Xfs => "xfs",
            Self::Gfs2 => "gfs2",
            Self::Lustre => "lustre",
        }
    }
}

impl fmt::Display for FileSystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            other => other.as_str(),
        })
    }
}

/// A word that is not a known file system type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("file system type {0:?} is not known: use raw, xfs, gfs2 or lustre")]
pub struct FileSystemKindError(String);

impl FromStr for FileSystemKind {
    type Err = FileSystemKindError;

    /// Parses the type. The raw type is spelled `raw` in an NnfNodeStorage, and `none` in a ClientMount.
    fn from_str(text: &str) -> Result<Self, FileSystemKindError> {
        match text {
            "raw" | "none" => Ok(Self::Raw),
            "xfs" => Ok(Self::Xfs),
            "gfs2" => Ok(Self::Gfs2),
            "lustre" => Ok(Self::Lustre),
            other => Err(FileSystemKindError(other.to_owned())),
        }
    }
}

/// A file system that should be ready on a rabbit, with the site's lines and hooks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// UUID of the file system; for raw, which has no superblock, only the key of its hook records.
    pub id: FileSystemId,
    pub kind: FileSystemKind,
    pub volume: Volume,
    /// Arguments of `mkfs -t <kind>`; `None` when the site's line is empty: the agent then skips mkfs and its checks.
    pub mkfs: Option<SiteCommand>,
    pub hooks: Vec<Hook>,
    /// Arguments of `mount -t <kind>` for the temporary mount.
    pub mount: Option<SiteCommand>,
    /// The mount point at which the file system is mounted while hooks work in it.
    pub temporary: MountPoint,
}

impl FileSystem {
    /// Returns the key under which the file system's hook runs are recorded.
    pub fn scope(&self) -> HookScope {
        HookScope::file_system(&self.id)
    }
}
