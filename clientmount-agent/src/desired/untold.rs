//! A mount to be taken away at a path that nobody can tell any more: its variables came from a profile that is gone.

use storage::{
    desired::{FileSystemKind, MountSource},
    observed::{MountedThing, Superblock},
};

/// What is known of such a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// Its path, with the variables that are not known.
    pub(super) path: String,
    pub(super) kind: FileSystemKind,
    pub(super) source: MountSource,
}

impl Untold {
    /// Whether what is mounted may be it. That it is can never be said: another object may show the same file system.
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
