//! Commands of ZFS and of Lustre's tools.

use std::fmt;

/// One command on one pool, or on the dataset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZfsAction {
    /// Create a pool.
    Create,
    /// Import a pool from the devices.
    Import,
    /// Replace a lost device by another.
    Replace,
    /// Destroy a pool with its data.
    Destroy,
    /// Destroy what an interrupted mkfs left.
    Discard,
    /// Make a Lustre target.
    Format,
}

impl ZfsAction {
    /// The word for the step in journals.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Create => "zpool-create",
            Self::Import => "zpool-import",
            Self::Replace => "zpool-replace",
            Self::Destroy => "zpool-destroy",
            Self::Discard => "zfs-destroy",
            Self::Format => "mkfs-target",
        }
    }

    /// The command, with the options that make it this action. An imported pool is not in the cache from which the node
    /// imports pools at boot, and ZFS mounts none of its datasets by itself.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Create => "zpool create",
            Self::Import => "zpool import -N -o cachefile=none",
            Self::Replace => "zpool replace",
            Self::Destroy => "zpool destroy",
            Self::Discard => "zfs destroy",
            Self::Format => "mkfs -t lustre",
        }
    }
}

impl fmt::Display for ZfsAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "make zpool",
            Self::Import => "import zpool",
            Self::Replace => "replace a lost device of zpool",
            Self::Destroy => "destroy zpool",
            Self::Discard => "destroy unfinished Lustre target",
            Self::Format => "make Lustre target",
        })
    }
}
