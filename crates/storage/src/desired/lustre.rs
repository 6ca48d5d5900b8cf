//! Lustre targets. Each is a dataset in a ZFS pool on an allocation; a Lustre service is mounted from the dataset.

use std::fmt;

use super::{AllocationId, FileSystemId, Hook, HookScope, MountPoint, NameError, NamespaceId};
use crate::template::SiteCommand;

/// Maximum bytes of a dataset's full name, `<pool>/<name>` (`ZFS_MAX_DATASET_NAME_LEN` is 256, including the NUL).
const LONGEST: usize = 255;

/// Words with which a pool's name must not begin (zpool-create(8)).
const RESERVED: [&str; 5] = ["mirror", "raidz", "draid", "spare", "log"];

/// The dataset that is a Lustre target, and its pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dataset {
    pool: String,
    name: String,
}

impl Dataset {
    /// Checks the two names: each consists of letters, digits, `_`, `-`, `.` and `:` (zpool-create(8), zfs(8)).
    pub fn new(pool: &str, name: &str) -> Result<Self, NameError> {
        let is_plain = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
        };
        let begins = pool.starts_with(|first: char| first.is_ascii_alphabetic());
        let reserved = RESERVED.iter().any(|word| pool.starts_with(word));
        let fits = pool.len() + 1 + name.len() <= LONGEST;
        if is_plain(pool) && is_plain(name) && begins && !reserved && fits {
            return Ok(Self { pool: pool.to_owned(), name: name.to_owned() });
        }
        Err(NameError::NotDataset(format!("{pool}/{name}")))
    }

    /// Returns the name of the pool.
    pub fn pool(&self) -> &str {
        &self.pool
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.name)
    }
}

/// A site's arguments for the commands of a target. `None` where the site's line is empty: the agent then skips the
/// command and its checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetLines {
    pub create: Option<SiteCommand>,
    pub destroy: Option<SiteCommand>,
    /// `zpool replace`, for each lost device.
    pub replace: Option<SiteCommand>,
    pub mkfs: Option<SiteCommand>,
    /// `mount -t lustre`, for the target.
    pub mount: Option<SiteCommand>,
    /// `umount`, for the target.
    pub unmount: Option<SiteCommand>,
}

/// A client mount of the whole Lustre file system, in which hooks can work on its files. Only the rabbit that has the
/// file system's first object target makes this mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LustreClient {
    /// The source of the mount, `<mgs nids>:/<fsname>`.
    pub source: String,
    /// The mount point at which the file system is mounted while hooks work in it.
    pub temporary: MountPoint,
    /// Arguments of `mount -t lustre` for the client mount; without them, hooks that need the client mount do not run.
    pub mount: Option<SiteCommand>,
}

/// A Lustre target that should serve on a rabbit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LustreTarget {
    pub id: FileSystemId,
    pub dataset: Dataset,
    pub namespaces: Vec<NamespaceId>,
    /// The allocation that the namespaces were made for; only the rabbit knows it. A drive reuses NSIDs, so a namespace
    /// that is now recorded for another allocation does not belong to the target.
    pub made_for: Option<AllocationId>,
    /// The mount point at which the target is mounted while it serves clients.
    pub target: MountPoint,
    pub lines: TargetLines,
    pub hooks: Vec<Hook>,
    /// The client mount for hooks; only the first object target of a file system has it.
    pub client: Option<LustreClient>,
}

impl LustreTarget {
    /// Returns the scope under which the target's hook runs are recorded.
    pub fn scope(&self) -> HookScope {
        HookScope::file_system(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dataset_new_refuses_names_that_zfs_or_a_shell_would_misread() {
        let good = Dataset::new("pool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0", "ost").unwrap();
        assert_eq!(good.to_string(), "pool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0/ost");
        let long = "p".repeat(252);
        for (pool, name) in [
            ("", "ost"),
            ("pool", ""),
            ("0pool", "ost"),
            ("mirrored", "ost"),
            ("pool a", "ost"),
            ("pool;reboot", "ost"),
            ("pool/a", "ost"),
            ("pool", "a/b"),
            ("pool", "ost@now"),
            (&*long, "ost"),
        ] {
            let error = Dataset::new(pool, name).unwrap_err();
            assert!(error.to_string().contains(&format!("{pool}/{name}")), "{error}");
        }
        assert!(Dataset::new(&long[..251], "ost").is_ok());
    }
}
