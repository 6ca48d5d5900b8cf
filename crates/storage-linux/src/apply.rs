//! Applies steps to a real node.

use std::{io, path::Path};

use process::{Cmd, bounded};
use storage::{
    Step,
    desired::{FileSystemId, FileSystemKind, HookId, NamespaceId},
    host::StepError,
    observed::{BlockDevice, DeviceName, DeviceNumber, Signature, VolumeDevice},
    step::{Mountable, VolumeAction, ZfsAction},
};

use super::{
    Node, dlm, lvm, mapped, mount, mount_point, root_file, signature, tree, unfinished, zpool,
};

impl Node {
    /// Checks that the device still has its path: since the observation, the device may have got another
    /// path, or be gone.
    fn still_at(&self, device: &VolumeDevice) -> Result<(), StepError> {
        let is_there = match &device.name {
            DeviceName::Namespace(id) => self.is_at(id, &device.path),
            DeviceName::Logical { .. } => {
                let name = device.path.file_name().unwrap_or_default().to_string_lossy();
                mapped::find(&name).is_ok_and(|found| found == Some(device.number))
            }
        };
        if is_there { Ok(()) } else { Err(not_there(&device.name, &device.path)) }
    }

    fn is_at(&self, namespace: &NamespaceId, device: &Path) -> bool {
        let found = self.drives.device(namespace, None).ok().flatten();
        found.is_some_and(|found| found.path == device)
    }

    fn make_file_system(
        &self,
        device: &VolumeDevice,
        kind: FileSystemKind,
        id: FileSystemId,
        line: &str,
    ) -> Result<(), StepError> {
        signature::make(device, kind, id, line, self.deadlines.command)?;
        let (device, deadline) = (&device.path, self.deadlines.command);
        let (at, name) = (device.clone(), format!("signature of {}", device.display()));
        let read = bounded::within(deadline, &name, move || signature::read(&at, deadline));
        let read = read.map_err(StepError::system("read signature", &device.display()))?;
        match read {
            Ok(Signature::Ours(found)) if found == id => Ok(()),
            _ => {
                let why = format!("the command succeeded, but {kind} {id} does not exist");
                Err(StepError::system("mkfs", &device.display())(io::Error::other(why)))
            }
        }
    }

    fn volume(
        &self,
        action: VolumeAction,
        devices: &[BlockDevice],
        line: &str,
    ) -> Result<(), StepError> {
        self.all_at(devices)?;
        Ok(lvm::run(action, devices, line, self.deadlines.command)?)
    }

    fn zfs(
        &self,
        action: ZfsAction,
        on: &str,
        devices: &[BlockDevice],
        line: &str,
    ) -> Result<(), StepError> {
        self.all_at(devices)?;
        zpool::run(action, on, devices, line, self.deadlines.command)
    }

    fn all_at(&self, devices: &[BlockDevice]) -> Result<(), StepError> {
        let moved = devices.iter().find(|device| !self.is_at(&device.namespace, &device.path));
        moved.map_or(Ok(()), |device| Err(not_there(&device.namespace, &device.path)))
    }

    /// Removes a device mapping that holds no data. Either the mapping's namespaces are gone, so that it has no device
    /// to write to; or LVM did not complete the mapping, so that it was never used. The kernel refuses the removal
    /// while a process has the mapping open.
    fn remove_mapping(&self, name: &str, number: DeviceNumber) -> Result<(), StepError> {
        let found = unfinished::number_of(name, self.deadlines.call)
            .map_err(|error| StepError::system("find mapping", name)(io::Error::other(error)))?;
        if found != Some(number) {
            return Err(StepError::Changed(format!(
                "mapping {name} now has another device number"
            )));
        }
        Cmd::new(["dmsetup", "remove", "--retry", name]).run(self.deadlines.command)?;
        Ok(())
    }

    /// Drops the lock space of a volume group. Refuses while any volume of the group is active on this node: the volume
    /// may be in use, and its locks keep other nodes out.
    fn drop_lock_space(&self, group: &str) -> Result<(), StepError> {
        let mappings = mapped::mappings();
        let mappings = mappings.map_err(StepError::system("find mappings", group))?;
        if mappings.iter().any(|mapping| mapping.group().as_deref() == Some(group)) {
            return Err(StepError::Changed(format!(
                "volumes of volume group {group} became active"
            )));
        }
        dlm::drop_group(group, self.deadlines.command)
    }

    fn run_hook(&self, id: &HookId, line: &str) -> Result<(), StepError> {
        Cmd::shell(line).for_owner(id.scope.as_str()).run(self.deadlines.command)?;
        self.records.put(id).map_err(StepError::system("record hook", id))
    }

    pub(super) fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::PrepareDrive { .. }
            | Step::Rescan { .. }
            | Step::CreateNamespace { .. }
            | Step::AdoptNamespace { .. }
            | Step::ReplaceNamespace { .. }
            | Step::ForgetNamespace { .. }
            | Step::ZeroNamespace { .. }
            | Step::EraseNamespace { .. }
            | Step::DeleteNamespace { .. }
            | Step::Attach { .. }
            | Step::Detach { .. } => self.drives.apply(step),
            Step::Volume { action, devices, line, .. } => self.volume(*action, devices, line),
            Step::Zfs { action, on, devices, line } => self.zfs(*action, on, devices, line),
            Step::RemoveMapping { name, number } => self.remove_mapping(name, *number),
            Step::DropLockSpace { group } => self.drop_lock_space(group),
            Step::UnmarkPhysical { device } => {
                self.still_at(device)?;
                lvm::unmark(&device.path, self.deadlines.call)
            }
            Step::WipeSignature { device, id } => {
                self.still_at(device)?;
                signature::wipe_half_made(&device.path, *id, self.deadlines.call)
            }
            Step::MakeFileSystem { device, kind, id, line } => {
                self.still_at(device)?;
                self.make_file_system(device, *kind, *id, line)
            }
            Step::CreateMountPoint { target, file } => mount_point::create(target, *file),
            Step::Mount { source, target, kind, line } => {
                if let Mountable::Device(device) = source {
                    self.still_at(device)?;
                }
                let source = source.to_string();
                mount::mount(&source, target, *kind, line, &self.roots, self.deadlines)
            }
            Step::Unmount { target, device, line } => {
                mount::unmount(target, *device, line, self.deadlines)
            }
            Step::RemoveMountPoint { target } => mount_point::remove(target),
            Step::CreateDirectory { path } => mount_point::create(path, false),
            Step::RemoveDirectory { path } => mount_point::remove(path),
            Step::SetOwner { target, owner } => {
                mount::set_owner(target, *owner, self.deadlines.call)
            }
            Step::WriteFile { target, file } => root_file::write(target, file, self.deadlines.call),
            Step::Link { root, link } => {
                tree::link(root, link).map_err(StepError::system("link", &format!("{root}/{link}")))
            }
            Step::Unlink { root, name } => tree::unlink(root, name)
                .map_err(StepError::system("unlink", &format!("{root}/{name}"))),
            Step::OpenHooks { scope } => {
                let broken = StepError::system("open hook records", scope.as_str());
                self.records.open_scope(scope).map_err(broken)
            }
            Step::RunHook { id, line } => self.run_hook(id, line),
            Step::ForgetHooks { scope } => {
                let broken = StepError::system("forget hook records", scope.as_str());
                self.records.forget(scope).map_err(broken)
            }
        }
    }
}

fn not_there(name: &impl std::fmt::Display, device: &Path) -> StepError {
    StepError::Changed(format!("the device of {name} is no longer {}", device.display()))
}
