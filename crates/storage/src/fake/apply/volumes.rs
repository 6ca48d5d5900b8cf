//! Applies steps that change volume groups, pools and file systems. The deletion of a namespace
//! deletes its contents too.

use causes::CommandError;

use crate::{
    desired::{AllocationId, FileSystemId, NamespaceId},
    fake::errno,
    fake::{FakeHost, refused},
    host::StepError,
    observed::{BlockDevice, DeviceName, DeviceNumber, Signature, VolumeDevice},
    step::{VolumeAction, ZfsAction},
};

impl FakeHost {
    pub(super) fn delete_namespace(
        &self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        self.drives().delete(id, allocation)?;
        // Lock LVM first, then the pools, then the drives, as all other functions do: with another order, two simulated
        // nodes that share these locks could deadlock.
        let mut lvm = self.lvm();
        let mut pools = self.pools();
        let drives = self.drives();
        lvm.keep(|id| drives.exists(id));
        pools.keep(|id| drives.exists(id));
        Ok(())
    }

    pub(super) fn change_volume(
        &self,
        action: VolumeAction,
        on: &str,
        devices: &[BlockDevice],
        line: &str,
    ) -> Result<(), StepError> {
        let name = on.split_once('/').map(|(group, name)| (group.into(), name.into()));
        let is_mounted = name.is_some_and(|name| self.is_volume_mounted(&name));
        let node = &mut self.local().volumes;
        self.lvm().take(action, on, (devices, line), (node, is_mounted))
    }

    pub(super) fn change_pool(
        &self,
        action: ZfsAction,
        on: &str,
        devices: &[BlockDevice],
        line: &str,
    ) -> Result<(), StepError> {
        let mut local = self.local();
        let sources = local.mounts.iter().map(|mount| mount.thing.source.clone());
        let mounted: Vec<_> = sources.collect();
        let node = (&mut local.imported, &mounted[..]);
        self.pools().take(action, on, (devices, line), node)
    }

    pub(super) fn remove_mapping(&self, name: &str, number: DeviceNumber) -> Result<(), StepError> {
        let mut local = self.local();
        if local.mounts.iter().any(|mount| mount.thing.device == number) {
            return Err(refused("dmsetup remove", &name, errno::EBUSY));
        }
        let lvm = self.lvm();
        local.volumes.active.retain(|name| lvm.number(name) != number);
        local.volumes.unfinished.retain(|name| lvm.number(name) != number);
        Ok(())
    }

    pub(super) fn drop_lock_space(&self, group: &str) -> Result<(), StepError> {
        self.local().volumes.lock_spaces.remove(group);
        Ok(())
    }

    pub(in crate::fake) fn begins_with(&self, device: &DeviceName) -> Signature {
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

    /// Returns whether a logical volume that is active on this node, or a pool that this node has imported,
    /// lies on the namespace.
    pub(super) fn is_mapped(&self, id: &NamespaceId) -> bool {
        let (active, imported) = {
            let local = self.local();
            let volumes = &local.volumes;
            let mapped: Vec<_> =
                volumes.active.iter().chain(&volumes.unfinished).cloned().collect();
            (mapped, local.imported.clone())
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

    pub(super) fn wipe(&self, device: &VolumeDevice, id: FileSystemId) -> Result<(), StepError> {
        if self.is_mounted(&device.name) {
            return Err(refused("wipe", &device.name, errno::EBUSY));
        }
        if self.begins_with(&device.name) != Signature::HalfMade(id) {
            return Err(refused("wipe", &device.name, errno::EINVAL));
        }
        self.write(&device.name, Signature::Blank);
        Ok(())
    }

    /// Checks that the device still has its path: since the observation, the device may have got another
    /// path, or be gone.
    pub(super) fn still_at(&self, device: &VolumeDevice) -> Result<(), StepError> {
        let found = match &device.name {
            DeviceName::Namespace(id) => {
                self.drives().device(id, &self.node).map(|block| block.path)
            }
            DeviceName::Logical { group, name } => {
                let name = (group.clone(), name.clone());
                self.local().volumes.active.contains(&name).then(|| device.path.clone())
            }
        };
        if found.as_ref() == Some(&device.path) {
            return Ok(());
        }
        let (name, path) = (&device.name, device.path.display());
        Err(StepError::Changed(format!("the device of {name} is no longer {path}")))
    }

    pub(super) fn make(
        &self,
        device: &VolumeDevice,
        id: FileSystemId,
        line: &str,
    ) -> Result<(), StepError> {
        self.still_at(device)?;
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
}
