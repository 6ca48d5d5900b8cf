//! Applies steps that change mounts and the roots of mounts.

use std::{io, path::Path};

use crate::{
    desired::{FileSystemKind, MountPoint, NamespaceId, Owner, RootFile},
    fake::errno,
    fake::{FakeHost, FakeMount, Local, ROOT, files::Entry, refused},
    host::StepError,
    observed::{DeviceNumber, Holders, MountedThing, PathState, Signature, Superblock},
};

impl FakeHost {
    pub(super) fn mount(
        &self,
        source: &str,
        target: &MountPoint,
        kind: FileSystemKind,
    ) -> Result<(), StepError> {
        let mut local = self.local();
        let no = |errno| Err(refused("mount(2)", target, errno));
        let path = target.path();
        if local.mounted(&path).is_some() {
            return Err(StepError::Changed(format!(
                "another program mounted a file system at {target} meanwhile"
            )));
        }
        let file = match local.files.get(&path) {
            Some(Entry::Directory) => false,
            Some(Entry::File | Entry::PlantedFile) => true,
            Some(Entry::Link(_) | Entry::PlantedLink(_)) | None => return no(errno::ENOENT),
        };
        let source_mount = local.mounted(Path::new(source)).cloned();
        let (thing, owner) = match source_mount {
            Some(mount) => (mount.thing, mount.owner),
            None => (self.volume(&local, source, target, kind)?, ROOT),
        };
        if file != (thing.kind == FileSystemKind::Raw.as_str()) {
            return no(errno::ENOTDIR);
        }
        thing.namespace.iter().for_each(|id| self.drives().count_mount(id));
        local.mounts.push(FakeMount { target: path, thing, owner, file: None, foreign: false });
        Ok(())
    }

    /// Returns the device at a path, the device's signature, and a namespace beneath the device.
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
            // A Lustre client's source is `<mgs>:/<fsname>`.
            if !source.contains(":/") && !is_served {
                return Err(no(errno::ENODEV));
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
            self.carrier(local, source).ok_or_else(|| no(errno::ENOENT))?;
        let superblock = match (kind, signature) {
            (FileSystemKind::Raw, _) => Superblock::Unknown,
            (_, Signature::Ours(found)) => Superblock::Ours(found),
            (_, Signature::Foreign { kind: found, .. }) if found == kind.as_str() => {
                Superblock::Foreign
            }
            _ => return Err(no(errno::EINVAL)),
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

    pub(super) fn unmount(
        &self,
        target: &MountPoint,
        device: DeviceNumber,
    ) -> Result<(), StepError> {
        let mut local = self.local();
        let path = target.path();
        if let PathState::ThroughMount { .. } = local.walk(target) {
            return Ok(());
        }
        let Some(index) = local.mounts.iter().rposition(|mount| mount.target == path) else {
            return Ok(());
        };
        if local.mounts[index].thing.device != device {
            return Err(StepError::Changed(format!(
                "another mount covers the mount at {target} now"
            )));
        }
        let carries = local
            .mounts
            .iter()
            .any(|mount| mount.target != path && mount.target.starts_with(&path));
        let busy = local.busy.get(&path);
        if carries || busy.is_some() {
            let processes = busy.cloned().unwrap_or_default();
            let names = processes.iter().map(|process| format!("process {process}")).collect();
            return Err(StepError::Held {
                call: "umount(2)",
                target: target.to_string(),
                holders: Holders { names, processes },
                source: io::Error::from_raw_os_error(errno::EBUSY),
            });
        }
        let unmounted = local.mounts.remove(index);
        unmounted.thing.namespace.iter().for_each(|id| self.drives().count_unmount(id));
        Ok(())
    }

    pub(super) fn set_owner(&self, target: &MountPoint, owner: Owner) -> Result<(), StepError> {
        let mut local = self.local();
        let path = target.path();
        let Some(mount) = local.mounts.iter_mut().rev().find(|mount| mount.target == path) else {
            return Err(StepError::Changed(format!("{target} is no longer mounted")));
        };
        mount.owner = owner;
        Ok(())
    }

    pub(super) fn write_file(&self, target: &MountPoint, file: &RootFile) -> Result<(), StepError> {
        let mut local = self.local();
        let path = target.path();
        let mount = local.mounts.iter_mut().rev().find(|mount| mount.target == path);
        let changed = || StepError::Changed(format!("{target} is no longer mounted"));
        mount.ok_or_else(changed)?.file = Some(file.clone());
        Ok(())
    }
}
