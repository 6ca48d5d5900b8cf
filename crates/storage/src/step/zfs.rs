//! Commands of ZFS and of Lustre's tools.

use std::fmt;

/// One command on one pool, or on the dataset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZfsAction {
    Create,
    Import,
    Replace,
    Destroy,
    /// Destroys what an interrupted mkfs left.
    Discard,
    Format,
}

impl ZfsAction {
    /// The word for journals, the command, and the action in words. An imported pool is not in the cache from which the node
    /// imports pools at boot, and ZFS mounts none of its datasets by itself.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Create => ("zpool-create", "zpool create", "make zpool"),
            Self::Import => ("zpool-import", "zpool import -N -o cachefile=none", "import zpool"),
            Self::Replace => ("zpool-replace", "zpool replace", "replace a lost device of zpool"),
            Self::Destroy => ("zpool-destroy", "zpool destroy", "destroy zpool"),
            Self::Discard => ("zfs-destroy", "zfs destroy", "destroy unfinished Lustre target"),
            Self::Format => ("mkfs-target", "mkfs -t lustre", "make Lustre target"),
        }
    }

    /// The word for the step in journals.
    pub fn kind(self) -> &'static str {
        self.words().0
    }

    /// The command, with the options that make it this action.
    pub fn command(self) -> &'static str {
        self.words().1
    }
}

impl fmt::Display for ZfsAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words().2)
    }
}
