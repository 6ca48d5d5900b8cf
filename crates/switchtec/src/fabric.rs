//! Finds drives by scans of a rabbit's switches.

use std::{
    collections::{BTreeMap, BTreeSet},
    io, panic,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use drives::nvme::{Candidate, ControllerNode, Switches, in_one_line, wire as nvme};
use log::warn;
use parking_lot::Mutex;
use storage::{
    desired::Nqn,
    observed::{LinkState, PortLink},
};

use super::{
    behind::{Behind, Pace},
    bindings::missing_bindings,
    dump::{Functions, Plugged, plugged_at},
    links,
    record::Recorded,
    switch::Switch,
    topology::{SWITCHES, Slot, label, slots},
    transport::{DeviceFiles, Devices},
};

/// The switches of a rabbit, with the last scan of each.
#[derive(Debug)]
pub struct Fabric {
    devices: Arc<dyn Devices>,
    switches: Arc<[Arc<Switch>; 2]>,
    /// The last scan of each switch, by PAX id.
    scans: Vec<Mutex<Scan>>,
    pace: Pace,
    /// Whether a switch was ever seen on this node.
    has_switches: AtomicBool,
    warned: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) nqn: Nqn,
    model: String,
    /// Serial number, without surrounding blanks.
    serial: String,
    pub(super) behind: Behind,
    /// Whether the function of each host was bound to that host.
    is_bound: bool,
}

/// The last scan of one switch.
#[derive(Debug, Default)]
struct Scan {
    at: Option<Instant>,
    /// The drives that were found, by the index of their slot.
    drives: BTreeMap<u8, Found>,
    generations: BTreeMap<u8, u32>,
    /// Slots whose drive did not answer.
    faulty: BTreeSet<u8>,
    /// Whether the switch reported its links.
    is_read: bool,
}

impl Fabric {
    /// Creates the fabric of this node's switches; every exchange with a switch is appended to the file at `record`.
    ///
    /// # Errors
    /// When the file at `record` cannot be opened.
    pub fn new(record: Option<&Path>) -> io::Result<Self> {
        let devices = DeviceFiles::new(PathBuf::from("/dev"));
        Ok(match record {
            None => Self::over(Arc::new(devices), Pace::default()),
            Some(path) => {
                let recorded = Recorded::new(Box::new(devices), path)?;
                Self::over(Arc::new(recorded), Pace::default())
            }
        })
    }

    pub(super) fn over(devices: Arc<dyn Devices>, pace: Pace) -> Self {
        let switch = |pax| Arc::new(Switch::new(pax, Arc::clone(&devices)));
        Self {
            switches: Arc::new([0, 1].map(switch)),
            scans: (0..SWITCHES).map(|_| Mutex::default()).collect(),
            devices,
            pace,
            has_switches: AtomicBool::new(false),
            warned: Mutex::default(),
        }
    }

    /// Returns the drives, by slot. If a switch does not answer, returns the drives from its last scan.
    pub(super) fn found(&self) -> Vec<Found> {
        thread::scope(|scope| {
            let scan = |pax| scope.spawn(move || self.scan(pax));
            let scans: Vec<_> = (0..SWITCHES).map(scan).collect();
            scans.into_iter().flat_map(join).collect()
        })
    }

    fn scan(&self, pax: u8) -> Vec<Found> {
        let index = usize::from(pax);
        let (Some(switch), Some(scan)) = (self.switches.get(index), self.scans.get(index)) else {
            return Vec::new();
        };
        let mut scan = scan.lock();
        let recent = scan.at.is_some_and(|at| at.elapsed() < self.pace.fresh);
        // A switch may take minutes to carry out a command for a drive; until then, its last scan is used.
        let busy = scan.at.is_some() && switch.is_busy();
        if !recent && !busy {
            self.look(switch, &mut scan);
            scan.at = Some(Instant::now());
        }
        scan.drives.values().cloned().collect()
    }

    fn look(&self, switch: &Arc<Switch>, scan: &mut Scan) {
        let name = format!("PAX {}", switch.pax);
        let links = switch.links();
        scan.is_read = links.is_ok();
        let entries = match links {
            Ok(entries) => entries,
            Err(error) => return self.warn_once(&name, &in_one_line("search for drives", &error)),
        };
        self.clear_warning(&name);
        for slot in slots(switch.pax) {
            let name = format!("slot {}", slot.label);
            let is_up = entries
                .iter()
                .any(|entry| entry.port == slot.at.port && links::state(entry) == LinkState::Up);
            let identified = if is_up { self.identify(switch, slot, scan) } else { Ok(None) };
            if identified.is_err() {
                scan.faulty.insert(slot.index)
            } else {
                scan.faulty.remove(&slot.index)
            };
            match identified {
                Ok(Some(found)) => {
                    self.clear_warning(&name);
                    scan.generations.insert(slot.index, found.behind.generation);
                    scan.drives.insert(slot.index, found);
                }
                Ok(None) => {
                    self.clear_warning(&name);
                    if scan.drives.remove(&slot.index).is_some() {
                        *scan.generations.entry(slot.index).or_default() += 1;
                    }
                }
                Err(why) => self.warn_once(&name, &why),
            }
        }
    }

    fn identify(
        &self,
        switch: &Arc<Switch>,
        slot: Slot,
        scan: &Scan,
    ) -> Result<Option<Found>, String> {
        let at_port = plugged_at(switch, slot.at.port)
            .map_err(|error| in_one_line("read the slot", &error))?;
        let functions = match at_port {
            Plugged::Drive(functions) => functions,
            Plugged::Nothing => return Ok(None),
            Plugged::Other(what) => return Err(format!("there is {what}")),
        };
        let mut behind = self.way(slot, &functions, scan.generations.get(&slot.index));
        let mut patience = self.pace.tunnel;
        if scan.faulty.contains(&slot.index) {
            // An earlier scan has already waited for this drive, so check only once.
            patience.looks = 1;
        }
        let controller = behind
            .admin_with(patience)
            .controller()
            .map_err(|error| in_one_line("identify the drive", &error))?;
        let nqn = nvme::text(&controller.nqn);
        let nqn: Nqn = nqn.parse().map_err(|_| format!("the drive's NQN {nqn:?} is no NQN"))?;
        let is_bound =
            missing_bindings(&slot, &functions).is_ok_and(|bindings| bindings.is_empty());
        if let Some(before) = scan.drives.get(&slot.index) {
            let is_same = before.nqn == nqn && before.behind.physical == functions.physical;
            if !is_same || (before.is_bound && !is_bound) {
                behind.generation += 1;
            }
        }
        let (model, serial) = (nvme::text(&controller.model), nvme::text(&controller.serial));
        Ok(Some(Found { nqn, model, serial, behind, is_bound }))
    }

    fn way(&self, slot: Slot, functions: &Functions, generation: Option<&u32>) -> Behind {
        Behind {
            slot,
            physical: functions.physical,
            generation: generation.copied().unwrap_or_default(),
            switches: Arc::clone(&self.switches),
            pace: self.pace,
        }
    }

    /// Warns about `what` once for each reason.
    fn warn_once(&self, what: &str, why: &str) {
        let warned = self.warned.lock().insert(what.to_owned(), why.to_owned());
        if warned.as_deref() != Some(why) {
            warn!(cause = why; "{what} cannot be used");
        }
    }

    fn clear_warning(&self, what: &str) {
        self.warned.lock().remove(what);
    }
}

impl Switches for Fabric {
    fn are_present(&self) -> io::Result<bool> {
        if !self.has_switches.load(Ordering::Relaxed) && self.devices.names()?.is_empty() {
            return Ok(false);
        }
        self.has_switches.store(true, Ordering::Relaxed);
        Ok(true)
    }

    fn drives(&self) -> Vec<Candidate> {
        self.found().into_iter().map(Found::candidate).collect()
    }

    /// Returns the name of a slot whose drive did not answer in the last scan, or of a switch that did not answer in
    /// its last scan; `None` if all answered.
    fn device_without_nqn(&self) -> Option<String> {
        (0_u8..).zip(&self.scans).find_map(|(pax, scan)| {
            let scan = scan.lock();
            let faulty = slots(pax).into_iter().find(|slot| scan.faulty.contains(&slot.index));
            let unread = || (!scan.is_read).then(|| format!("PAX {pax}"));
            faulty.map(|slot| format!("the drive in slot {}", slot.label)).or_else(unread)
        })
    }

    /// Returns every port of both switches, including the ports of a switch that does not answer.
    fn links(&self) -> Vec<PortLink> {
        thread::scope(|scope| {
            let read = |switch: &Arc<Switch>| links::of_switch(switch.pax, switch.links());
            let start = |switch| scope.spawn(move || read(switch));
            let threads: Vec<_> = self.switches.iter().map(start).collect();
            threads.into_iter().flat_map(join).collect()
        })
    }

    /// Returns the label in the table of the rabbit's wiring.
    fn label(&self, slot: &str) -> String {
        let printed = slot.parse().ok().and_then(label);
        printed.map_or_else(String::new, |label| label.to_string())
    }
}

impl Found {
    fn candidate(self) -> Candidate {
        let node = ControllerNode {
            name: format!("slot {}", self.behind.slot.index),
            nqn: self.nqn,
            model: self.model,
            serial: self.serial,
            slot: Some(self.behind.slot.index.to_string()),
            function: PathBuf::new(),
            is_physical: true,
        };
        Candidate { node, function: Arc::new(self.behind) }
    }
}

/// Returns the thread's result; panics if the thread panicked, because an incomplete list of drives must not be used.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
}
