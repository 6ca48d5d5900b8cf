//! What ZFS and Lustre's tools are asked to do.

use std::fmt;

/// One command on one pool, or on the dataset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZfsAction {
    /// Make a pool.
    Create,
    /// Take up one that is written on the devices.
    Import,
    /// Put a device in the place of one that is lost.
    Replace,
    /// Destroy a pool with its data.
    Destroy,
    /// Destroy what a mkfs left when it was cut off.
    Discard,
    /// Make a Lustre target.
    Format,
}

impl ZfsAction {
    /// The step's word in journals.
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

    /// The command, with what makes it this action. An imported pool is kept out of the cache from which the node's boot
    /// would import it, and nothing in it is mounted by itself.
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
