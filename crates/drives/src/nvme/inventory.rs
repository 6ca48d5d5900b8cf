//! Observes all drives: reads the contents of each drive. For a drive that does not answer, takes the
//! records in its ledger.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread,
};

use log::warn;
use storage::{
    Observed,
    desired::{Endpoint, NamespaceId, Nqn},
    host::ObserveError,
    observed::{Drive, Functions, Namespace, Unready},
    plan::bring_up,
};

use super::{
    ABSENT, Managed, NvmeDrives, Plugged,
    drive::Contents,
    ledger::{self, Ledger},
    physical::{self, Fault, in_one_line},
    reach::unreadable,
    sysfs::BlockNode,
};

/// The result of reading one drive.
enum Reading {
    Contents(Box<Contents>),
    /// Warren does not use the drive, for this reason.
    NotOurs(String),
}

const NOT_MANAGED: &str = "it no longer supports namespace management";

impl NvmeDrives {
    /// Reads all drives in parallel, and returns them in the order of their NQNs. Simultaneous calls share one
    /// observation ([`SharedLook`](super::SharedLook)). Otherwise, with many allocations at the same time, each
    /// allocation would read the namespaces of all other allocations from the drives.
    pub(super) fn look(&self) -> Result<Observed, ObserveError> {
        self.shared.take(|| self.look_at_all())
    }

    fn look_at_all(&self) -> Result<Observed, ObserveError> {
        let Plugged { drives: plugged, unread } = self.plugged().map_err(unreadable)?;
        let blocks = self.reach.sysfs.blocks().map_err(unreadable)?;
        let answers: Vec<_> = thread::scope(|scope| {
            let start_read = |drive: &Arc<Managed>| {
                let (drive, blocks) = (Arc::clone(drive), blocks.clone());
                scope.spawn(move || self.read_drive(&drive, &blocks))
            };
            let threads: Vec<_> = plugged.iter().map(start_read).collect();
            let panicked = || Err("the agent panicked while it read this drive".to_owned());
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
        });
        let mut inventory = Observed::default();
        for (drive, answer) in plugged.iter().zip(answers) {
            self.enter(&mut inventory, drive, answer, &blocks);
        }
        self.enter_absent(&mut inventory, &plugged, unread).map_err(unreadable)?;
        inventory.drives.sort_by(|a, b| a.nqn.cmp(&b.nqn));
        number(&mut inventory.drives, &plugged);
        Ok(inventory)
    }

    /// Reads one drive within the deadline. Fails while an earlier change to the drive has not ended.
    fn read_drive(&self, drive: &Arc<Managed>, blocks: &[BlockNode]) -> Result<Reading, Fault> {
        let (managed, blocks) = (Arc::clone(drive), blocks.to_vec());
        let name = drive.physical.node.nqn.to_string();
        // A change that still runs may at any moment change what the drive reports, in particular which hosts have
        // access.
        if let Some(unended) = self.changes.unended(&name) {
            return Err(unended.to_string());
        }
        self.calls
            .run(&name, move || managed.contents(&blocks))
            .map_err(|error| error.to_string())?
    }

    fn enter(
        &self,
        inventory: &mut Observed,
        drive: &Managed,
        answer: Result<Reading, Fault>,
        blocks: &[BlockNode],
    ) {
        let nqn = &drive.physical.node.nqn;
        match answer {
            Ok(Reading::Contents(contents)) => {
                // The agent has warned about a drive that it could not make ready; it does not warn at each try.
                let unready = &contents.drive.unready;
                if unready.functions.is_none() && !unready.has_open_intents {
                    self.clear_warning(nqn);
                }
                let Contents { drive: shown, smart, namespaces, lost, .. } = *contents;
                let namespaces = namespaces.into_iter();
                inventory.namespaces.extend(namespaces.map(|held| with_device(held, blocks)));
                inventory.vanished.extend(lost);
                inventory.drives.push(Drive { label: drive.physical.function.label(), ..shown });
                inventory.smart.insert(nqn.clone(), smart);
            }
            Ok(Reading::NotOurs(why)) if drive.ledger.records().is_empty() => {
                self.leave_out(nqn, &why);
            }
            Ok(Reading::NotOurs(_)) => self.enter_plugged(inventory, drive, NOT_MANAGED),
            Err(fault) => self.enter_plugged(inventory, drive, &fault),
        }
    }

    /// Adds a drive that is plugged in but cannot be used, with the serial number and model from sysfs.
    fn enter_plugged(&self, inventory: &mut Observed, drive: &Managed, fault: &str) {
        let node = &drive.physical.node;
        let (serial, model) = (node.serial.clone(), node.model.clone());
        let label = drive.physical.function.label();
        let faulty = Drive { serial, model, label, ..faulty(&node.nqn, fault) };
        self.enter_faulty(inventory, faulty, &drive.ledger);
    }

    /// Adds the drives that have a ledger and are absent, and the drives whose ledger cannot be read.
    fn enter_absent(
        &self,
        inventory: &mut Observed,
        plugged: &[Arc<Managed>],
        unread: BTreeSet<Nqn>,
    ) -> io::Result<()> {
        let here: BTreeSet<_> = plugged.iter().map(|drive| &drive.physical.node.nqn).collect();
        // A plugged-in drive that has not reported its NQN yet may be one of the absent drives, moved to another slot.
        let device_without_nqn = self.source.device_without_nqn(&self.reach.sysfs)?;
        let mut absent = unread;
        for (path, nqn) in self.ledgers.known()? {
            match nqn {
                Ok(nqn) => drop(absent.insert(nqn)),
                // The drive is plugged in, so it is reported under its NQN.
                Err(_) if absent.iter().any(|nqn| self.ledgers.path(nqn) == path) => {}
                Err(error) => self.enter_unread_ledger(inventory, &path, &error),
            }
        }
        for nqn in absent.iter().filter(|nqn| !here.contains(nqn)) {
            let ledger = match self.ledgers.ledger(nqn) {
                Ok(ledger) => ledger,
                Err(error) => {
                    self.enter_unread(inventory, nqn, &self.ledgers.path(nqn), &error);
                    continue;
                }
            };
            if !ledger.records().is_empty() {
                self.enter_recorded(
                    inventory,
                    nqn,
                    &ledger,
                    plugged,
                    device_without_nqn.as_deref(),
                )?;
            }
        }
        Ok(())
    }

    /// Adds an absent drive that has recorded namespaces.
    fn enter_recorded(
        &self,
        inventory: &mut Observed,
        nqn: &Nqn,
        ledger: &Ledger,
        plugged: &[Arc<Managed>],
        device_without_nqn: Option<&str>,
    ) -> io::Result<()> {
        let last = ledger.slot_and_serial();
        let successor = plugged.iter().find(|drive| {
            last.as_ref().is_some_and(|last| drive.physical.node.took_the_place_of(last))
        });
        let in_its_slot =
            |drive: &Arc<Managed>| format!("{} is in its slot", drive.physical.node.nqn);
        let fault = match (successor, device_without_nqn) {
            (None, _) => ABSENT.to_owned(),
            (Some(drive), None) => {
                inventory.replaced.insert(nqn.clone());
                in_its_slot(drive)
            }
            (Some(drive), Some(who)) => format!(
                "{}, and {who} has not reported its NQN: if that is not this drive, unplug it",
                in_its_slot(drive)
            ),
        };
        let label = last.as_ref().map(|last| self.source.label(&last.slot)).transpose()?;
        let (serial, label) = (last.map(|last| last.serial), label.unwrap_or_default());
        let serial = serial.unwrap_or_default();
        self.enter_faulty(inventory, Drive { serial, label, ..faulty(nqn, &fault) }, ledger);
        Ok(())
    }

    /// Adds a drive whose NQN is unknown, under the name of its ledger's file.
    fn enter_unread_ledger(&self, inventory: &mut Observed, path: &Path, error: &io::Error) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if let Ok(nqn) = name.parse() {
            self.enter_unread(inventory, &nqn, path, error);
        }
    }

    /// Adds a drive whose ledger cannot be read, because it may hold namespaces of allocations.
    fn enter_unread(&self, inventory: &mut Observed, nqn: &Nqn, path: &Path, error: &io::Error) {
        let fault = format!(
            "its ledger {} cannot be read ({error}): repair it, or remove it; the agent then adopts again the namespaces that the objects' status names",
            path.display()
        );
        self.warn_once(nqn, &fault);
        inventory.unreadable.insert(nqn.clone());
        inventory.drives.push(faulty(nqn, &fault));
    }

    /// Adds a drive that does not answer, with its recorded namespaces; no host can reach these namespaces now.
    fn enter_faulty(&self, inventory: &mut Observed, drive: Drive, ledger: &Ledger) {
        let nqn = &drive.nqn;
        let recorded = ledger.records().into_iter().map(|record| Namespace {
            id: NamespaceId { subsystem: nqn.clone(), nsid: record.nsid },
            owner: record.owner(),
            size: record.size,
            access: BTreeSet::new(),
            device: None,
            members: record.members,
            needs_erasure: !record.erased,
            needs_zeroing: record.to_zero,
        });
        inventory.namespaces.extend(recorded);
        self.warn_once(nqn, drive.fault.as_deref().unwrap_or_default());
        inventory.drives.push(drive);
    }

    pub(super) fn warn_once(&self, nqn: &Nqn, fault: &str) {
        let warned = self.warned.lock().insert(nqn.clone(), fault.to_owned());
        if warned.as_deref() != Some(fault) {
            warn!(drive:% = nqn, cause = fault; "the drive cannot be used");
        }
    }

    fn clear_warning(&self, nqn: &Nqn) {
        self.warned.lock().remove(nqn);
    }
}

/// Adds the path of its block device to a namespace that the rabbit itself reaches.
fn with_device((namespace, nguid): (Namespace, [u8; 16]), blocks: &[BlockNode]) -> Namespace {
    let nguid = ledger::hex(nguid);
    let is_it = |block: &&BlockNode| block.device.namespace == namespace.id && block.may_be(&nguid);
    let is_here = namespace.access.iter().any(|host| host.endpoint == Some(Endpoint::Rabbit));
    let block = blocks.iter().filter(|_| is_here).find(is_it);
    Namespace { device: block.map(|block| block.device.path.clone()), ..namespace }
}

impl Managed {
    /// Reads a drive. Sends no command to a drive if this node uses a namespace of the drive that the ledger does not
    /// record.
    fn contents(&self, blocks: &[BlockNode]) -> Result<Reading, Fault> {
        let is_here =
            |block: &&BlockNode| block.device.namespace.subsystem == self.physical.node.nqn;
        let foreign = blocks.iter().filter(is_here).filter(|block| !self.is_recorded(block));
        match foreign.map(|block| &*block.device.path).find_map(physical::in_use) {
            // A drive that this node uses and that has no recorded namespace is most likely a drive of the operating
            // system.
            Some(why) if self.ledger.records().is_empty() => return Ok(Reading::NotOurs(why)),
            Some(why) => return Err(why),
            None => {}
        }
        let was_ready = self.ready.load(Ordering::SeqCst);
        if !was_ready && !self.physical.manages_namespaces()? {
            return Ok(Reading::NotOurs("it does not support namespace management".to_owned()));
        }
        let mut contents = self.contents_of_ours()?;
        // A drive that was reset, or was pulled and put back, has lost its virtual functions.
        let functions = if was_ready && contents.is_up { None } else { self.functions()? };
        contents.drive.unready = Unready {
            functions,
            has_open_intents: self.ledger.has_open_intents(),
            is_slot_unrecorded: self
                .ledger
                .lacks_slot(self.physical.node.slot_and_serial().as_ref()),
        };
        Ok(Reading::Contents(Box::new(contents)))
    }

    /// Returns the state of the drive's virtual functions; `None` if every function is ready.
    pub(super) fn functions(&self) -> Result<Option<Functions>, Fault> {
        let functions = self.physical.functions()?;
        let is_ready = bring_up(&functions).is_empty();
        self.ready.store(is_ready, Ordering::SeqCst);
        Ok((!is_ready).then_some(functions))
    }

    fn contents_of_ours(&self) -> Result<Contents, Fault> {
        let look = self.physical.drive.look();
        look.map_err(|error| in_one_line("read the drive", &error))
    }
}

/// Numbers the drives. A drive in a known slot gets the slot's number; the other drives get the
/// remaining numbers in order.
fn number(drives: &mut [Drive], plugged: &[Arc<Managed>]) {
    let known = plugged
        .iter()
        .filter_map(|drive| Some((&drive.physical.node.nqn, drive.physical.function.slot()?)));
    let known: BTreeMap<_, _> = known.collect();
    let mut free = (0..).filter(|slot| !known.values().any(|taken| taken == slot));
    for drive in drives {
        drive.slot = known.get(&drive.nqn).copied().or_else(|| free.next()).unwrap_or_default();
    }
}

fn faulty(nqn: &Nqn, fault: &str) -> Drive {
    Drive { fault: Some(fault.to_owned()), ..Drive::with_nqn(nqn.clone()) }
}
