//! How the node in memory is looked at.

use std::path::Path;

use super::{FakeHost, FakeMount, Local, ROOT, files::Entry};
use crate::{
    Observed,
    desired::{HookId, HookScope, IndexTree, MountPoint, NamespaceId},
    host::ObserveError,
    look::Eyes,
    observed::{
        BlockDevice, MountedThing, PathState, Signature, TargetState, TreeEntry, TreeState,
    },
};

impl Local {
    pub(super) fn mounted(&self, path: &Path) -> Option<&FakeMount> {
        self.mounts.iter().rev().find(|mount| mount.target == path)
    }

    pub(super) fn walk(&self, target: &MountPoint) -> PathState {
        self.files.walk(target, |path| self.mounted(path).is_some())
    }
}

impl Eyes for FakeHost {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        Ok(self.drives().inventory())
    }

    fn device(&self, id: &NamespaceId) -> Result<Option<BlockDevice>, ObserveError> {
        Ok(self.drives().device(id, &self.node))
    }

    fn signature(&self, device: &BlockDevice) -> Result<Signature, ObserveError> {
        Ok(self.drives().signature(&device.namespace))
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
        let parent_empty = !reached
            && target.parent().is_some_and(|parent| local.files.is_empty_directory(&parent.path()));
        Ok(TargetState {
            path,
            mounted: mounted.map(|mount| mount.thing.clone()),
            beneath,
            owner,
            parent_empty,
        })
    }

    fn tree(&self, tree: &IndexTree) -> Result<TreeState, ObserveError> {
        let local = self.local();
        let root = tree.root.path();
        let mut state = TreeState { path: local.walk(&tree.root), ..TreeState::default() };
        if local.mounted(&root).is_some() {
            state.path = PathState::ThroughMount { at: root };
        } else if let PathState::Directory { .. } = state.path {
            let named =
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
                    Some((named(path)?, entry))
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
