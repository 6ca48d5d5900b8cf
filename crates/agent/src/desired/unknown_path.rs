//! A mount to be unmounted whose path is not known any more: variables of the path came from a profile that is gone.

use storage::{
    desired::{FileSystemKind, HookScope, Mount, MountPoint, MountSource},
    observed::{MountedThing, Superblock},
};

/// A mount that is to be unmounted and whose path is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPath {
    /// The mount's path, with the unknown variables as the object has them.
    pub(super) path: String,
    pub(super) kind: FileSystemKind,
    pub(super) source: MountSource,
    /// The path with its variables not filled in, if it could be a mount point. Nothing is mounted there.
    pub(super) literal: Option<(HookScope, MountPoint)>,
}

impl UnknownPath {
    /// Returns the mount at the literal path: observing it shows which processes use its device.
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

    /// Returns whether something mounted may be this mount. This never proves it:
    /// another object may have mounted the same file system.
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
