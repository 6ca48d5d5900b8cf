//! Sends admin commands to a drive through its switch.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use block_devices::busy::pause_for;
use drives::nvme::{
    admin::{AdminError, AdminQueue, Answered, Command as AdminCommand},
    status::Status,
};
use process::bounded::is_given_up;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{
    command::{Command, SwitchError},
    switch::{LockedSwitch, Result, Switch},
    wire::{
        Completion, PASS_DATA, PASS_END, PASS_MOST, PASS_PIECE, PASS_START, PassNext, PassPiece,
        PassStart, PassStarted, Submission, TUNNEL_ENABLE, TUNNEL_STATUS, TunnelReply,
        TunnelRequest,
    },
};

/// How many times to check whether a tunnel has opened, and the pause between two checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) looks: u32,
    pub(super) pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { looks: 50, pause: Duration::from_millis(100) }
    }
}

/// The tunnel to the physical function of a drive.
#[derive(Debug)]
pub(super) struct Tunnel {
    switch: Arc<Switch>,
    pdfid: u16,
    patience: Patience,
    open: AtomicBool,
    /// Whether a command was begun and the request that should have ended it failed.
    unended: AtomicBool,
}

impl Tunnel {
    pub(super) fn new(switch: Arc<Switch>, pdfid: u16, patience: Patience) -> Self {
        let (open, unended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { switch, pdfid, patience, open, unended }
    }

    /// Opens the tunnel, unless it is open already. Between the checks, the switch takes other commands.
    fn open(&self) -> Result<()> {
        if self.open.load(Ordering::Relaxed) || self.is_open()? {
            self.open.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.switch.send(Command::Tunnel, &self.request(TUNNEL_ENABLE, 0))?;
        for _ in 0..self.patience.looks {
            if self.is_open()? {
                self.open.store(true, Ordering::Relaxed);
                return Ok(());
            }
            pause_for(self.patience.pause);
        }
        let waited = self.patience.pause * self.patience.looks;
        Err(SwitchError::TunnelShut { pax: self.switch.pax, pdfid: self.pdfid, waited })
    }

    fn is_open(&self) -> Result<bool> {
        let request = self.request(TUNNEL_STATUS, 4);
        let answer: TunnelReply = self.switch.ask(Command::Tunnel, &request)?;
        match (answer.length.get(), answer.state.get()) {
            (4, 0) => Ok(false),
            (4, 1) => Ok(true),
            (length, state) => {
                let why = format!("state {state} in {length} bytes");
                Err(self.switch.malformed(Command::Tunnel, why))
            }
        }
    }

    fn request(&self, subcommand: u16, expected: u16) -> TunnelRequest {
        TunnelRequest {
            subcommand: subcommand.into(),
            pdfid: self.pdfid.into(),
            expected: expected.into(),
            metadata: 0.into(),
        }
    }

    /// Executes a command, and keeps the switch locked until the command has ended.
    fn pass(&self, sent: &[u8], expected: u16, within: Duration) -> Result<Vec<u8>> {
        self.open()?;
        let mut locked = self.switch.lock()?;
        // The wait for the switch may have taken minutes, because of other commands.
        if is_given_up() {
            return Err(SwitchError::GivenUp);
        }
        if self.unended.swap(false, Ordering::Relaxed) {
            // End the command of an earlier attempt. Ignore a refusal: the switch refuses this request if it has ended
            // that command already.
            let _ = locked.send(Command::NvmeAdmin, &self.next(PASS_END, 0));
        }
        let answer = self.converse(&mut locked, sent, expected, within);
        // End the command, even after a failure: the switch keeps only one answer for each function.
        let ended = locked.send(Command::NvmeAdmin, &self.next(PASS_END, 0));
        if matches!(ended, Err(SwitchError::Lost { .. })) {
            self.unended.store(true, Ordering::Relaxed);
        }
        if answer.is_err() {
            // The tunnel may be closed, because the drive was pulled and put back.
            self.open.store(false, Ordering::Relaxed);
        }
        let answer = answer?;
        ended?;
        Ok(answer)
    }

    fn converse(
        &self,
        locked: &mut LockedSwitch<'_>,
        sent: &[u8],
        expected: u16,
        within: Duration,
    ) -> Result<Vec<u8>> {
        let length = self.start(locked, sent, expected, within)?;
        let mut answer = Vec::with_capacity(usize::from(length));
        while answer.len() < usize::from(length) {
            let offset = u16::try_from(answer.len()).unwrap_or(u16::MAX);
            let piece: PassPiece = locked.ask(Command::NvmeAdmin, &self.next(PASS_DATA, offset))?;
            let data = piece.data.get(..usize::from(piece.length.get()));
            let data = data.filter(|answer| !answer.is_empty()).ok_or_else(|| {
                let why = format!("a piece of {} bytes at {offset}", piece.length.get());
                self.switch.malformed(Command::NvmeAdmin, why)
            })?;
            answer.extend_from_slice(data);
        }
        answer.truncate(usize::from(length));
        Ok(answer)
    }

    /// Sends the command in pieces; after the last piece, the drive executes the command. Returns the length of
    /// the answer in bytes.
    fn start(
        &self,
        locked: &mut LockedSwitch<'_>,
        sent: &[u8],
        expected: u16,
        within: Duration,
    ) -> Result<u16> {
        let pieces = sent.chunks(PASS_PIECE);
        let last = pieces.len().saturating_sub(1);
        let mut length = 0;
        for (index, bytes) in pieces.enumerate() {
            let mut piece = PassStart::new_zeroed();
            piece.subcommand = PASS_START;
            piece.pdfid = self.pdfid.into();
            piece.more = u8::from(index < last);
            piece.offset = u16::try_from(index * PASS_PIECE).unwrap_or(u16::MAX).into();
            piece.length = u16::try_from(bytes.len()).unwrap_or(u16::MAX).into();
            piece.data[..bytes.len()].copy_from_slice(bytes);
            if index < last {
                locked.send(Command::NvmeAdmin, &piece)?;
            } else {
                piece.expected = expected.into();
                let started: PassStarted = locked.ask_within(Command::NvmeAdmin, &piece, within)?;
                length = started.length.get();
            }
        }
        Ok(length)
    }

    fn next(&self, subcommand: u8, offset: u16) -> PassNext {
        let mut next = PassNext::new_zeroed();
        next.subcommand = subcommand;
        next.pdfid = self.pdfid.into();
        next.offset = offset.into();
        next
    }
}

/// Returns whether a command sends data to the drive: bit 0 of its opcode (NVM Express Base Specification 2.0,
/// figure 88, Data Transfer).
fn goes_to_drive(opcode: u8) -> bool {
    opcode & 1 != 0
}

impl AdminQueue for Tunnel {
    fn submit(&self, command: AdminCommand, data: &mut [u8]) -> Answered<u32> {
        let mut submission = Submission::new_zeroed();
        submission.opcode = command.opcode;
        submission.nsid = command.nsid.into();
        submission.cdw10 = command.cdw10.into();
        submission.cdw11 = command.cdw11.into();
        let mut sent = submission.as_bytes().to_vec();
        if goes_to_drive(command.opcode) {
            sent.extend_from_slice(data);
        }
        let all = size_of::<Completion>() + data.len();
        let expected = u16::try_from(all).ok().filter(|_| sent.len().max(all) <= PASS_MOST);
        let expected = expected.ok_or_else(|| system(io::ErrorKind::InvalidInput.into()))?;
        let answer = self.pass(&sent, expected, command.timeout).map_err(|error| match error {
            SwitchError::GivenUp => AdminError::GivenUp,
            other => system(io::Error::other(other)),
        })?;
        take(&answer, command.opcode, data)
    }

    /// Always fails. Behind a switch, virtual functions are reset one by one; the physical function is never reset,
    /// because hosts that use the drive would lose it.
    fn reset(&self) -> Answered<()> {
        let why = "a drive's physical function is not reset through a switch";
        Err(system(io::Error::new(io::ErrorKind::Unsupported, why)))
    }
}

fn system(source: io::Error) -> AdminError {
    AdminError::System(source)
}

fn take(answer: &[u8], opcode: u8, data: &mut [u8]) -> Answered<u32> {
    let malformed = |why| AdminError::Malformed { what: "a command through the switch", why };
    let (completion, rest) = Completion::read_from_prefix(answer)
        .map_err(|_| malformed(format!("{} bytes are no completion", answer.len())))?;
    match completion.status.get() >> 1 {
        0 if goes_to_drive(opcode) || data.is_empty() => {}
        0 => {
            let whole = rest.get(..data.len());
            let whole = whole.ok_or_else(|| {
                malformed(format!("{} bytes instead of {}", rest.len(), data.len()))
            })?;
            data.copy_from_slice(whole);
        }
        status => return Err(AdminError::Status(Status::new(status))),
    }
    Ok(completion.result.get())
}
