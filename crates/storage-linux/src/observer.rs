//! Observes a real node.

use std::io;

use storage::{
    Observed,
    desired::{
        AllocationId, FileSystemKind, HookId, HookScope, IndexTree, LustreTarget, MountPoint,
        NamespaceId, RootFile, Volume,
    },
    host::ObserveError,
    observe::Observer,
    observed::{
        Activation, BlockDevice, FoundPool, Holders, LvmReport, LvmState, Mapping, MountedThing,
        Signature, TargetState, TreeState, Unfinished, Use, VolumeDevice, Zpool,
    },
};

use super::{
    Node, dlm, in_use, lvm, mapped, mount_point, mounted, root_file, signature, tree, unfinished,
    zpool,
};

impl Observer for Node {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        self.drives.inventory()
    }

    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError> {
        self.drives.device(id, made_for)
    }

    fn signature(&self, device: &VolumeDevice) -> Result<Signature, ObserveError> {
        lvm::wait_for_node(&device.path, self.deadlines.call)
            .map_err(|source| read(&device.path.display(), source))?;
        signature::read(&device.path, self.deadlines.call)
    }

    fn mapped(&self, volume: &Volume, devices: &[BlockDevice]) -> Result<LvmState, ObserveError> {
        mapped::state(volume, devices).map_err(|source| read(&"/sys/block", source))
    }

    fn unfinished(&self, volume: &Volume) -> Result<Activation, ObserveError> {
        unfinished::activation(volume, self.deadlines.call)
    }

    fn unused_raid_parts(&self, volume: &Volume) -> Result<Vec<Unfinished>, ObserveError> {
        unfinished::unused_raid_parts(volume, self.deadlines.call)
    }

    fn lvm(&self, devices: &[BlockDevice]) -> Result<LvmReport, ObserveError> {
        lvm::report(devices, self.deadlines.call)
    }

    fn mappings(&self) -> Result<Vec<Mapping>, ObserveError> {
        mapped::mappings().map_err(|source| read(&"/sys/block", source))
    }

    fn lock_spaces(&self) -> Result<Vec<String>, ObserveError> {
        dlm::groups().map_err(|source| read(&"/sys/kernel/dlm", source))
    }

    fn zpool(
        &self,
        target: &LustreTarget,
        devices: &[BlockDevice],
    ) -> Result<Option<Zpool>, ObserveError> {
        zpool::imported(&target.dataset, devices, self.deadlines.call)
    }

    fn pools_on(&self, devices: &[BlockDevice]) -> Result<Vec<FoundPool>, ObserveError> {
        zpool::pools_on(devices, self.deadlines.call)
    }

    fn target(&self, target: &MountPoint) -> Result<TargetState, ObserveError> {
        mount_point::observe(target, &*self.drives).map_err(|source| read(target, source))
    }

    fn users(&self, device: &VolumeDevice, kind: FileSystemKind) -> Result<Use, ObserveError> {
        let node = in_use::Node {
            roots: &self.roots,
            shares_kernel: self.shares_kernel,
            deadline: self.deadlines.call,
        };
        in_use::device(device, kind, node).map_err(|source| read(&device.path.display(), source))
    }

    fn lustre_users(
        &self,
        source: &str,
        target: &MountPoint,
    ) -> Result<Option<Holders>, ObserveError> {
        in_use::lustre(source, target).map_err(|error| read(&source, error))
    }

    fn file(&self, target: &MountPoint, name: &str) -> Result<Option<RootFile>, ObserveError> {
        root_file::read(target, name).map_err(|source| read(&format!("{target}/{name}"), source))
    }

    fn tree(&self, tree: &IndexTree) -> Result<TreeState, ObserveError> {
        tree::observe(&tree.root).map_err(|source| read(&tree.root, source))
    }

    fn mounts(&self) -> Result<Vec<(MountPoint, MountedThing)>, ObserveError> {
        mounted::beneath(&self.roots, &*self.drives)
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
