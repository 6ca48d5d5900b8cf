//! The physical function of a drive on this node's own PCI bus: reads and changes the drive's virtual functions through
//! sysfs (Documentation/ABI/testing/sysfs-bus-pci) and the drive's admin queue.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::fcntl::{Flock, FlockArg};
use storage::{desired::Nqn, observed::Functions, step::DriveAction};

use super::{
    admin::Admin,
    functions::{free_resources, offline_numbers, start_offline},
    hosts::{FUNCTIONS, quirks},
    ioctl::Controller,
    physical::{Fault, PhysicalFunction, in_one_line},
    source::Candidate,
    sysfs::{ControllerNode, attribute, name},
};

/// A controller of this node that is a physical function.
#[derive(Debug)]
pub(super) struct LocalFunction(ControllerNode);

impl LocalFunction {
    pub(super) fn candidate(node: ControllerNode) -> Candidate {
        Candidate { function: Arc::new(Self(node.clone())), node }
    }
}

impl PhysicalFunction for LocalFunction {
    fn admin(&self) -> Admin {
        Admin::new(Box::new(Controller::new(&self.0.name)))
    }

    fn label(&self) -> String {
        self.0.slot.clone().unwrap_or_default()
    }

    fn functions(&self, drive: &Nqn, admin: &Admin) -> Result<Functions, Fault> {
        let number = |name| {
            let text = attribute(&self.0.function, name).map_err(|error| error.to_string())?;
            Ok::<u16, Fault>(text.and_then(|text| text.parse().ok()).unwrap_or(0))
        };
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
            preset: quirks(drive).resources_preset,
            offline,
            unbound: u16::from(!self.own().join("driver").exists()),
        })
    }

    /// On a machine that simulates several nodes, several agents may reach the same drive: each locks the drive and
    /// looks again, so that none resets a controller whose functions another agent has just started.
    fn change(&self, action: &DriveAction, drive: &Nqn, admin: &Admin) -> Result<(), Fault> {
        let _lock =
            self.lock().map_err(|error| format!("lock the drive's PCI function: {error}"))?;
        let now = self.functions(drive, admin)?;
        let is_first = now.enabled == 0;
        match action {
            DriveAction::FreeResources if is_first && now.hoarded => free_all_resources(admin),
            DriveAction::EnableFunctions(count) if is_first => self.enable(*count),
            DriveAction::StartFunctions(numbers) => start(admin, numbers, now.preset),
            DriveAction::BindFunctions(_) => self
                .bind_own()
                .map_err(|error| format!("bind the rabbit's virtual function: {error}")),
            _ => Ok(()),
        }
    }
}

impl LocalFunction {
    fn enable(&self, count: u16) -> Result<(), Fault> {
        let set = |name, value: &str| self.set(name, value).map_err(|error| error.to_string());
        set("sriov_drivers_autoprobe", "0")?;
        set("sriov_numvfs", &count.to_string())
    }

    /// Locks the drive's PCI function against other agents (flock(2)).
    fn lock(&self) -> io::Result<Flock<fs::File>> {
        let function = fs::File::open(&self.0.function)?;
        Flock::lock(function, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    }

    fn set(&self, attribute: &str, value: &str) -> io::Result<()> {
        write(&self.0.function.join(attribute), value)
    }

    fn own(&self) -> PathBuf {
        self.0.function.join("virtfn0")
    }

    /// Binds virtual function 1, which is the rabbit's own, to the driver of the physical function. If
    /// `sriov_drivers_autoprobe` is off, the kernel refuses every binding of a virtual function, even on request.
    fn bind_own(&self) -> io::Result<()> {
        if self.own().join("driver").exists() {
            return Ok(());
        }
        self.set("sriov_drivers_autoprobe", "1")?;
        let address = name(&self.own().canonicalize()?);
        let driver = self.0.function.join("driver").canonicalize()?;
        write(&driver.join("bind"), &address)
    }
}

fn free_all_resources(admin: &Admin) -> Result<(), Fault> {
    let freed = admin.primary().and_then(|primary| free_resources(admin, primary.controller.get()));
    freed.map_err(|error| in_one_line("free the resources of virtual functions", &error))
}

fn start(admin: &Admin, numbers: &[u16], preset: bool) -> Result<(), Fault> {
    let listed = admin.secondaries();
    let listed = listed.map_err(|error| in_one_line("read the virtual functions", &error))?;
    start_offline(admin, &listed, numbers, preset, |_| Ok(()))
        .map_err(|error| in_one_line("start virtual functions", &*error))
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    fs::write(path, value).map_err(|error| {
        io::Error::new(error.kind(), format!("write {value} to {}: {error}", path.display()))
    })
}
