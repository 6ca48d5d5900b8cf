//! A mount that must be unmounted from an unknown path, because the profile that defined the path's variables is gone.

use storage::{
    desired::{FileSystemKind, HookScope, Mount, MountPoint, MountSource},
    observed::{MountedThing, Superblock},
};

/// A mount that must be unmounted, and whose path is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPath {
    /// The mount's path in the object, which contains the names of the unknown variables.
    pub(super) path: String,
    pub(super) kind: FileSystemKind,
    pub(super) source: MountSource,
    /// The literal path: the path with the names of its variables left in place, if this text is a valid mount point.
    /// Nothing is mounted there.
    pub(super) literal: Option<(HookScope, MountPoint)>,
}

impl UnknownPath {
    /// Returns the mount at the literal path. Nothing is mounted there, but observing this mount shows which
    /// processes use its device.
    pub fn at_literal_path(&self) -> Option<Mount> {
        let (scope, target) = self.literal.clone()?;
        Some(Mount {
            scope,
            target,
            kind: self.kind,
            source: self.source.clone(),
            mount: None,
            unmount: None,
            owner: None,
            file: None,
            hooks: Vec::new(),
        })
    }

    /// Returns whether `there`, which is mounted at some path, is possibly this mount. `true` is no proof: another
    /// object may have mounted the same file system.
    pub fn may_be(&self, there: &MountedThing) -> bool {
        there.kind == self.kind.as_str()
            && match &self.source {
                MountSource::Volume { volume, id } => match there.superblock {
                    Superblock::Ours(found) if self.kind != FileSystemKind::Raw => found == *id,
                    Superblock::Ours(_) | Superblock::Foreign | Superblock::Unknown => {
                        let namespace = there.namespace.as_ref();
                        volume.namespaces.is_empty()
                            || namespace
                                .is_none_or(|namespace| volume.namespaces.contains(namespace))
                    }
                },
                MountSource::Lustre(source) => there.source == *source,
                MountSource::Bind(_) => false,
            }
    }
}
