//! Observes the simulated node.

use std::{iter, path::Path, sync::PoisonError};

use causes::CommandError;

use super::{FakeHost, FakeMount, Local, ROOT, files::Entry};
use crate::{
    Observed,
    desired::{
        AllocationId, FileSystemKind, HookId, HookScope, IndexTree, LustreTarget, MountPoint,
        NamespaceId, RootFile, Volume,
    },
    host::ObserveError,
    observe::Observer,
    observed::{
        Activation, BlockDevice, FoundPool, Holders, LvmReport, LvmState, Mapping, MountedThing,
        PathState, Signature, TargetState, TreeEntry, TreeState, Unfinished, Use, VolumeDevice,
        Zpool,
    },
};

impl Local {
    pub(super) fn mounted(&self, path: &Path) -> Option<&FakeMount> {
        self.mounts.iter().rev().find(|mount| mount.target == path)
    }

    /// Returns the nearest existing directory above an absent mount point, if that directory is empty.
    pub(super) fn left_above(&self, target: &MountPoint) -> Option<MountPoint> {
        let above = iter::successors(Some(target.clone()), MountPoint::parent);
        let nearest =
            above.into_iter().find(|ancestor| self.files.get(&ancestor.path()).is_some())?;
        let path = nearest.path();
        let is_left = nearest != *target
            && self.files.is_empty_directory(&path)
            && self.mounted(&path).is_none();
        is_left.then_some(nearest)
    }

    pub(super) fn walk(&self, target: &MountPoint) -> PathState {
        self.files.walk(target, |path| self.mounted(path).is_some())
    }
}

impl Observer for FakeHost {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        Ok(self.drives().inventory())
    }

    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError> {
        Ok(self.drives().device_of(id, &self.node, made_for))
    }

    fn signature(&self, device: &VolumeDevice) -> Result<Signature, ObserveError> {
        Ok(self.begins_with(&device.name))
    }

    fn mapped(&self, volume: &Volume, devices: &[BlockDevice]) -> Result<LvmState, ObserveError> {
        let local = self.local();
        let lvm = self.lvm();
        let drives = self.drives();
        let is_reached = |id: &NamespaceId| drives.device(id, &self.node).is_some();
        Ok(lvm.state(volume, devices, &local.volumes, is_reached))
    }

    fn unfinished(&self, volume: &Volume) -> Result<Activation, ObserveError> {
        let local = self.local();
        Ok(self.lvm().unfinished(volume, &local.volumes))
    }

    fn unused_raid_parts(&self, _: &Volume) -> Result<Vec<Unfinished>, ObserveError> {
        // A simulated repair leaves no mappings when it is interrupted, only volumes.
        Ok(Vec::new())
    }

    fn lvm(&self, devices: &[BlockDevice]) -> Result<LvmReport, ObserveError> {
        let local = self.local();
        let lvm = self.lvm.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = lvm.report(devices);
        for group in &mut report.groups {
            for volume in &mut group.volumes {
                let number = lvm.number(&(group.name.clone(), volume.name.clone()));
                volume.is_open = local.mounts.iter().any(|mount| mount.thing.device == number);
                let name = (group.name.clone(), volume.name.clone());
                // LVM reports the progress of a RAID only while it is active.
                volume.synced = volume.synced.filter(|_| local.volumes.active.contains(&name));
            }
        }
        Ok(report)
    }

    fn mappings(&self) -> Result<Vec<Mapping>, ObserveError> {
        let local = self.local();
        let lvm = self.lvm();
        let drives = self.drives();
        Ok(lvm.mappings(&local.volumes, |id| drives.device(id, &self.node).is_some()))
    }

    fn lock_spaces(&self) -> Result<Vec<String>, ObserveError> {
        Ok(self.local().volumes.lock_spaces.iter().cloned().collect())
    }

    fn zpool(
        &self,
        target: &LustreTarget,
        devices: &[BlockDevice],
    ) -> Result<Option<Zpool>, ObserveError> {
        let is_imported = self.local().imported.contains(target.dataset.pool());
        let pools = self.pools();
        let drives = self.drives();
        let is_there = |id: &NamespaceId| drives.device(id, &self.node).is_some();
        let described = || pools.describe(&target.dataset.to_string(), devices, is_there);
        Ok(is_imported.then(described).flatten())
    }

    fn pools_on(&self, devices: &[BlockDevice]) -> Result<Vec<FoundPool>, ObserveError> {
        if self.local().lacks_zfs {
            return Err(ObserveError::Command(CommandError::Failed {
                command: "zpool import".to_owned(),
                status: "exit status: 127".to_owned(),
                stderr: "bash: line 1: zpool: command not found".to_owned(),
            }));
        }
        let imported = self.local().imported.clone();
        Ok(self.pools().on(devices, &imported))
    }

    fn target(&self, target: &MountPoint) -> Result<TargetState, ObserveError> {
        let local = self.local();
        let mut path = local.walk(target);
        let reached = local.files.get(&target.path()).is_some()
            && !matches!(
                path,
                PathState::Absent | PathState::NotDirectory { .. } | PathState::ThroughMount { .. }
            );
        let mut stack = local.mounts.iter().rev().filter(|mount| mount.target == target.path());
        let mounted = if reached { stack.next() } else { None };
        let beneath = stack.map(|mount| mount.thing.clone()).collect();
        if mounted.is_some() && matches!(path, PathState::File { .. }) {
            path = PathState::BlockDevice;
        }
        let owner = reached.then(|| mounted.map_or(ROOT, |mount| mount.owner));
        let parent_empty = path == PathState::Absent && local.left_above(target).is_some();
        Ok(TargetState {
            path,
            mounted: mounted.map(|mount| mount.thing.clone()),
            beneath,
            owner,
            parent_empty,
        })
    }

    fn users(&self, device: &VolumeDevice, _: FileSystemKind) -> Result<Use, ObserveError> {
        let local = self.local();
        if local.mounts.iter().any(|mount| mount.thing.device == device.number) {
            return Ok(Use::MountedHere);
        }
        let is_kept = local.kept.contains(&device.number);
        let names = vec!["process 4711 (sh) in another mount namespace".to_owned()];
        Ok(is_kept.then(|| Holders { names, processes: Vec::new() }).into())
    }

    fn lustre_users(&self, _: &str, _: &MountPoint) -> Result<Option<Holders>, ObserveError> {
        Ok(None)
    }

    fn file(&self, target: &MountPoint, name: &str) -> Result<Option<RootFile>, ObserveError> {
        let local = self.local();
        let file = local.mounted(&target.path()).and_then(|mount| mount.file.clone());
        Ok(file.filter(|file| file.name == name))
    }

    fn tree(&self, tree: &IndexTree) -> Result<TreeState, ObserveError> {
        let local = self.local();
        let root = tree.root.path();
        let mut state = TreeState { path: local.walk(&tree.root), ..TreeState::default() };
        if local.mounted(&root).is_some() {
            state.path = PathState::ThroughMount { at: root };
        } else if let PathState::Directory { .. } = state.path {
            let last_name =
                |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
            state.entries = local
                .files
                .children(&root)
                .filter_map(|(path, entry)| {
                    let entry = match entry {
                        Entry::Link(text) | Entry::PlantedLink(text) => {
                            TreeEntry::Link(text.clone())
                        }
                        Entry::Directory | Entry::File | Entry::PlantedFile => TreeEntry::Other,
                    };
                    Some((last_name(path)?, entry))
                })
                .collect();
        }
        Ok(state)
    }

    fn mounts(&self) -> Result<Vec<(MountPoint, MountedThing)>, ObserveError> {
        let local = self.local();
        let beneath = |mount: &FakeMount| {
            let target = MountPoint::parse(&mount.target.to_string_lossy(), &self.roots).ok()?;
            Some((target, mount.thing.clone()))
        };
        Ok(local.mounts.iter().filter_map(beneath).collect())
    }

    fn hooks_open(&self, scope: &HookScope) -> Result<bool, ObserveError> {
        Ok(self.local().hooks.contains_key(scope))
    }

    fn hook_ran(&self, id: &HookId) -> Result<bool, ObserveError> {
        Ok(self.local().hooks.get(&id.scope).is_some_and(|ran| ran.contains(id)))
    }
}
