//! Sends commands to one switch, which is found by its PAX id and takes one command at a time.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
    time::Duration,
};

use zerocopy::{FromZeros, IntoBytes};

use super::{
    command::{Command, Refusal, SwitchError},
    transport::{Devices, Transport},
    wire::{self, LinkEntry, LinkStatusReply, LinkStatusRequest, PaxIdReply, Reply, Request},
};

/// Deadline of commands that the firmware answers from its own memory.
const QUICK: Duration = Duration::from_secs(5);

pub(super) type Result<T> = std::result::Result<T, SwitchError>;

/// A switch. It is identified by its PAX id and not by its device name, because the device may come back under another
/// name.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) pax: u8,
    devices: Arc<dyn Devices>,
    way: Mutex<Way>,
}

/// The open device. `None` before the first command, and after a failure that may have left an answer unread.
type Way = Option<Box<dyn Transport>>;

impl Switch {
    pub(super) fn new(pax: u8, devices: Arc<dyn Devices>) -> Self {
        Self { pax, devices, way: Mutex::new(None) }
    }

    /// Locks the switch for several commands one after another.
    pub(super) fn lock(&self) -> Result<LockedSwitch<'_>> {
        let way = self.way.lock().unwrap_or_else(|poisoned| {
            // A thread panicked while it had the switch locked, and may have left an answer unread.
            let mut way = poisoned.into_inner();
            *way = None;
            self.way.clear_poison();
            way
        });
        LockedSwitch::begin(self, way)
    }

    /// Returns whether another thread has locked the switch, for example because a command runs.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.way.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Sends a command and returns the switch's reply.
    pub(super) fn ask<A: Reply>(&self, command: Command, request: &impl Request) -> Result<A> {
        self.lock()?.ask(command, request)
    }

    /// Sends a command that has no reply.
    pub(super) fn send(&self, command: Command, request: &impl Request) -> Result<()> {
        self.lock()?.send(command, request)
    }

    /// Reads the links at the switch's ports, unordered.
    pub(super) fn links(&self) -> Result<Vec<LinkEntry>> {
        let every = LinkStatusRequest { ports: 0.into() };
        let LinkStatusReply(entries) = self.ask(Command::LinkStatus, &every)?;
        let is_port = |entry: &LinkEntry| entry.stack >> 4 <= wire::LAST_STACK;
        Ok(entries.into_iter().filter(is_port).collect())
    }

    pub(super) fn malformed(&self, command: Command, why: String) -> SwitchError {
        SwitchError::Malformed { pax: self.pax, command, why }
    }

    /// Finds the switch among all devices.
    fn find(&self) -> Result<Box<dyn Transport>> {
        let absent = |source| SwitchError::Absent { pax: self.pax, source };
        let mut failed = None;
        for name in self.devices.names().map_err(|error| absent(Some(error)))? {
            match self.devices.open(&name).and_then(identify) {
                Ok((pax, transport)) if pax == self.pax => return Ok(transport),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        Err(absent(failed))
    }
}

fn identify(mut transport: Box<dyn Transport>) -> io::Result<(u8, Box<dyn Transport>)> {
    let mut reply = PaxIdReply::new_zeroed();
    match transport.exchange(Command::PaxId.word(), &[], reply.as_mut_bytes(), QUICK)? {
        0 => Ok((reply.pax, transport)),
        code => Err(io::Error::other(format!("it does not report its PAX id: {}", Refusal(code)))),
    }
}

/// A switch that is locked for one caller.
#[derive(Debug)]
pub(super) struct LockedSwitch<'a> {
    switch: &'a Switch,
    way: MutexGuard<'a, Way>,
}

impl<'a> LockedSwitch<'a> {
    fn begin(switch: &'a Switch, mut way: MutexGuard<'a, Way>) -> Result<Self> {
        if way.is_none() {
            *way = Some(switch.find()?);
        }
        Ok(Self { switch, way })
    }

    pub(super) fn switch(&self) -> &'a Switch {
        self.switch
    }

    pub(super) fn ask<A: Reply>(&mut self, command: Command, request: &impl Request) -> Result<A> {
        self.ask_within(command, request, QUICK)
    }

    pub(super) fn ask_within<A: Reply>(
        &mut self,
        command: Command,
        request: &impl Request,
        within: Duration,
    ) -> Result<A> {
        let mut reply = A::new_zeroed();
        self.exchange(command, request.as_bytes(), reply.as_mut_bytes(), within)?;
        Ok(reply)
    }

    pub(super) fn send(&mut self, command: Command, request: &impl Request) -> Result<()> {
        self.exchange(command, request.as_bytes(), &mut [], QUICK)
    }

    fn exchange(
        &mut self,
        command: Command,
        request: &[u8],
        reply: &mut [u8],
        within: Duration,
    ) -> Result<()> {
        let pax = self.switch.pax;
        let lost = |source| SwitchError::Lost { pax, command, source };
        let Some(transport) = self.way.as_mut() else {
            return Err(lost(io::ErrorKind::NotConnected.into()));
        };
        match transport.exchange(command.word(), request, reply, within) {
            Ok(0) => Ok(()),
            Ok(code) => Err(SwitchError::Refused { pax, command, refusal: Refusal(code) }),
            Err(error) => {
                // Close the device: a late answer must not be read as the answer to another command, and the device
                // with this name may be another switch later.
                *self.way = None;
                Err(lost(error))
            }
        }
    }
}
