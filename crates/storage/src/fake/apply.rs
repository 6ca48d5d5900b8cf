//! Applies steps to the simulated node.

mod files;
mod mounts;
mod volumes;

use super::{FakeHost, refused};
use crate::{
    Step,
    desired::{FileSystemKind, HookId, HookScope},
    fake::errno,
    host::StepError,
    observed::{DeviceName, NamespaceOwner, Signature},
    step::{Mountable, ZfsAction},
};

impl FakeHost {
    pub(super) fn take(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::PrepareDrive { drive, action } => self.drives().prepare(drive, action),
            Step::Rescan { .. } => Ok(()),
            Step::CreateNamespace { allocation, drive, size, members } => {
                self.drives().create(NamespaceOwner::Ours(*allocation), drive, *size, *members)
            }
            Step::ZeroNamespace { id, allocation } => self.drives().zero(id, *allocation),
            Step::AdoptNamespace { id, allocation, size, members } => {
                self.drives().adopt(id, *allocation, *size, *members)
            }
            Step::ReplaceNamespace { id, allocation } => {
                self.drives().record_replaced(id, *allocation)
            }
            Step::ForgetNamespace { id, allocation } => self.drives().forget(id, *allocation),
            Step::EraseNamespace { id, .. }
            | Step::DeleteNamespace { id, .. }
            | Step::Detach { id, .. }
                if self.is_mapped(id) =>
            {
                Err(refused("open", id, errno::EBUSY))
            }
            Step::EraseNamespace { id, allocation } => {
                self.drives().erase_namespace(id, *allocation)
            }
            Step::DeleteNamespace { id, allocation } => self.delete_namespace(id, *allocation),
            Step::Attach { id, endpoint, node } => self.drives().attach(id, *endpoint, node),
            Step::Detach { id, node } => self.drives().detach(id, node),
            Step::Volume { action, on, devices, line } => {
                self.change_volume(*action, on, devices, line)
            }
            Step::Zfs { action, on, devices, line } => self.change_pool(*action, on, devices, line),
            Step::RemoveMapping { name, number } => self.remove_mapping(name, *number),
            Step::DropLockSpace { group } => self.drop_lock_space(group),
            Step::UnmarkPhysical { device } => self.lvm().unmark(device),
            Step::WipeSignature { device, id } => self.wipe(device, *id),
            Step::MakeFileSystem { device, id, line, .. } => self.make(device, *id, line),
            Step::CreateMountPoint { target, file } => self.create_point(target, *file),
            Step::Mount { source, target, kind, .. } => {
                if let Mountable::Device(device) = source {
                    self.still_at(device)?;
                }
                self.mount(&source.to_string(), target, *kind)
            }
            Step::Unmount { target, device, .. } => self.unmount(target, *device),
            Step::RemoveMountPoint { target } => {
                self.remove_point(target);
                Ok(())
            }
            Step::CreateDirectory { path } => self.create_point(path, false),
            Step::RemoveDirectory { path } => {
                self.remove_point(path);
                Ok(())
            }
            Step::SetOwner { target, owner } => self.set_owner(target, *owner),
            Step::WriteFile { target, file } => self.write_file(target, file),
            Step::Link { root, link } => self.link(root, link),
            Step::Unlink { root, name } => {
                self.unlink(root, name);
                Ok(())
            }
            Step::OpenHooks { scope } => self.open_hooks(scope),
            Step::RunHook { id, .. } => self.run_hook(id),
            Step::ForgetHooks { scope } => self.forget_hooks(scope),
        }
    }

    /// Applies the effect of a crash in the middle of a step. A step that is atomic in the kernel has no such effect.
    pub(super) fn take_half(&self, step: &Step) {
        match step {
            Step::CreateNamespace { allocation, drive, size, .. } => {
                // A namespace for which there is no room is refused, with or without a crash.
                let _ = self.drives().create(NamespaceOwner::Partial(*allocation), drive, *size, 0);
            }
            Step::EraseNamespace { id, allocation } | Step::DeleteNamespace { id, allocation } => {
                self.drives().half_delete(id, *allocation);
            }
            Step::Volume { action, on, devices, .. } => {
                let node = &mut self.local().volumes;
                self.lvm().half_take(*action, on, devices, node);
            }
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

    fn open_hooks(&self, scope: &HookScope) -> Result<(), StepError> {
        self.local().hooks.entry(scope.clone()).or_default();
        Ok(())
    }

    fn run_hook(&self, id: &HookId) -> Result<(), StepError> {
        self.local().hooks.entry(id.scope.clone()).or_default().insert(id.clone());
        Ok(())
    }

    fn forget_hooks(&self, scope: &HookScope) -> Result<(), StepError> {
        self.local().hooks.remove(scope);
        Ok(())
    }
}
