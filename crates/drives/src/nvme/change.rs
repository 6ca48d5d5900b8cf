//! Changes a drive. Each change has its own thread, so that a hanging change blocks only its drive.

use std::{
    collections::BTreeSet,
    fmt, io, slice,
    sync::atomic::Ordering,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use block_devices::{busy::pause_for, exclusive};
use storage::{
    Observed, Step,
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber, NamespaceOwner, PortLink},
    step::DriveAction,
};

use super::{
    Managed, NvmeDrives,
    admin::ERASE,
    drive::DriveError,
    ioctl,
    ledger::Wanted,
    physical::{Fault, in_one_line},
    reach::unreadable,
    sysfs::BlockNode,
};
use crate::{Drives, unsupported};

/// Time within which a namespace must become a block device after it was attached to the rabbit.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);
/// Time to wait for the drive's announcement of a namespace before a rescan is started.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

/// Deadline of zeroing: a drive writes at least some hundred MB/s, and has at most some TB.
const ZEROED_WITHIN: Duration = Duration::from_secs(4 * 3600);

const NOT_DONE: &str = "the drive did not make the change";

impl NvmeDrives {
    fn change<T: Send + 'static>(
        &self,
        call: &'static str,
        target: &impl fmt::Display,
        nqn: &Nqn,
        work: impl FnOnce(&Managed) -> Result<T, DriveError> + Send + 'static,
    ) -> Result<T, StepError> {
        self.longer_change(Duration::ZERO, call, target, nqn, work)
    }

    /// Makes a change like [`Self::change`], with `more` added to the deadline.
    fn longer_change<T: Send + 'static>(
        &self,
        more: Duration,
        call: &'static str,
        target: &impl fmt::Display,
        nqn: &Nqn,
        work: impl FnOnce(&Managed) -> Result<T, DriveError> + Send + 'static,
    ) -> Result<T, StepError> {
        let drive = self.drive(nqn)?;
        let system = StepError::system(call, target);
        let outcome = self.changes.run_longer(more, &nqn.to_string(), move || work(&drive));
        outcome.map_err(system)?.map_err(|error| failed(call, target, error))
    }

    /// Waits until the kernel shows the block device of a namespace that was attached to the rabbit.
    fn wait_for_device(&self, id: &NamespaceId) -> Result<BlockDevice, StepError> {
        let system = StepError::system("find the block device of", id);
        let managed = self.drive(&id.subsystem)?;
        let begun = Instant::now();
        while begun.elapsed() < APPEARS_WITHIN {
            let is_it = |block: &BlockNode| managed.is_recorded(block);
            // Usually the drive announces the namespace to the kernel; if the announcement does not come, start a
            // rescan.
            let found = if begun.elapsed() < ANNOUNCED_WITHIN {
                self.reach.find(id, is_it)
            } else {
                let found = self.reach.find_with_rescan(slice::from_ref(id), is_it);
                found.map(|devices| devices.into_iter().flatten().next())
            };
            if let Some(found) = found.map_err(system)? {
                return Ok(found.device);
            }
            pause_for(Duration::from_millis(20));
        }
        Err(system(io::Error::new(
            io::ErrorKind::TimedOut,
            "the namespace is attached to the rabbit's controller, but the kernel shows no block device for it",
        )))
    }

    /// Fails while this node uses the namespace: if the namespace were deleted or detached then, a file system mounted
    /// from it would hang and lose data.
    fn require_unused(&self, call: &'static str, id: &NamespaceId) -> Result<(), StepError> {
        let failed = StepError::system(call, id);
        match self.block(id, None).map_err(failed)? {
            Some(block) => {
                match exclusive::with(call, &block.device.path, self.deadline, |_| Ok(())) {
                    Err(StepError::System { source, .. }) if exclusive::is_gone(&source) => Ok(()),
                    other => other,
                }
            }
            None => Ok(()),
        }
    }

    /// Zeroes a new namespace on a drive that does not promise to return zeroes for deallocated blocks: the namespace's
    /// owner must not read the data of earlier owners. Does nothing if the namespace was zeroed already.
    fn zero(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError> {
        let (nsid, node) = (id.nsid, self.node.clone());
        let record = self.drive(&id.subsystem)?.ledger.record(nsid);
        let ours = NamespaceOwner::Ours(allocation);
        let Some(record) = record.filter(|record| record.owner() == ours) else {
            return Err(StepError::Changed(format!("{id} is not recorded for {allocation}")));
        };
        if !record.to_zero {
            return Ok(());
        }
        self.attach(id, Endpoint::Rabbit, &node)?;
        let device = self.wait_for_device(id)?;
        let zero = |file| ioctl::zero(&file, record.size);
        exclusive::with("zero", &device.path, ZEROED_WITHIN, zero)?;
        self.detach(id, &node)?;
        self.change("zero", id, &id.subsystem, move |drive| {
            drive.ledger.record_zeroed(nsid).map_err(DriveError::Ledger)
        })
    }
}

impl Managed {
    fn prepare(&self, action: &DriveAction) -> Result<(), Fault> {
        match action {
            DriveAction::SettleIntents => {
                let settled = self.physical.drive.settle().map(drop);
                settled.map_err(|error| in_one_line("settle the intents of its ledger", &error))
            }
            DriveAction::RecordSlot => {
                self.record_slot().map_err(|error| in_one_line("write the drive's ledger", &error))
            }
            // Another unit may have made this drive ready since the step was planned.
            _ if self.ready.load(Ordering::SeqCst) || self.functions()?.is_none() => Ok(()),
            change => self.physical.change_functions(change),
        }
    }

    fn record_slot(&self) -> io::Result<()> {
        let slot = self.physical.node.slot_and_serial();
        slot.map_or(Ok(()), |slot| self.ledger.record_slot(&slot))
    }
}

/// Converts a failure of the drive into the step's error. After [`StepError::Changed`], the converger observes again.
/// [`StepError::NoRoom`] says that the drive refused the namespace for lack of room. All other errors need an admin.
pub(super) fn failed(
    call: &'static str,
    target: &dyn fmt::Display,
    error: DriveError,
) -> StepError {
    match error {
        DriveError::NoRoom(_) | DriveError::NoIdentifier(_) => {
            StepError::Changed(format!("drive {target}: {error}"))
        }
        DriveError::Refused(refused) => StepError::NoRoom(refused),
        other => StepError::system(call, target)(io::Error::other(in_one_line(NOT_DONE, &other))),
    }
}

impl Drives for NvmeDrives {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        self.look()
    }

    fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        let broken = |source| ObserveError::Read { path: "/dev/switchtec*".to_owned(), source };
        self.source.links().map_err(broken)
    }

    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError> {
        Ok(self.block(id, made_for).map_err(unreadable)?.map(|block| block.device))
    }

    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId> {
        self.reach.sysfs.namespace_of(device)
    }

    fn reached_namespaces(&self) -> Result<BTreeSet<NamespaceId>, ObserveError> {
        self.reach.namespaces().map_err(unreadable)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::PrepareDrive { drive, action } => self.prepare(drive, action),
            Step::Rescan { namespaces } => {
                self.reach.rescan(namespaces).map_err(StepError::system("rescan", step.on()))
            }
            Step::CreateNamespace { allocation, drive, size, members } => {
                self.create(*allocation, drive, Wanted { size: *size, members: *members })
            }
            Step::ZeroNamespace { id, allocation } => self.zero(id, *allocation),
            Step::AdoptNamespace { id, allocation, size, members } => {
                let (nsid, allocation) = (id.nsid, *allocation);
                let wanted = Wanted { size: *size, members: *members };
                self.change("adopt namespace", id, &id.subsystem, move |managed| {
                    managed.physical.drive.adopt(nsid, allocation, wanted)
                })
            }
            Step::ReplaceNamespace { id, allocation } => {
                let ledger = self.ledgers.ledger(&id.subsystem);
                let recorded =
                    ledger.and_then(|ledger| ledger.record_replaced(id.nsid, *allocation));
                recorded.map_err(StepError::system("record the successor of", id))
            }
            Step::ForgetNamespace { id, allocation } => self.forget(id, *allocation),
            Step::EraseNamespace { id, allocation } => {
                self.require_unused("erase namespace", id)?;
                let (nsid, allocation) = (id.nsid, *allocation);
                self.longer_change(ERASE, "erase namespace", id, &id.subsystem, move |managed| {
                    managed.physical.drive.erase(nsid, allocation)
                })
            }
            Step::DeleteNamespace { id, allocation } => {
                self.require_unused("delete namespace", id)?;
                let (nsid, allocation) = (id.nsid, *allocation);
                self.change("delete namespace", id, &id.subsystem, move |managed| {
                    managed.physical.drive.delete(nsid, allocation)
                })
            }
            Step::Attach { id, endpoint, node } => self.attach(id, *endpoint, node),
            Step::Detach { id, node } => self.detach(id, node),
            other => Err(unsupported(other, "it does not change a drive")),
        }
    }
}

impl NvmeDrives {
    /// Makes one change that a drive needs before hosts can use it, within the deadline of an observation: a drive that
    /// hangs must not hold up the allocations on other drives.
    fn prepare(&self, nqn: &Nqn, action: &DriveAction) -> Result<(), StepError> {
        let (managed, wanted) = (self.drive(nqn)?, action.clone());
        let prepared = self.calls.run(&nqn.to_string(), move || managed.prepare(&wanted));
        let prepared = prepared.map_err(|error| error.to_string()).flatten();
        prepared.map_err(|why| {
            if action.is_vital() {
                self.warn_once(nqn, &why);
            }
            StepError::system("prepare drive", nqn)(io::Error::other(why))
        })
    }

    fn create(
        &self,
        allocation: AllocationId,
        drive: &Nqn,
        wanted: Wanted,
    ) -> Result<(), StepError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.change("create namespace", drive, drive, move |managed| {
            managed.physical.drive.create(allocation, wanted, now)?;
            // If this fails, the next observation finds that the slot is not recorded, and a step records it.
            drop(managed.record_slot());
            Ok(())
        })
    }

    fn forget(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError> {
        let failed = StepError::system("forget namespace", id);
        // Refuse if the drive is plugged in: it may still have the namespace, which must then be deleted, not just
        // forgotten.
        if self.find(&id.subsystem).map_err(failed)?.is_some() {
            return Err(StepError::Changed(format!("drive {} came back", id.subsystem)));
        }
        let ledger = self.ledgers.ledger(&id.subsystem);
        ledger.and_then(|ledger| ledger.record_deleted(id.nsid, allocation)).map_err(failed)
    }

    fn attach(
        &self,
        id: &NamespaceId,
        endpoint: Endpoint,
        node: &NodeName,
    ) -> Result<(), StepError> {
        let (nsid, node_name) = (id.nsid, node.clone());
        self.change("attach namespace", id, &id.subsystem, move |managed| {
            managed.physical.function.check_bound(endpoint).map_err(DriveError::Unfit)?;
            managed.physical.drive.attach(nsid, endpoint, &node_name)
        })?;
        match endpoint {
            Endpoint::Rabbit => self.wait_for_device(id).map(drop),
            Endpoint::Compute(_) => Ok(()),
        }
    }

    fn detach(&self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError> {
        if *node == self.node {
            self.require_unused("detach namespace", id)?;
        }
        let (nsid, node_name) = (id.nsid, node.clone());
        self.change("detach namespace", id, &id.subsystem, move |managed| {
            managed.physical.drive.detach(nsid, &node_name)
        })
    }
}
