//! A mount to be taken away at a path that nobody can tell any more: its variables came from a profile that is gone.

use storage::{
    desired::{FileSystemKind, HookScope, Mount, MountHooks, MountPoint, MountSource},
    observed::{MountedThing, Superblock},
};

/// What is known of such a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// Its path, with the variables that are not known.
    pub(super) path: String,
    pub(super) kind: FileSystemKind,
    pub(super) source: MountSource,
    /// That path taken as it is spelled, where nothing is, when it could be a mount point.
    pub(super) spelled: Option<(HookScope, MountPoint)>,
}

impl Untold {
    /// The mount at the path as it is spelled: whoever looks at that sees who uses its device.
    #[must_use]
    pub fn as_spelled(&self) -> Option<Mount> {
        let (scope, target) = self.spelled.clone()?;
        Some(Mount {
            scope,
            target,
            kind: self.kind,
            source: self.source.clone(),
            mount: None,
            unmount: None,
            owner: None,
            file: None,
            hooks: MountHooks::default(),
        })
    }

    /// Whether what is mounted may be it. This never proves it: another object may show the same file system.
    #[must_use]
    pub fn may_be(&self, there: &MountedThing) -> bool {
        there.kind == self.kind.as_str()
            && match &self.source {
                MountSource::Volume { volume, id } => match there.superblock {
                    Superblock::Ours(found) if self.kind != FileSystemKind::Raw => found == *id,
                    Superblock::Ours(_) | Superblock::Foreign | Superblock::Unknown => {
                        let lies_on = there.namespace.as_ref();
                        volume.namespaces.is_empty()
                            || lies_on.is_none_or(|it| volume.namespaces.contains(it))
                    }
                },
                MountSource::Lustre(source) => there.source == *source,
                MountSource::Bind(_) => false,
            }
    }
}
