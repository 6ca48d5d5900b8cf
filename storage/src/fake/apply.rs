//! Steps on the node in memory.

use std::path::Path;

use super::{FakeHost, FakeMount, Local, ROOT, files::Entry, refused};
use crate::{
    Step,
    desired::{FileSystemId, FileSystemKind, IndexLink, MountPoint, NamespaceId, Owner, RootFile},
    host::{CommandError, StepError},
    observed::{
        DeviceName, DeviceNumber, MountedThing, NamespaceOwner, PathState, Signature, Superblock,
        VolumeDevice,
    },
    plan,
    step::ZfsAction,
};

impl FakeHost {
    pub(super) fn take(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::CreateNamespace { allocation, drive, size, of } => {
                self.drives().create(NamespaceOwner::Ours(*allocation), drive, *size, *of)
            }
            Step::AdoptNamespace { id, allocation, size, of } => {
                self.drives().adopt(id, *allocation, *size, *of)
            }
            Step::ReplaceNamespace { id, allocation } => self.drives().replaced(id, *allocation),
            Step::ForgetNamespace { id, allocation } => self.drives().forget(id, *allocation),
            Step::DeleteNamespace { id, .. } | Step::Detach { id, .. } if self.is_mapped(id) => {
                Err(refused("open", id, libc::EBUSY))
            }
            Step::DeleteNamespace { id, allocation } => {
                self.drives().delete(id, *allocation)?;
                // Before the drives, as everywhere: two nodes share both.
                let mut lvm = self.lvm();
                let mut pools = self.pools();
                let drives = self.drives();
                lvm.keep(|id| drives.exists(id));
                pools.keep(|id| drives.exists(id));
                Ok(())
            }
            Step::Attach { id, node, .. } => self.drives().attach(id, node),
            Step::Detach { id, node } => self.drives().detach(id, node),
            Step::Volume { action, on, devices, line } => {
                let name = on.split_once('/').map(|(group, name)| (group.into(), name.into()));
                let is_mounted = name.is_some_and(|name| self.is_volume_mounted(&name));
                let node = &mut self.local().volumes;
                self.lvm().take(*action, on, (devices, line), (node, is_mounted))
            }
            Step::Zfs { action, on, devices, line } => {
                let mut local = self.local();
                let sources = local.mounts.iter().map(|mount| mount.thing.source.clone());
                let mounted: Vec<_> = sources.collect();
                let node = (&mut local.imported, &mounted[..]);
                self.pools().take(*action, on, (devices, line), node)
            }
            Step::RemoveMapping { name, number } => {
                let mut local = self.local();
                if local.mounts.iter().any(|mount| mount.thing.device == *number) {
                    return Err(refused("dmsetup remove", name, libc::EBUSY));
                }
                let lvm = self.lvm();
                local.volumes.active.retain(|name| lvm.number(name) != *number);
                Ok(())
            }
            Step::DropLockSpace { group } => {
                self.local().volumes.lock_spaces.remove(group);
                Ok(())
            }
            Step::WipeSignature { device, id } => self.wipe(device, *id),
            Step::MakeFileSystem { device, id, line, .. } => self.make(device, *id, line),
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
            Step::WriteFile { target, file } => self.write_file(target, file),
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
            Step::CreateNamespace { allocation, drive, size, .. } => {
                // Refused anyway when it does not fit.
                let _ = self.drives().create(NamespaceOwner::Partial(*allocation), drive, *size, 0);
            }
            Step::DeleteNamespace { id, allocation } => self.drives().half_delete(id, *allocation),
            Step::Zfs { action: ZfsAction::Format, on, .. } => self.pools().half_make(on),
            Step::MakeFileSystem { device, id, kind, .. } => match &device.name {
                DeviceName::Namespace(namespace)
                    if self.drives().signature(namespace) == Signature::Blank =>
                {
                    self.drives().set_signature(namespace, Signature::HalfMade(*id));
                }
                DeviceName::Namespace(_) => {}
                DeviceName::Logical { group, name } => {
                    let name = (group.clone(), name.clone());
                    self.lvm().half_make(&name, *id, *kind == FileSystemKind::Xfs);
                }
            },
            _ => {}
        }
    }

    pub(super) fn begins_with(&self, device: &DeviceName) -> Signature {
        match device {
            DeviceName::Namespace(id) => self.drives().signature(id),
            DeviceName::Logical { group, name } => {
                self.lvm().signature(&(group.clone(), name.clone()))
            }
        }
    }

    fn write(&self, device: &DeviceName, signature: Signature) {
        match device {
            DeviceName::Namespace(id) => self.drives().set_signature(id, signature),
            DeviceName::Logical { group, name } => {
                self.lvm().set_signature(&(group.clone(), name.clone()), signature);
            }
        }
    }

    /// Whether a logical volume that is active here lies on it.
    fn is_mapped(&self, id: &NamespaceId) -> bool {
        let (active, imported) = {
            let local = self.local();
            (local.volumes.active.clone(), local.imported.clone())
        };
        imported.iter().any(|pool| self.pools().has(pool, id))
            || active.iter().any(|name| self.lvm().members(name).contains(id))
    }

    fn is_mounted(&self, device: &DeviceName) -> bool {
        match device {
            DeviceName::Namespace(id) => self.drives().is_mounted(id),
            DeviceName::Logical { group, name } => {
                self.is_volume_mounted(&(group.clone(), name.clone()))
            }
        }
    }

    fn wipe(&self, device: &VolumeDevice, id: FileSystemId) -> Result<(), StepError> {
        if self.is_mounted(&device.name) {
            return Err(refused("wipe", &device.name, libc::EBUSY));
        }
        if self.begins_with(&device.name) != Signature::HalfMade(id) {
            return Err(refused("wipe", &device.name, libc::EINVAL));
        }
        self.write(&device.name, Signature::Blank);
        Ok(())
    }

    fn make(&self, device: &VolumeDevice, id: FileSystemId, line: &str) -> Result<(), StepError> {
        let found = match &device.name {
            DeviceName::Namespace(id) => self.drives().device(id, &self.node).map(|it| it.path),
            DeviceName::Logical { group, name } => {
                let name = (group.clone(), name.clone());
                self.local().volumes.active.contains(&name).then(|| device.path.clone())
            }
        };
        if found.as_ref() != Some(&device.path) {
            let (name, path) = (&device.name, device.path.display());
            return Err(StepError::Changed(format!("{name} is not {path} any more")));
        }
        if self.is_mounted(&device.name) || self.begins_with(&device.name) != Signature::Blank {
            let stderr = "appears to contain an existing filesystem".to_owned();
            return Err(CommandError::Failed {
                command: line.to_owned(),
                status: "exit status: 1".into(),
                stderr,
            }
            .into());
        }
        self.write(&device.name, Signature::Ours(id));
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
            None => (self.volume(&local, source, target, kind)?, ROOT),
        };
        if file != (thing.kind == FileSystemKind::Raw.as_str()) {
            return no(libc::ENOTDIR);
        }
        thing.namespace.iter().for_each(|id| self.drives().count_mount(id));
        local.mounts.push(FakeMount { target: path, thing, owner, file: None, foreign: false });
        Ok(())
    }

    /// The device at a path, what it begins with, and a namespace beneath it.
    fn carrier(
        &self,
        local: &Local,
        source: &str,
    ) -> Option<(DeviceNumber, Signature, Option<NamespaceId>)> {
        let lvm = self.lvm();
        if let Some(name) = lvm.by_path(source, &local.volumes) {
            let below = lvm.members(&name).into_iter().next();
            return Some((lvm.number(&name), lvm.signature(&name), below));
        }
        let drives = self.drives();
        let id = drives.by_path(source)?;
        let device = drives.device(&id, &self.node)?;
        Some((device.number, drives.signature(&id), Some(id)))
    }

    fn volume(
        &self,
        local: &Local,
        source: &str,
        target: &MountPoint,
        kind: FileSystemKind,
    ) -> Result<MountedThing, StepError> {
        let no = |errno| refused("mount(2)", target, errno);
        if kind == FileSystemKind::Lustre {
            let count = u32::try_from(local.mounts.len()).unwrap_or(u32::MAX);
            let device = DeviceNumber { major: 0, minor: 50_u32.saturating_add(count) };
            let pool = source.split_once('/').map_or(source, |(pool, _)| pool);
            let is_served = local.imported.contains(pool) && self.pools().is_target(source);
            // A client's source is `<mgs>:/<fsname>`.
            if !source.contains(":/") && !is_served {
                return Err(no(libc::ENODEV));
            }
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
        let (number, signature, namespace) =
            self.carrier(local, source).ok_or_else(|| no(libc::ENOENT))?;
        let superblock = match (kind, signature) {
            (FileSystemKind::Raw, _) => Superblock::Unknown,
            (_, Signature::Ours(found)) => Superblock::Ours(found),
            (_, Signature::Foreign { kind: found, .. }) if found == kind.as_str() => {
                Superblock::Foreign
            }
            _ => return Err(no(libc::EINVAL)),
        };
        Ok(MountedThing {
            device: number,
            source: source.to_owned(),
            kind: kind.as_str().to_owned(),
            root: "/".to_owned(),
            superblock,
            namespace,
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

    fn write_file(&self, target: &MountPoint, file: &RootFile) -> Result<(), StepError> {
        let mut local = self.local();
        let path = target.path();
        let mount = local.mounts.iter_mut().rev().find(|mount| mount.target == path);
        let changed = || StepError::Changed(format!("{target} is not mounted any more"));
        mount.ok_or_else(changed)?.file = Some(file.clone());
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
