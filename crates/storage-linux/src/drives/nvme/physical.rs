//! Accesses a drive through its physical function: checks whether Warren may use the drive, and reads and changes the
//! drive's virtual functions.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::fcntl::{Flock, FlockArg};
use storage::{desired::Endpoint, observed::Functions, step::DriveAction};

use super::{
    admin::{Admin, opcode},
    drive::NvmeDrive,
    functions::{free_resources, offline_numbers, start_offline},
    hosts::{FUNCTIONS, quirks},
    ioctl::Controller,
    ledger::Ledger,
    source::{Candidate, Way},
    sysfs::{ControllerNode, attribute, name},
    wire::NAMESPACE_MANAGEMENT,
};
use crate::exclusive::is_gone;

/// The fault of a drive that cannot erase namespaces one by one.
pub(super) const FORMATS_ALL: &str = "it erases every namespace when one is formatted (FNA bits 0 and 1): the data of other allocations would not be safe on it";

/// The reason why a drive cannot be used now.
pub(super) type Fault = String;

/// A drive and its PCI function.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) node: ControllerNode,
    pub(super) drive: NvmeDrive,
    way: Way,
}

impl Physical {
    pub(super) fn new(Candidate { node, way }: Candidate, ledger: Arc<Ledger>) -> Self {
        let admin = match &way {
            Way::Here => Admin::new(Box::new(Controller::new(&node.name))),
            Way::Switch(behind) => behind.admin(),
        };
        Self { drive: NvmeDrive::new(node.nqn.clone(), admin, ledger), node, way }
    }

    /// Returns whether `found` is this drive and is reached in the same way.
    pub(super) fn is(&self, found: &Candidate) -> bool {
        self.node == found.node && self.way == found.way
    }

    /// Returns the number of the drive's slot, from 0; `None` unless a switch reports it.
    pub(super) fn slot(&self) -> Option<u32> {
        match &self.way {
            Way::Here => None,
            Way::Switch(behind) => Some(behind.slot().into()),
        }
    }

    /// Returns the label printed beside the drive's slot; empty when unknown. Behind a switch the label comes from the
    /// table of the rabbit's wiring, otherwise from sysfs.
    pub(super) fn label(&self) -> String {
        match &self.way {
            Way::Here => self.node.slot.clone().unwrap_or_default(),
            Way::Switch(behind) => behind.label().to_string(),
        }
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
        match &self.way {
            Way::Here => self.functions_here(),
            Way::Switch(behind) => behind.virtual_functions(&self.node.nqn, self.drive.admin()),
        }
    }

    /// Makes a change to the virtual functions, unless another agent has made it meanwhile.
    pub(super) fn change_functions(&self, action: &DriveAction) -> Result<(), Fault> {
        match &self.way {
            Way::Here => self.change_here(action),
            Way::Switch(behind) => behind.change(action, &self.node.nqn, self.drive.admin()),
        }
    }

    /// Checks that the virtual function of a host is bound to that host. Does nothing for a drive that is not behind a
    /// switch.
    pub(super) fn check_bound(&self, endpoint: Endpoint) -> Result<(), Fault> {
        match &self.way {
            Way::Here => Ok(()),
            Way::Switch(behind) => behind.check_bound(endpoint),
        }
    }

    /// On a machine that simulates several nodes, several agents may reach the same drive: each locks the drive and
    /// looks again, so that none resets a controller whose functions another agent has just started.
    fn change_here(&self, action: &DriveAction) -> Result<(), Fault> {
        let _lock =
            self.lock().map_err(|error| format!("lock the drive's PCI function: {error}"))?;
        let now = self.functions()?;
        let is_first = now.enabled == 0;
        match action {
            DriveAction::FreeResources if is_first && now.hoarded => self.free_resources(),
            DriveAction::EnableFunctions(count) if is_first => self.enable(*count),
            DriveAction::StartFunctions(numbers) => self.start(numbers, now.preset),
            DriveAction::BindFunctions(_) => self
                .bind_own()
                .map_err(|error| format!("bind the rabbit's virtual function: {error}")),
            _ => Ok(()),
        }
    }

    fn free_resources(&self) -> Result<(), Fault> {
        let admin = self.drive.admin();
        let freed =
            admin.primary().and_then(|primary| free_resources(admin, primary.controller.get()));
        freed.map_err(|error| in_one_line("free the resources of virtual functions", &error))
    }

    fn enable(&self, count: u16) -> Result<(), Fault> {
        let set = |name, value: &str| self.set(name, value).map_err(|error| error.to_string());
        set("sriov_drivers_autoprobe", "0")?;
        set("sriov_numvfs", &count.to_string())
    }

    fn start(&self, numbers: &[u16], preset: bool) -> Result<(), Fault> {
        let admin = self.drive.admin();
        let listed = admin.secondaries();
        let listed = listed.map_err(|error| in_one_line("read the virtual functions", &error))?;
        start_offline(admin, &listed, numbers, preset, |_| Ok(()))
            .map_err(|error| in_one_line("start virtual functions", &*error))
    }

    /// Locks the drive's PCI function against other agents (flock(2)).
    fn lock(&self) -> io::Result<Flock<fs::File>> {
        let function = fs::File::open(&self.node.function)?;
        Flock::lock(function, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    }

    fn functions_here(&self) -> Result<Functions, Fault> {
        let number = |name| {
            let text = attribute(&self.node.function, name).map_err(|error| error.to_string())?;
            Ok::<u16, Fault>(text.and_then(|text| text.parse().ok()).unwrap_or(0))
        };
        let admin = self.drive.admin();
        let fault = |error| in_one_line("read the virtual functions", &error);
        let secondaries = admin.secondaries().map_err(fault)?;
        let possible = if secondaries.is_empty() { 0 } else { number("sriov_totalvfs")? };
        let hoarded = if possible > 0 {
            let primary = admin.primary().map_err(fault)?;
            primary.queues_at_primary.get() > 0 || primary.interrupts_at_primary.get() > 0
        } else {
            false
        };
        let wanted = possible.min(FUNCTIONS);
        // A drive may list more virtual functions than the PCI function can enable.
        let mut offline = offline_numbers(&secondaries);
        offline.retain(|number| *number <= wanted);
        Ok(Functions {
            wanted,
            enabled: number("sriov_numvfs")?,
            hoarded,
            preset: quirks(&self.node.nqn).resources_preset,
            offline,
            unbound: u16::from(!self.own().join("driver").exists()),
        })
    }

    fn set(&self, attribute: &str, value: &str) -> io::Result<()> {
        write(&self.node.function.join(attribute), value)
    }

    fn own(&self) -> PathBuf {
        self.node.function.join("virtfn0")
    }

    /// Binds virtual function 1, which is the rabbit's own, to the driver of the physical function. If
    /// `sriov_drivers_autoprobe` is off, the kernel refuses every binding of a virtual function, even on request.
    fn bind_own(&self) -> io::Result<()> {
        if self.own().join("driver").exists() {
            return Ok(());
        }
        self.set("sriov_drivers_autoprobe", "1")?;
        let address = name(&self.own().canonicalize()?);
        let driver = self.node.function.join("driver").canonicalize()?;
        write(&driver.join("bind"), &address)
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

fn write(path: &Path, value: &str) -> io::Result<()> {
    fs::write(path, value).map_err(|error| {
        io::Error::new(error.kind(), format!("write {value} to {}: {error}", path.display()))
    })
}

/// Formats in one line what the agent tried (`what`) and why that failed, with all causes.
pub(super) fn in_one_line(what: &str, error: &dyn std::error::Error) -> String {
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
