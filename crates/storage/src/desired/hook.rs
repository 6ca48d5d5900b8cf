//! Hooks: a site's command lines around our steps. A node cannot show that a hook ran, so each run is recorded.

use std::fmt;

use super::{FileSystemId, MountPoint, ObjectUid};
use crate::template::SiteCommand;

/// The owner of a group of hook records, which are dropped together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookScope(String);

impl HookScope {
    pub fn file_system(id: &FileSystemId) -> Self {
        Self(format!("fs-{id}"))
    }

    /// Hooks of a ClientMount's mount at `target`. The index in `spec.mounts` does not identify it: the object may
    /// change, and one mount must not inherit another's records.
    pub fn mount(client_mount: ObjectUid, target: &MountPoint) -> Self {
        Self(format!("mount-{client_mount}.{}", client_mount.name(&target.to_string()).simple()))
    }

    /// The scope as a file name: letters, digits, '-' and '.' only.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HookScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When a hook runs, by the profile's field that it is from: first the phases of setting up, then those of tearing down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPoint {
    /// Before a volume is activated for a mount.
    PreActivate,
    /// After that. On a rabbit: once a file system is made, or a Lustre target is mounted for the first time.
    PostActivate,
    /// Before mounting.
    PreMount,
    /// After mounting and chown.
    PostMount,
    /// With a new file system mounted where hooks see it.
    PostSetup,
    /// The same before it is torn down.
    PreTeardown,
    /// Before unmounting.
    PreUnmount,
    /// After unmounting.
    PostUnmount,
    /// Before a volume is deactivated, or a Lustre target is unmounted for good.
    PreDeactivate,
    /// After a volume is deactivated.
    PostDeactivate,
    /// After a file system or a Lustre target is gone.
    PostTeardown,
}

impl HookPoint {
    /// The profile's field, which also names the hook's record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreActivate => "preActivate",
            Self::PostActivate => "postActivate",
            Self::PreMount => "preMount",
            Self::PostMount => "postMount",
            Self::PostSetup => "postSetup",
            Self::PreTeardown => "preTeardown",
            Self::PreUnmount => "preUnmount",
            Self::PostUnmount => "postUnmount",
            Self::PreDeactivate => "preDeactivate",
            Self::PostDeactivate => "postDeactivate",
            Self::PostTeardown => "postTeardown",
        }
    }

    /// Whether its hooks undo what those of the phases before set up.
    pub fn tears_down(self) -> bool {
        self >= Self::PreTeardown
    }
}

/// One hook of one scope, e.g. `postSetup[0]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookId {
    pub scope: HookScope,
    pub phase: HookPoint,
    pub index: usize,
}

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.phase.as_str(), self.index)
    }
}

/// A site's command line, run through `bash -c` at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub id: HookId,
    pub command: SiteCommand,
}
