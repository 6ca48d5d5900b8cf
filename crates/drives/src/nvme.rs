//! Creates namespaces on NVMe drives, and attaches them to the controllers of the rabbit and its computes.
//!
//! Each drive reports which namespaces it has; a ledger on the rabbit records which allocation owns each namespace. For
//! a drive that does not answer, the agent uses the ledger, because such a drive is neither empty nor gone.

pub mod admin;
mod change;
mod drive;
#[cfg(any(test, feature = "fake"))]
#[expect(clippy::unwrap_used, reason = "only tests use the simulated drive")]
pub mod fake;
pub mod functions;
pub mod hosts;
mod inventory;
mod ioctl;
mod ledger;
mod ledgers;
mod local;
mod physical;
mod reach;
mod shared_look;
mod source;
pub mod status;
mod sysfs;
pub mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use log::info;
use parking_lot::Mutex;
use process::bounded::BoundedCalls;
use storage::{
    Observed,
    desired::{AllocationId, NamespaceId, NodeName, Nqn},
    host::StepError,
};

use self::{
    ledger::{Ledger, Record},
    ledgers::Ledgers,
    physical::Physical,
    reach::Reach,
    shared_look::SharedLook,
    source::Source,
    sysfs::BlockNode,
};
pub use self::{
    physical::{Fault, PhysicalFunction, in_one_line},
    reach::ReachedNamespaces,
    source::{Candidate, Switches},
    sysfs::{ControllerNode, Sysfs, attribute, is_gone},
};

/// Configuration of [`NvmeDrives`].
#[derive(Debug)]
pub struct NvmeConfig {
    /// This node, which the namespaces that it reaches are attached to.
    pub node: NodeName,
    /// Parts of the model numbers of the drives that Warren may use; empty means all drives.
    pub models: Vec<String>,
    /// The PCIe switches between this node and its drives, if the agent can use switches.
    pub switches: Option<Arc<dyn Switches>>,
    /// Directory of the ledgers.
    pub ledgers: PathBuf,
    /// The mount point of sysfs.
    pub sysfs: PathBuf,
    /// Deadline of a read from a drive.
    pub look: Duration,
    /// Least deadline of a change to a drive.
    pub change: Duration,
}

/// The drives whose physical functions this node has or reaches through its switches.
#[derive(Debug)]
pub struct NvmeDrives {
    node: NodeName,
    /// Parts of the model numbers of the drives that Warren may use; empty means all drives.
    models: Vec<String>,
    ledgers: Ledgers,
    source: Source,
    reach: Reach,
    deadline: Duration,
    /// Runs reads from drives: a hanging read blocks only its own thread.
    calls: BoundedCalls,
    shared: SharedLook<Observed>,
    changes: BoundedCalls,
    drives: Mutex<BTreeMap<Nqn, Arc<Managed>>>,
    warned: Mutex<BTreeMap<Nqn, Fault>>,
}

#[derive(Debug)]
struct Plugged {
    drives: Vec<Arc<Managed>>,
    /// Drives whose ledger cannot be opened.
    unread: BTreeSet<Nqn>,
}

#[derive(Debug)]
struct Managed {
    physical: Physical,
    ledger: Arc<Ledger>,
    /// Whether the agent has found that the drive manages namespaces, and that its virtual functions are ready.
    ready: AtomicBool,
}

impl NvmeDrives {
    /// Opens the ledgers of the drives, and creates their directory unless it exists.
    ///
    /// # Errors
    /// When the directory of the ledgers cannot be read or created.
    pub fn open(config: NvmeConfig) -> io::Result<Self> {
        Ok(Self {
            node: config.node,
            models: config.models,
            ledgers: Ledgers::open(config.ledgers)?,
            source: Source { switches: config.switches },
            reach: Reach::new(&config.sysfs),
            deadline: config.look,
            calls: BoundedCalls::new(config.look),
            shared: SharedLook::default(),
            changes: BoundedCalls::of_changes(config.change.max(admin::CHANGE)),
            drives: Mutex::default(),
            warned: Mutex::default(),
        })
    }

    /// Returns the drives that are plugged in now. A drive that came back under another device name counts
    /// as the same drive.
    fn plugged(&self) -> io::Result<Plugged> {
        // Do not hold the lock of `self.drives` during this call, because a switch may be slow.
        let all = self.source.candidates(&self.reach.sysfs)?;
        let mut known = self.drives.lock();
        let mut now: BTreeMap<Nqn, Arc<Managed>> = BTreeMap::new();
        let mut unread = BTreeSet::new();
        for found in all {
            // This controller is the second port of a drive that is in the map already.
            if now.contains_key(&found.node.nqn) {
                continue;
            }
            if !self.has_usable_model(&found.node) {
                let why = format!(
                    "its model {:?} is not among the models of --drive-model",
                    found.node.model
                );
                self.leave_out(&found.node.nqn, &why);
                continue;
            }
            let nqn = found.node.nqn.clone();
            let before = known.get(&found.node.nqn);
            let drive = match before.filter(|managed| managed.physical.is(&found)) {
                Some(same) => Arc::clone(same),
                None => match self.manage(found) {
                    Ok(managed) => Arc::new(managed),
                    // The drive is not used, and each observation reports the reason.
                    Err(_) => {
                        unread.insert(nqn);
                        continue;
                    }
                },
            };
            now.insert(nqn, drive);
        }
        // The ledger of an unplugged drive stays open: a call to the drive may still hang and use the ledger later.
        for (nqn, drive) in &now {
            known.insert(nqn.clone(), Arc::clone(drive));
        }
        Ok(Plugged { drives: now.into_values().collect(), unread })
    }

    /// Logs the reason why Warren does not use a drive, once for each drive and reason.
    fn leave_out(&self, nqn: &Nqn, why: &str) {
        let warned = self.warned.lock().insert(nqn.clone(), why.to_owned());
        if warned.as_deref() != Some(why) {
            info!(drive:% = nqn, cause = why; "the agent does not use the drive");
        }
    }

    fn manage(&self, found: Candidate) -> io::Result<Managed> {
        let ledger = self.ledgers.ledger(&found.node.nqn)?;
        let physical = Physical::new(found, Arc::clone(&ledger));
        Ok(Managed { physical, ledger, ready: AtomicBool::new(false) })
    }

    fn has_usable_model(&self, node: &ControllerNode) -> bool {
        self.models.is_empty() || self.models.iter().any(|model| node.model.contains(model))
    }

    /// Returns the drive with this NQN; `None` when it is not plugged in.
    fn find(&self, nqn: &Nqn) -> io::Result<Option<Arc<Managed>>> {
        // Use the drive that an earlier call found, if it is still there: [`Self::plugged`] reads all controllers or
        // switches, and steps on different drives would wait for each other in it.
        let known = self.drives.lock().get(nqn).map(Arc::clone);
        if let Some(known) =
            known.filter(|managed| self.reach.sysfs.is_still(&managed.physical.node))
        {
            return Ok(Some(known));
        }
        let found =
            self.plugged()?.drives.into_iter().find(|drive| drive.physical.node.nqn == *nqn);
        if found.is_none() {
            // Fail when the drive's ledger cannot be read: such a drive may be plugged in although it is not in the
            // list.
            self.ledgers.ledger(nqn)?;
        }
        Ok(found)
    }

    fn drive(&self, nqn: &Nqn) -> Result<Arc<Managed>, StepError> {
        let absent = || io::Error::new(io::ErrorKind::NotFound, ABSENT);
        let found = self.find(nqn).and_then(|found| found.ok_or_else(absent));
        found.map_err(StepError::system("find drive", nqn))
    }

    /// Returns the block device of a namespace, after a check that the device is that namespace and that the namespace
    /// was made for that allocation. For a known drive, this function asks neither the drive nor its switch, because
    /// both may be busy.
    fn block(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> io::Result<Option<BlockNode>> {
        let known = self.drives.lock().get(&id.subsystem).map(Arc::clone);
        let known = known.map_or_else(|| self.find(&id.subsystem), |known| Ok(Some(known)))?;
        let Some(managed) = known else { return Ok(None) };
        self.reach.find(id, |block| managed.is_recorded_for(block, made_for))
    }
}

const ABSENT: &str =
    "it is not plugged in, or not allowed by the drive models of the configuration";

impl Managed {
    fn is_recorded(&self, block: &BlockNode) -> bool {
        self.is_recorded_for(block, None)
    }

    fn is_recorded_for(&self, block: &BlockNode, made_for: Option<AllocationId>) -> bool {
        let record = self.ledger.record(block.device.namespace.nsid);
        let is_usable = |record: &Record| {
            made_for.is_none() || (record.owner().allocation() == made_for && !record.to_zero)
        };
        record.is_some_and(|record| block.may_be(&record.nguid) && is_usable(&record))
    }
}

#[cfg(test)]
mod tests;
