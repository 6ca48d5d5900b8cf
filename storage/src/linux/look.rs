//! How a real node is looked at.

use std::io;

use super::{Node, mount, mount_table, signature, tree};
use crate::{
    Observed,
    desired::{HookId, HookScope, IndexTree, MountPoint, NamespaceId},
    host::ObserveError,
    look::Eyes,
    observed::{BlockDevice, MountedThing, Signature, TargetState, TreeState},
};

impl Eyes for Node {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        let found = self.drives.inventory()?;
        let (drives, namespaces, pool) = (found.drives, found.namespaces, found.pool);
        Ok(Observed { drives, namespaces, pool, ..Observed::default() })
    }

    fn device(&self, id: &NamespaceId) -> Result<Option<BlockDevice>, ObserveError> {
        self.drives.device(id)
    }

    fn signature(&self, device: &BlockDevice) -> Result<Signature, ObserveError> {
        signature::read(&device.path, self.deadlines.call)
    }

    fn target(&self, target: &MountPoint) -> Result<TargetState, ObserveError> {
        mount::observe(target, &*self.drives).map_err(|source| read(target, source))
    }

    fn tree(&self, tree: &IndexTree) -> Result<TreeState, ObserveError> {
        tree::observe(&tree.root).map_err(|source| read(&tree.root, source))
    }

    fn mounts(&self) -> Result<Vec<(MountPoint, MountedThing)>, ObserveError> {
        mount_table::beneath(&self.roots, &*self.drives)
            .map_err(|source| read(&"/proc/self/mountinfo", source))
    }

    fn hooks_open(&self, scope: &HookScope) -> Result<bool, ObserveError> {
        self.records
            .is_open(scope)
            .map_err(|source| read(&format!("hook records {}", scope.as_str()), source))
    }

    fn hook_ran(&self, id: &HookId) -> Result<bool, ObserveError> {
        self.records.has(id).map_err(|source| read(&format!("hook record {id}"), source))
    }
}

fn read(path: &impl std::fmt::Display, source: io::Error) -> ObserveError {
    ObserveError::Read { path: path.to_string(), source }
}
