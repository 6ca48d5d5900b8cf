//! The commands of ZFS and of Lustre's tools that a step can run.

use std::fmt;

/// A command on a pool, or on the dataset in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZfsAction {
    Create,
    Import,
    Replace,
    Destroy,
    /// Destroys the dataset that an interrupted mkfs left.
    Discard,
    Format,
}

impl ZfsAction {
    /// Returns three texts: the word for journals, the command, and a description of the action. The import's
    /// options keep the pool out of the cache from which the node imports pools at boot, and keep ZFS from
    /// mounting the pool's datasets.
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

    /// Returns the word for the step in journals.
    pub fn kind(self) -> &'static str {
        self.words().0
    }

    /// Returns the command with the options that make it this action.
    pub fn command(self) -> &'static str {
        self.words().1
    }
}

impl fmt::Display for ZfsAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words().2)
    }
}
