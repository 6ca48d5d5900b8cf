//! Hooks: a site's command lines around our steps. A node cannot show that a hook ran, so each run is recorded.

use std::fmt;

use super::{FileSystemId, MountPoint, ObjectUid};
use crate::template::SiteCommand;

/// The owner of a group of hook records, which are dropped together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookScope(String);

impl HookScope {
    /// Hooks of a file system on a rabbit.
    #[must_use]
    pub fn file_system(id: &FileSystemId) -> Self {
        Self(format!("fs-{id}"))
    }

    /// Hooks of a ClientMount's mount at `target`. The index in `spec.mounts` does not identify it: the object may
    /// change, and one mount must not inherit another's records.
    #[must_use]
    pub fn mount(client_mount: ObjectUid, target: &MountPoint) -> Self {
        Self(format!("mount-{client_mount}.{}", client_mount.name(&target.to_string()).simple()))
    }

    /// The scope as a file name: letters, digits, '-' and '.' only.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HookScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One hook of one scope, e.g. `postSetup[0]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookId {
    /// Whose hook it is.
    pub scope: HookScope,
    /// The profile's field, e.g. `postSetup`.
    pub phase: &'static str,
    /// Place in that field's list.
    pub place: usize,
}

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.phase, self.place)
    }
}

/// A site's command line, run through `bash -c` at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The key of its record.
    pub id: HookId,
    /// What to run.
    pub command: SiteCommand,
}
