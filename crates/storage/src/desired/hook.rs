//! Hooks: a site's command lines that run before or after the agent's steps. An observation of the node cannot show
//! that a hook ran, so the agent records each run.

use std::fmt;

use super::{FileSystemId, MountPoint, ObjectUid};
use crate::template::SiteCommand;

/// The key of the hook records of one mount, file system or Lustre target; these records are removed together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookScope(String);

impl HookScope {
    pub fn file_system(id: &FileSystemId) -> Self {
        Self(format!("fs-{id}"))
    }

    /// Returns the scope of the hooks of a ClientMount's mount at `target`. The index in `spec.mounts` does not
    /// identify the mount: the object may change, and a mount must not inherit the hook records of another mount.
    pub fn mount(client_mount: ObjectUid, target: &MountPoint) -> Self {
        Self(format!("mount-{client_mount}.{}", client_mount.name(&target.to_string()).simple()))
    }

    /// Returns the scope as a file name: letters, digits, '-' and '.' only.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HookScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The hook points: when a hook runs. The profile has a field of the same name for each hook point. The hook points of
/// set-up come first, then the hook points of tear-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPoint {
    /// Before a volume is activated for a mount.
    PreActivate,
    /// After a volume is activated. On a rabbit: after a file system is made, or after a Lustre target is mounted
    /// for the first time.
    PostActivate,
    /// Before the file system is mounted.
    PreMount,
    /// After the file system is mounted and its root has its owner.
    PostMount,
    /// While a new file system is mounted at its temporary mount point.
    PostSetup,
    /// While a file system is mounted at its temporary mount point, before it is torn down.
    PreTeardown,
    /// Before the file system is unmounted.
    PreUnmount,
    /// After the file system is unmounted.
    PostUnmount,
    /// Before a volume is deactivated, or a Lustre target is unmounted for good.
    PreDeactivate,
    /// After a volume is deactivated.
    PostDeactivate,
    /// After a file system or a Lustre target is gone.
    PostTeardown,
}

impl HookPoint {
    /// Returns the hook point's field in the profile, which is also part of the name of the hook's record.
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

    /// Returns whether the hooks of this hook point undo the work of set-up hooks.
    pub fn tears_down(self) -> bool {
        self >= Self::PreTeardown
    }
}

/// One hook of one scope, for example `postSetup[0]`.
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

/// A site's command line for `bash -c`. After a crash it may run more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub id: HookId,
    pub command: SiteCommand,
}
