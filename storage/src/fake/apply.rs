//! Steps on the node in memory.

use std::path::Path;

use super::{FakeHost, FakeMount, ROOT, files::Entry, refused};
use crate::{
    Step,
    desired::{FileSystemId, FileSystemKind, IndexLink, MountPoint, NamespaceId, Owner},
    host::{CommandError, StepError},
    observed::{DeviceNumber, MountedThing, NamespaceOwner, PathState, Signature, Superblock},
    plan,
};

impl FakeHost {
    pub(super) fn take(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::CreateNamespace { allocation, drive, size } => {
                self.drives().create(NamespaceOwner::Ours(*allocation), drive, *size)
            }
            Step::DeleteNamespace { id, allocation } => self.drives().delete(id, *allocation),
            Step::Attach { id, node, .. } => self.drives().attach(id, node),
            Step::Detach { id, node } => self.drives().detach(id, node),
            Step::WipeSignature { namespace, id, .. } => self.wipe(namespace, *id),
            Step::MakeFileSystem { namespace, device, id, line, .. } => {
                self.make(namespace, device, *id, line)
            }
            Step::CreateMountPoint { target, file } => self.create_point(target, *file),
            Step::Mount { source, target, kind, .. } => self.mount(source, target, *kind),
            Step::Unmount { target, device, .. } => self.unmount(target, *device),
            Step::RemoveMountPoint { target } => {
                self.remove(target);
                target
                    .parent()
                    .filter(|_| plan::is_index(target))
                    .iter()
                    .for_each(|parent| self.remove(parent));
                Ok(())
            }
            Step::CreateDirectory { path } => self.create_point(path, false),
            Step::RemoveDirectory { path } => {
                self.remove(path);
                Ok(())
            }
            Step::SetOwner { target, owner } => self.set_owner(target, *owner),
            Step::Link { root, link } => self.link(root, link),
            Step::Unlink { root, name } => {
                self.unlink(&root.path().join(name));
                Ok(())
            }
            Step::OpenHooks { scope } => {
                self.local().hooks.entry(scope.clone()).or_default();
                Ok(())
            }
            Step::RunHook { id, .. } => {
                self.local().hooks.entry(id.scope.clone()).or_default().insert(id.clone());
                Ok(())
            }
            Step::ForgetHooks { scope } => {
                self.local().hooks.remove(scope);
                Ok(())
            }
        }
    }

    /// What a crash in the middle of a step leaves; nothing, for steps that the kernel takes whole.
    pub(super) fn take_half(&self, step: &Step) {
        match step {
            Step::CreateNamespace { allocation, drive, size } => {
                // Refused anyway when it does not fit.
                let _ = self.drives().create(NamespaceOwner::Partial(*allocation), drive, *size);
            }
            Step::DeleteNamespace { id, allocation } => self.drives().half_delete(id, *allocation),
            Step::MakeFileSystem { namespace, id, .. }
                if self.drives().signature(namespace) == Signature::Blank =>
            {
                self.drives().set_signature(namespace, Signature::HalfMade(*id));
            }
            _ => {}
        }
    }

    fn wipe(&self, namespace: &NamespaceId, id: FileSystemId) -> Result<(), StepError> {
        let mut drives = self.drives();
        if drives.is_mounted(namespace) {
            return Err(refused("wipe", namespace, libc::EBUSY));
        }
        if drives.signature(namespace) != Signature::HalfMade(id) {
            return Err(refused("wipe", namespace, libc::EINVAL));
        }
        drives.set_signature(namespace, Signature::Blank);
        Ok(())
    }

    fn make(
        &self,
        namespace: &NamespaceId,
        device: &Path,
        id: FileSystemId,
        line: &str,
    ) -> Result<(), StepError> {
        let mut drives = self.drives();
        if drives.device(namespace, &self.node).is_none_or(|found| found.path != device) {
            return Err(StepError::Changed(format!(
                "namespace {namespace} is not {} any more",
                device.display()
            )));
        }
        if drives.is_mounted(namespace) || drives.signature(namespace) != Signature::Blank {
            let stderr = "appears to contain an existing filesystem".to_owned();
            return Err(CommandError::Failed {
                command: line.to_owned(),
                status: "exit status: 1".into(),
                stderr,
            }
            .into());
        }
        drives.set_signature(namespace, Signature::Ours(id));
        Ok(())
    }

    fn create_point(&self, target: &MountPoint, file: bool) -> Result<(), StepError> {
        let mut local = self.local();
        match local.walk(target) {
            PathState::Absent => {}
            PathState::Directory { .. } | PathState::File { .. } | PathState::BlockDevice => {
                return Ok(());
            }
            PathState::Other
            | PathState::Symlink { .. }
            | PathState::NotDirectory { .. }
            | PathState::ThroughMount { .. } => {
                return Err(StepError::Changed(format!("{target} is not reachable any more")));
            }
        }
        let path = target.path();
        path.parent().into_iter().for_each(|parent| local.files.make_directories(parent));
        local.files.put(&path, if file { Entry::File } else { Entry::Directory });
        Ok(())
    }

    fn mount(
        &self,
        source: &str,
        target: &MountPoint,
        kind: FileSystemKind,
    ) -> Result<(), StepError> {
        let mut local = self.local();
        let no = |errno| Err(refused("mount(2)", target, errno));
        let path = target.path();
        if local.mounted(&path).is_some() {
            return Err(StepError::Changed(format!("{target} is a mount by now")));
        }
        let file = match local.files.get(&path) {
            Some(Entry::Directory) => false,
            Some(Entry::File | Entry::PlantedFile) => true,
            Some(Entry::Link(_) | Entry::PlantedLink(_)) | None => return no(libc::ENOENT),
        };
        let shown = local.mounted(Path::new(source)).cloned();
        let (thing, owner) = match shown {
            Some(mount) => (mount.thing, mount.owner),
            None => (self.volume(source, target, kind)?, ROOT),
        };
        if file != (thing.kind == FileSystemKind::Raw.as_str()) {
            return no(libc::ENOTDIR);
        }
        thing.namespace.iter().for_each(|id| self.drives().count_mount(id));
        local.mounts.push(FakeMount { target: path, thing, owner, foreign: false });
        Ok(())
    }

    fn volume(
        &self,
        source: &str,
        target: &MountPoint,
        kind: FileSystemKind,
    ) -> Result<MountedThing, StepError> {
        let no = |errno| refused("mount(2)", target, errno);
        if kind == FileSystemKind::Lustre {
            let device = DeviceNumber { major: 0, minor: 50 };
            let (source, kind, root) = (source.to_owned(), "lustre".to_owned(), "/".to_owned());
            return Ok(MountedThing {
                device,
                source,
                kind,
                root,
                superblock: Superblock::Unknown,
                namespace: None,
            });
        }
        let drives = self.drives();
        let id = drives.by_path(source).ok_or_else(|| no(libc::ENOENT))?;
        let device = drives.device(&id, &self.node).ok_or_else(|| no(libc::ENXIO))?;
        let superblock = match (kind, drives.signature(&id)) {
            (FileSystemKind::Raw, _) => Superblock::Unknown,
            (_, Signature::Ours(found)) => Superblock::Ours(found),
            _ => return Err(no(libc::EINVAL)),
        };
        Ok(MountedThing {
            device: device.number,
            source: source.to_owned(),
            kind: kind.as_str().to_owned(),
            root: "/".to_owned(),
            superblock,
            namespace: Some(id),
        })
    }

    fn unmount(&self, target: &MountPoint, device: DeviceNumber) -> Result<(), StepError> {
        let mut local = self.local();
        let path = target.path();
        if let PathState::ThroughMount { .. } = local.walk(target) {
            return Ok(());
        }
        let Some(place) = local.mounts.iter().rposition(|mount| mount.target == path) else {
            return Ok(());
        };
        if local.mounts[place].thing.device != device {
            return Err(StepError::Changed(format!("{target} shows another mount by now")));
        }
        let carries = local
            .mounts
            .iter()
            .any(|mount| mount.target != path && mount.target.starts_with(&path));
        if carries || local.busy.contains(&path) {
            return Err(refused("umount(2)", target, libc::EBUSY));
        }
        let gone = local.mounts.remove(place);
        gone.thing.namespace.iter().for_each(|id| self.drives().count_unmount(id));
        Ok(())
    }

    fn remove(&self, target: &MountPoint) {
        let mut local = self.local();
        let path = target.path();
        let empty = match local.files.get(&path) {
            Some(Entry::Directory) => local.files.is_empty_directory(&path),
            Some(Entry::File) => true,
            Some(Entry::Link(_) | Entry::PlantedLink(_) | Entry::PlantedFile) | None => false,
        };
        if empty && local.mounted(&path).is_none() {
            local.files.remove(&path);
        }
    }

    fn set_owner(&self, target: &MountPoint, owner: Owner) -> Result<(), StepError> {
        let mut local = self.local();
        let path = target.path();
        let Some(mount) = local.mounts.iter_mut().rev().find(|mount| mount.target == path) else {
            return Err(StepError::Changed(format!("{target} is not mounted any more")));
        };
        mount.owner = owner;
        Ok(())
    }

    fn link(&self, root: &MountPoint, link: &IndexLink) -> Result<(), StepError> {
        let mut local = self.local();
        let path = root.path().join(link.compute().as_str());
        if !matches!(local.walk(root), PathState::Directory { .. }) {
            return Err(refused("link", root, libc::ENOENT));
        }
        match local.files.get(&path) {
            Some(Entry::Directory | Entry::File | Entry::PlantedFile) => {
                Err(refused("link", root, libc::EEXIST))
            }
            Some(Entry::Link(_) | Entry::PlantedLink(_)) | None => {
                local.files.put(&path, Entry::Link(link.target().to_owned()));
                Ok(())
            }
        }
    }

    fn unlink(&self, path: &Path) {
        let mut local = self.local();
        if let Some(Entry::Link(_) | Entry::PlantedLink(_)) = local.files.get(path) {
            local.files.remove(path);
        }
    }
}
