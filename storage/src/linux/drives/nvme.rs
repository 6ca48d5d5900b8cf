//! NVMe drives: namespaces made on them, and attached to the controllers of the rabbit and its computes.
//!
//! The drives are the truth; a ledger beside them says whose their namespaces are. A drive that cannot be asked keeps what its
//! ledger says of it: it is neither empty nor gone.

mod admin;
mod drive;
mod hosts;
mod ioctl;
mod ledger;
mod physical;
mod reach;
mod ready;
#[cfg(test)]
mod simulated;
mod status;
mod sysfs;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use log::warn;

pub(in crate::linux) use self::reach::ReachedNamespaces;
use self::{
    drive::{Contents, DriveError, Made},
    ledger::Ledger,
    physical::{Fault, Physical, in_one_line},
    reach::{Reach, pause_for, unreadable},
    sysfs::{BlockNode, ControllerNode},
};
use super::{Drives, Inventory};
use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    host::{ObserveError, StepError},
    linux::{exclusive, looks::Looks},
    observed::{BlockDevice, DeviceNumber, Drive, Namespace},
};

/// How long a namespace that the rabbit was given may take to become a block device.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);
/// How long the drive's own announcement of it is waited for.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

/// The drives whose physical functions this node has.
#[derive(Debug)]
pub(in crate::linux) struct NvmeDrives {
    node: NodeName,
    /// Models that may be used; any when empty.
    models: Vec<String>,
    ledgers: PathBuf,
    reach: Reach,
    deadline: Duration,
    /// Every question to a drive: one that hangs keeps a thread and nothing else.
    looks: Looks,
    changes: Looks,
    drives: Mutex<BTreeMap<Nqn, Arc<Managed>>>,
    told: Mutex<BTreeMap<Nqn, Fault>>,
}

#[derive(Debug)]
struct Managed {
    physical: Physical,
    ledger: Arc<Ledger>,
    /// That it makes namespaces, and its virtual functions are up.
    ready: OnceLock<()>,
}

impl NvmeDrives {
    pub(in crate::linux) fn open(
        state: &Path,
        node: NodeName,
        models: Vec<String>,
        look: Duration,
        change: Duration,
    ) -> io::Result<Self> {
        let ledgers = state.join("drives");
        fs::create_dir_all(&ledgers)?;
        Ok(Self {
            node,
            models,
            ledgers,
            reach: Reach::new(Path::new("/sys")),
            deadline: look,
            looks: Looks::new(look),
            changes: Looks::new(change),
            drives: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// The drives as they are plugged in now; one that came back under another name is the same drive.
    fn plugged(&self) -> io::Result<Vec<Arc<Managed>>> {
        let mut known = lock(&self.drives);
        let mut now: BTreeMap<Nqn, Arc<Managed>> = BTreeMap::new();
        let all = self.reach.sysfs.controllers()?;
        for node in all.into_iter().filter(|it| it.is_physical && self.is_wanted(it)) {
            // The second port of a drive that was seen already.
            if now.contains_key(&node.nqn) {
                continue;
            }
            let before = known.get(&node.nqn);
            let drive = match before.filter(|it| it.physical.node == node) {
                Some(same) => Arc::clone(same),
                None => Arc::new(self.manage(node, before)?),
            };
            now.insert(drive.physical.node.nqn.clone(), drive);
        }
        // What was unplugged keeps its ledger: a question to it may still hang.
        for (nqn, drive) in &now {
            known.insert(nqn.clone(), Arc::clone(drive));
        }
        Ok(now.into_values().collect())
    }

    fn manage(&self, node: ControllerNode, before: Option<&Arc<Managed>>) -> io::Result<Managed> {
        let ledger = match before {
            Some(before) => Arc::clone(&before.ledger),
            None => Arc::new(Ledger::open(&self.ledgers, &node.nqn)?),
        };
        let physical = Physical::new(node, Arc::clone(&ledger));
        Ok(Managed { physical, ledger, ready: OnceLock::new() })
    }

    fn is_wanted(&self, node: &ControllerNode) -> bool {
        self.models.is_empty() || self.models.iter().any(|model| node.model.contains(model))
    }

    fn drive(&self, nqn: &Nqn) -> Result<Arc<Managed>, StepError> {
        let plugged = self.plugged().map_err(|source| StepError::System {
            call: "find drive",
            target: nqn.to_string(),
            source,
        })?;
        let found = plugged.into_iter().find(|it| it.physical.node.nqn == *nqn);
        found.ok_or_else(|| StepError::System {
            call: "find drive",
            target: nqn.to_string(),
            source: io::Error::new(io::ErrorKind::NotFound, ABSENT),
        })
    }

    /// Asks all drives side by side; each answers for itself, in the order of their names.
    fn look(&self) -> Result<Inventory, ObserveError> {
        let plugged = self.plugged().map_err(unreadable)?;
        let blocks = self.reach.sysfs.blocks().map_err(unreadable)?;
        let answers: Vec<_> = thread::scope(|scope| {
            let ask = |drive: &Arc<Managed>| {
                let (drive, blocks) = (Arc::clone(drive), blocks.clone());
                scope.spawn(move || self.ask(&drive, &blocks))
            };
            let asked: Vec<_> = plugged.iter().map(ask).collect();
            let hung = || Err("the look at it panicked".to_owned());
            asked.into_iter().map(|it| it.join().unwrap_or_else(|_| hung())).collect()
        });
        let mut inventory = Inventory::default();
        for (drive, answer) in plugged.iter().zip(answers) {
            self.enter(&mut inventory, drive, answer, &blocks);
        }
        self.enter_absent(&mut inventory, &plugged).map_err(unreadable)?;
        inventory.drives.sort_by(|a, b| a.nqn.cmp(&b.nqn));
        for (slot, drive) in (0..).zip(&mut inventory.drives) {
            drive.slot = slot;
        }
        Ok(inventory)
    }

    /// What a drive has; `None` when it is none of ours to use.
    fn ask(&self, drive: &Arc<Managed>, blocks: &[BlockNode]) -> Result<Option<Contents>, Fault> {
        let (asked, blocks) = (Arc::clone(drive), blocks.to_vec());
        let name = drive.physical.node.nqn.to_string();
        self.looks
            .take(&name, move || asked.contents(&blocks))
            .map_err(|error| error.to_string())?
    }

    fn enter(
        &self,
        inventory: &mut Inventory,
        drive: &Managed,
        answer: Result<Option<Contents>, Fault>,
        blocks: &[BlockNode],
    ) {
        let nqn = &drive.physical.node.nqn;
        match answer {
            Ok(Some(contents)) => {
                self.is_well(nqn);
                let namespaces = contents.namespaces.iter();
                inventory
                    .namespaces
                    .extend(namespaces.map(|held| self.namespace(nqn, held, blocks)));
                inventory.drives.push(shown(nqn, &contents));
            }
            Ok(None) if drive.ledger.records().is_empty() => self.is_well(nqn),
            Ok(None) => self.enter_faulty(inventory, nqn, &drive.ledger, NOT_MANAGED),
            Err(fault) => self.enter_faulty(inventory, nqn, &drive.ledger, &fault),
        }
    }

    /// Drives that the ledgers know and that are not there.
    fn enter_absent(&self, inventory: &mut Inventory, plugged: &[Arc<Managed>]) -> io::Result<()> {
        let here: BTreeSet<_> = plugged.iter().map(|it| &it.physical.node.nqn).collect();
        for nqn in ledger::known(&self.ledgers)?.iter().filter(|nqn| !here.contains(nqn)) {
            let managed = lock(&self.drives).get(nqn).map(|it| Arc::clone(&it.ledger));
            let ledger =
                managed.map_or_else(|| Ledger::open(&self.ledgers, nqn).map(Arc::new), Ok)?;
            if !ledger.records().is_empty() {
                self.enter_faulty(inventory, nqn, &ledger, ABSENT);
            }
        }
        Ok(())
    }

    /// What is recorded of a drive that cannot be asked; nobody reaches it.
    fn enter_faulty(&self, inventory: &mut Inventory, nqn: &Nqn, ledger: &Ledger, fault: &str) {
        let recorded = ledger.records().into_iter().map(|record| Namespace {
            id: NamespaceId { subsystem: nqn.clone(), nsid: record.nsid },
            owner: record.owner(),
            size: record.size,
            access: BTreeSet::new(),
            device: None,
        });
        inventory.namespaces.extend(recorded);
        inventory.drives.push(faulty(nqn, fault));
        let told = lock(&self.told).insert(nqn.clone(), fault.to_owned());
        if told.as_deref() != Some(fault) {
            warn!(drive:% = nqn, cause = fault; "the drive cannot be used");
        }
    }

    fn is_well(&self, nqn: &Nqn) {
        lock(&self.told).remove(nqn);
    }

    fn namespace(&self, nqn: &Nqn, held: &drive::Held, blocks: &[BlockNode]) -> Namespace {
        let id = NamespaceId { subsystem: nqn.clone(), nsid: held.found.nsid };
        let nguid = ledger::hex(held.found.nguid);
        let block = blocks.iter().find(|it| it.device.namespace == id && it.may_be(&nguid));
        let device = block
            .filter(|_| held.access.contains(&self.node))
            .map(|block| block.device.path.clone());
        Namespace {
            id,
            owner: held.owner.clone(),
            size: held.found.size,
            access: held.access.clone(),
            device,
        }
    }

    /// The block device of a namespace, as far as it is proved to be that one.
    fn block(&self, id: &NamespaceId) -> io::Result<Option<BlockNode>> {
        let managed = self.plugged()?.into_iter().find(|it| it.physical.node.nqn == id.subsystem);
        let Some(managed) = managed else { return Ok(None) };
        self.reach.find(id, |block| managed.is_recorded(block))
    }

    fn change<T: Send + 'static>(
        &self,
        call: &'static str,
        target: &impl std::fmt::Display,
        nqn: &Nqn,
        work: impl FnOnce(&Managed) -> Result<T, DriveError> + Send + 'static,
    ) -> Result<T, StepError> {
        let drive = self.drive(nqn)?;
        let system = |source| StepError::System { call, target: target.to_string(), source };
        let done = self.changes.take(&nqn.to_string(), move || work(&drive)).map_err(system)?;
        done.map_err(|error| match error {
            DriveError::NoRoom(left) => {
                StepError::Changed(format!("drive {target} has only {left} bytes left by now"))
            }
            other => system(io::Error::other(in_one_line(NOTHING, &other))),
        })
    }

    fn appear(&self, id: &NamespaceId) -> Result<BlockDevice, StepError> {
        let system = |source| StepError::System {
            call: "find the block device of",
            target: id.to_string(),
            source,
        };
        let managed = self.drive(&id.subsystem)?;
        let begun = Instant::now();
        while begun.elapsed() < APPEARS_WITHIN {
            let is_it = |block: &BlockNode| managed.is_recorded(block);
            // The drive announces it; only later, if at all, the kernel is asked.
            let found = if begun.elapsed() < ANNOUNCED_WITHIN {
                self.reach.find(id, is_it)
            } else {
                self.reach.find_patiently(id, is_it)
            };
            if let Some(found) = found.map_err(system)? {
                return Ok(found.device);
            }
            pause_for(Duration::from_millis(20));
        }
        Err(system(io::Error::new(
            io::ErrorKind::TimedOut,
            "it is attached to the rabbit's controller, and the kernel shows none",
        )))
    }

    /// Gone from under a mount its data would be lost, and the mount would hang: whoever uses it lets go first.
    fn unused(&self, call: &'static str, id: &NamespaceId) -> Result<(), StepError> {
        let failed = |source| StepError::System { call, target: id.to_string(), source };
        match self.block(id).map_err(failed)? {
            Some(block) => exclusive::with(call, &block.device.path, self.deadline, |_| Ok(())),
            None => Ok(()),
        }
    }

    /// What a drive that promises no zeroes was left with by others must not reach the next.
    fn zero(&self, id: &NamespaceId, size: u64) -> Result<(), StepError> {
        let (nsid, node) = (id.nsid, self.node.clone());
        self.attach(id, Endpoint::Rabbit, &node)?;
        let device = self.appear(id)?;
        exclusive::with("zero", &device.path, ZEROED_WITHIN, |file| ioctl::zero(&file, size))?;
        self.detach(id, &node)?;
        self.change("zero", id, &id.subsystem, move |drive| {
            drive.ledger.zeroed(nsid).map_err(DriveError::Ledger)
        })
    }
}

const ABSENT: &str =
    "it is not plugged in, or not allowed by the drive models of the configuration";
const NOT_MANAGED: &str = "it manages no namespaces, and once did";
const NOTHING: &str = "the drive did not do it";

/// A drive writes at least some hundred MB/s, and has at most some TB.
const ZEROED_WITHIN: Duration = Duration::from_secs(4 * 3600);

impl Managed {
    /// Nothing of a drive is changed, or even asked, while this node uses something on it that is not ours.
    fn contents(&self, blocks: &[BlockNode]) -> Result<Option<Contents>, Fault> {
        let of_it = |it: &&BlockNode| it.device.namespace.subsystem == self.physical.node.nqn;
        let foreign = blocks.iter().filter(of_it).filter(|it| !self.is_recorded(it));
        match foreign.map(|it| &*it.device.path).find_map(physical::in_use) {
            // Most likely the operating system's own.
            Some(_) if self.ledger.records().is_empty() => return Ok(None),
            Some(why) => return Err(why),
            None => {}
        }
        if self.ready.get().is_none() {
            if !self.physical.manages_namespaces()? {
                return Ok(None);
            }
            self.physical.make_ready()?;
            self.ready.get_or_init(|| ());
        }
        let look = self.physical.drive.look();
        look.map(Some).map_err(|error| in_one_line("look at the drive", &error))
    }

    fn is_recorded(&self, block: &BlockNode) -> bool {
        let record = self.ledger.record(block.device.namespace.nsid);
        record.is_some_and(|record| block.may_be(&record.nguid))
    }
}

impl Drives for NvmeDrives {
    fn inventory(&self) -> Result<Inventory, ObserveError> {
        self.look()
    }

    fn device(&self, id: &NamespaceId) -> Result<Option<BlockDevice>, ObserveError> {
        Ok(self.block(id).map_err(unreadable)?.map(|it| it.device))
    }

    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId> {
        self.reach.sysfs.of_number(device)
    }

    fn create(&self, allocation: AllocationId, drive: &Nqn, size: u64) -> Result<(), StepError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let made = self.change("create namespace", drive, drive, move |managed| {
            managed.physical.drive.create(allocation, size, now)
        })?;
        match made {
            Some(Made { nsid, to_zero: true }) => {
                self.zero(&NamespaceId { subsystem: drive.clone(), nsid }, size)
            }
            Some(Made { to_zero: false, .. }) | None => Ok(()),
        }
    }

    fn delete(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError> {
        self.unused("delete namespace", id)?;
        let nsid = id.nsid;
        self.change("delete namespace", id, &id.subsystem, move |managed| {
            managed.physical.drive.delete(nsid, allocation)
        })
    }

    fn attach(
        &self,
        id: &NamespaceId,
        endpoint: Endpoint,
        node: &NodeName,
    ) -> Result<(), StepError> {
        let (nsid, named) = (id.nsid, node.clone());
        self.change("attach namespace", id, &id.subsystem, move |managed| {
            managed.physical.drive.attach(nsid, endpoint, &named)
        })?;
        match endpoint {
            Endpoint::Rabbit => self.appear(id).map(drop),
            Endpoint::Compute(_) => Ok(()),
        }
    }

    fn detach(&self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError> {
        if *node == self.node {
            self.unused("detach namespace", id)?;
        }
        let (nsid, named) = (id.nsid, node.clone());
        self.change("detach namespace", id, &id.subsystem, move |managed| {
            managed.physical.drive.detach(nsid, &named)
        })
    }
}

fn shown(nqn: &Nqn, contents: &Contents) -> Drive {
    Drive {
        nqn: nqn.clone(),
        serial: contents.serial.clone(),
        model: contents.model.clone(),
        firmware: contents.firmware.clone(),
        slot: 0,
        capacity: contents.capacity,
        allocated: contents.capacity.saturating_sub(contents.unallocated),
        wear: contents.wear,
        warnings: contents.warnings.clone(),
        fault: None,
    }
}

fn faulty(nqn: &Nqn, fault: &str) -> Drive {
    Drive {
        nqn: nqn.clone(),
        serial: String::new(),
        model: String::new(),
        firmware: String::new(),
        slot: 0,
        capacity: 0,
        allocated: 0,
        wear: 0,
        warnings: Vec::new(),
        fault: Some(fault.to_owned()),
    }
}

/// A panic in another question leaves no half-changed state behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
