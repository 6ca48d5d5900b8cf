//! A drive and its physical function, by which the drive is managed; checks whether Warren may use the drive.

use std::{fmt::Debug, fs, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc};

use block_devices::exclusive::is_gone;
use storage::{
    desired::{Endpoint, Nqn},
    observed::Functions,
    step::DriveAction,
};

use super::{
    admin::{Admin, opcode},
    drive::NvmeDrive,
    ledger::Ledger,
    source::Candidate,
    sysfs::ControllerNode,
    wire::NAMESPACE_MANAGEMENT,
};

/// The fault of a drive that cannot erase namespaces one by one.
pub(super) const FORMATS_ALL: &str = "it erases every namespace when one is formatted (FNA bits 0 and 1): the data of other allocations would not be safe on it";

/// The reason why a drive cannot be used now.
pub type Fault = String;

/// The physical function of a drive, on this node's PCI bus or behind a switch.
pub trait PhysicalFunction: Debug + Send + Sync {
    /// Returns the drive's admin queue.
    fn admin(&self) -> Admin;

    /// Returns the number of the drive's slot, from 0; `None` unless a switch reports it.
    fn slot(&self) -> Option<u32> {
        None
    }

    /// Returns the label printed beside the drive's slot; empty when unknown.
    fn label(&self) -> String;

    /// Returns a number that differs from an earlier function's in the same slot if the drive must be made ready again.
    fn generation(&self) -> u64 {
        0
    }

    /// Reads the state of the drive's virtual functions.
    ///
    /// # Errors
    /// When the drive does not answer, or must not be changed.
    fn functions(&self, drive: &Nqn, admin: &Admin) -> Result<Functions, Fault>;

    /// Makes a change to the virtual functions, unless another agent has made it meanwhile.
    ///
    /// # Errors
    /// When the change is refused or has no effect.
    fn change(&self, action: &DriveAction, drive: &Nqn, admin: &Admin) -> Result<(), Fault>;

    /// Checks that the virtual function of a host is bound to that host. Does nothing for a drive that is not behind a
    /// switch.
    ///
    /// # Errors
    /// When the function is bound to no host or to another one, or this is unknown.
    fn check_bound(&self, _endpoint: Endpoint) -> Result<(), Fault> {
        Ok(())
    }
}

/// A drive and its physical function.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) node: ControllerNode,
    pub(super) drive: NvmeDrive,
    pub(super) function: Arc<dyn PhysicalFunction>,
}

impl Physical {
    pub(super) fn new(Candidate { node, function }: Candidate, ledger: Arc<Ledger>) -> Self {
        let drive = NvmeDrive::new(node.nqn.clone(), function.admin(), ledger);
        Self { drive, node, function }
    }

    /// Returns whether `found` is this drive and is reached in the same way.
    pub(super) fn is(&self, found: &Candidate) -> bool {
        self.node == found.node && self.function.generation() == found.function.generation()
    }

    /// Returns whether the drive supports namespace management. The bit for namespace management in OACS is not enough:
    /// some drives set the bit but refuse the command. Fails when the drive supports namespace management but can erase
    /// its namespaces only all at once.
    pub(super) fn manages_namespaces(&self) -> Result<bool, Fault> {
        let fault = |error| in_one_line("identify the drive", &error);
        let admin = self.drive.admin();
        let controller = admin.controller().map_err(fault)?;
        if controller.admin_commands.get() & NAMESPACE_MANAGEMENT == 0 {
            return Ok(false);
        }
        match admin.supports(opcode::NAMESPACE_MANAGEMENT).map_err(fault)? {
            Some(false) => Ok(false),
            Some(true) | None if controller.formats_all() => Err(FORMATS_ALL.to_owned()),
            Some(true) | None => Ok(true),
        }
    }

    /// Reads the state of the drive's virtual functions.
    pub(super) fn functions(&self) -> Result<Functions, Fault> {
        self.function.functions(&self.node.nqn, self.drive.admin())
    }

    /// Makes a change to the virtual functions, unless another agent has made it meanwhile.
    pub(super) fn change_functions(&self, action: &DriveAction) -> Result<(), Fault> {
        self.function.change(action, &self.node.nqn, self.drive.admin())
    }
}

/// Returns why a block device counts as used: the device, or a partition on it, is used by a mount, swap, RAID or LVM.
/// A device that cannot be checked counts as used.
pub(super) fn in_use(device: &Path) -> Option<Fault> {
    // O_EXCL on a block device: EBUSY when a part of the kernel claims the device or a partition of it (open(2)).
    let opened = fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device);
    let error = opened.err().filter(|error| !is_gone(error))?;
    Some(format!("{} is in use on this node ({error})", device.display()))
}

/// Formats in one line what the agent tried (`what`) and why that failed, with all causes.
#[must_use]
pub fn in_one_line(what: &str, error: &dyn std::error::Error) -> String {
    format!("{what}: {}", causes::chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_gone_is_not_in_use() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(in_use(&directory.path().join("nvme9n1")), None);
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(in_use(&file.join("nvme9n1")).is_some(), "an unknown state counts as in use");
    }
}
