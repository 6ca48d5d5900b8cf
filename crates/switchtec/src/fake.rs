//! Simulates two switches in memory, with drives in their slots.
//!
//! No emulator has such a switch. This simulation accepts and refuses commands as the firmware should according to the
//! sources of [`super::wire`]; it was not compared with a real switch. The sources do not give the codes of refusals,
//! so the simulation uses codes of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use drives::nvme::{admin, fake::Simulated};
use zerocopy::{FromBytes, IntoBytes};

use super::{
    command::{Command, Refusal},
    dump::Function,
    switch::Switch,
    topology::{Port, Seat, host_at, ports, slots},
    transport::{Devices, Transport},
    tunnel::{Patience, Tunnel},
    wire::*,
    wire_dump::*,
};

mod firmware;

/// The patience of tests: three checks, without pauses.
pub(super) const PATIENCE: Patience = Patience { looks: 3, pause: Duration::ZERO };

/// A handle to both switches.
#[derive(Debug, Clone)]
pub(super) struct Chassis(Arc<Mutex<State>>);

#[derive(Debug)]
pub(super) struct State {
    /// The PAX id of each device.
    pub(super) devices: BTreeMap<String, u8>,
    pub(super) drives: BTreeMap<Port, Drive>,
    /// LTSSM state, width and generation of each link that is not up with full width and speed.
    pub(super) links: BTreeMap<Port, (u16, u8, u8)>,
    /// Switches that do not answer.
    pub(super) silent: BTreeSet<u8>,
    /// The commands received so far, each with the PAX id of its switch.
    pub(super) said: Vec<(u8, Command)>,
    dumps: BTreeMap<u8, Vec<u8>>,
    passes: BTreeMap<(u8, u16), Pass>,
}

/// A drive in a slot.
#[derive(Debug)]
pub(super) struct Drive {
    pub(super) simulated: Simulated,
    /// PDFID (the switches' number for a function) of the drive's physical function; its virtual functions have the
    /// next PDFIDs.
    pub(super) physical: u16,
    pub(super) bound: BTreeMap<u16, Seat>,
    pub(super) tunnel: Opens,
    /// PDFIDs of the functions that were reset, in the order of the resets.
    pub(super) resets: Vec<u16>,
}

/// The state of a tunnel, or the way in which the tunnel will open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opens {
    Open,
    /// The tunnel opens after this many status requests, counted from the command that opens it.
    After(u8),
    Opening(u8),
    Never,
}

#[derive(Debug, Default)]
struct Pass {
    sent: Vec<u8>,
    answer: Option<Vec<u8>>,
}

impl Chassis {
    pub(super) fn new() -> Self {
        let devices = [("switchtec0", 0), ("switchtec1", 1)];
        Self(Arc::new(Mutex::new(State {
            devices: devices.map(|(name, pax)| (name.to_owned(), pax)).into(),
            drives: BTreeMap::new(),
            links: BTreeMap::new(),
            silent: BTreeSet::new(),
            said: Vec::new(),
            dumps: BTreeMap::new(),
            passes: BTreeMap::new(),
        })))
    }

    /// Plugs a drive into the slot with the index `index`.
    pub(super) fn plug(&self, index: u8, simulated: &Simulated) -> Port {
        let slot = slots(index / 9)[usize::from(index % 9)];
        let drive = Drive {
            simulated: simulated.clone(),
            physical: 0x1000 + u16::from(index) * 0x100,
            bound: BTreeMap::new(),
            tunnel: Opens::After(1),
            resets: Vec::new(),
        };
        self.state().drives.insert(slot.at, drive);
        slot.at
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn with<T>(&self, port: Port, change: impl FnOnce(&mut Drive) -> T) -> T {
        change(self.state().drives.get_mut(&port).unwrap())
    }

    /// Returns how many times the switches have received this command.
    pub(super) fn count(&self, command: Command) -> usize {
        self.state().said.iter().filter(|(_, sent)| *sent == command).count()
    }
}

/// Returns an admin queue of the drive, which is plugged into slot 0 of a new chassis.
pub(crate) fn tunnel_to(drive: &Simulated) -> Box<dyn admin::AdminQueue> {
    let chassis = Chassis::new();
    let at = chassis.plug(0, drive);
    let physical = chassis.with(at, |drive| drive.physical);
    let switch = Arc::new(Switch::new(at.pax, Arc::new(chassis)));
    Box::new(Tunnel::new(switch, physical, PATIENCE))
}

impl Devices for Chassis {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().devices.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Transport>> {
        let pax = self.state().devices.get(name).copied();
        let pax = pax.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Device { chassis: self.clone(), pax }))
    }
}

#[derive(Debug)]
struct Device {
    chassis: Chassis,
    pax: u8,
}

impl Transport for Device {
    fn exchange(
        &mut self,
        word: u32,
        request: &[u8],
        reply: &mut [u8],
        _: Duration,
    ) -> io::Result<u32> {
        let mut state = self.chassis.state();
        if state.silent.contains(&self.pax) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match state.answer(self.pax, word, request)? {
            Ok(answer) => {
                let length = answer.len().min(reply.len());
                reply[..length].copy_from_slice(&answer[..length]);
                Ok(0)
            }
            Err(Refusal(code)) => Ok(code),
        }
    }
}

impl Drive {
    /// Returns the number of one of this drive's functions, 0 for the physical function; `None` for a
    /// function of another drive.
    fn number(&self, pdfid: u16) -> Option<u16> {
        let number = pdfid.checked_sub(self.physical)?;
        (number <= self.simulated.state().functions).then_some(number)
    }

    fn functions(&self) -> Vec<Function> {
        let count = self.simulated.state().functions;
        let function = |number| {
            let pdfid = self.physical + number;
            Function { pdfid, bound: self.bound.get(&pdfid).copied() }
        };
        (1..=count).map(function).collect()
    }
}
