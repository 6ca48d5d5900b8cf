//! Commands to a switch, and their errors.

use std::{fmt, io, time::Duration};

use thiserror::Error;

/// MRPC commands (Microsemi/switchtec-user, `inc/switchtec/mrpc.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Command {
    LinkStatus = 0x1c,
    PaxId = 0x81,
    Dump = 0x83,
    Bind = 0x84,
    Register = 0x8e,
    Tunnel = 0x8f,
    NvmeAdmin = 0x91,
}

/// Addresses the switch whose device it is, in bits 22:18 of a command word (switchtec-user, `SWITCHTEC_PAX_ID_LOCAL`).
const THIS_SWITCH: u32 = 0x1f << 18;

impl Command {
    /// The word before the request.
    pub(super) fn word(self) -> u32 {
        self as u32 | THIS_SWITCH
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::LinkStatus => "link status",
            Self::PaxId => "PAX id",
            Self::Dump => "fabric dump",
            Self::Bind => "bind",
            Self::Register => "endpoint register",
            Self::Tunnel => "endpoint tunnel",
            Self::NvmeAdmin => "NVMe admin command",
        };
        write!(f, "{name} ({:02X}h)", *self as u32)
    }
}

/// Why a switch refuses (switchtec-user, `inc/switchtec/errors.h`). Other codes of the fabric commands are not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Unsupported,
    NoThread,
    ThreadBusy,
    InvalidSubcommand,
    InvalidCommand,
    InvalidParameter,
    BadFirmwareState,
    Denied,
    InvalidPort,
    AccessRefused,
    Other(u32),
}

impl Refusal {
    pub(super) fn new(code: u32) -> Self {
        match code {
            0x4a => Self::Unsupported,
            0x64001 => Self::NoThread,
            0x64002 => Self::ThreadBusy,
            0x64004 => Self::InvalidSubcommand,
            0x64005 => Self::InvalidCommand,
            0x64006 => Self::InvalidParameter,
            0x64007 => Self::BadFirmwareState,
            0x64010 => Self::Denied,
            0x10_0002 => Self::InvalidPort,
            0xffff_0001 => Self::AccessRefused,
            code => Self::Other(code),
        }
    }

    #[cfg(test)]
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Unsupported => 0x4a,
            Self::NoThread => 0x64001,
            Self::ThreadBusy => 0x64002,
            Self::InvalidSubcommand => 0x64004,
            Self::InvalidCommand => 0x64005,
            Self::InvalidParameter => 0x64006,
            Self::BadFirmwareState => 0x64007,
            Self::Denied => 0x64010,
            Self::InvalidPort => 0x10_0002,
            Self::AccessRefused => 0xffff_0001,
            Self::Other(code) => code,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "its firmware does not have the command",
            Self::NoThread => "no handler is free",
            Self::ThreadBusy => "the handler is busy",
            Self::InvalidSubcommand => "invalid subcommand",
            Self::InvalidCommand => "invalid command",
            Self::InvalidParameter => "invalid parameter",
            Self::BadFirmwareState => "its firmware is in the wrong state for it",
            Self::Denied => "denied",
            Self::InvalidPort => "invalid port",
            Self::AccessRefused => "access refused",
            Self::Other(code) => return write!(f, "return code {code:X}h"),
        })
    }
}

/// Why a command to a switch failed.
#[derive(Debug, Error)]
pub(super) enum SwitchError {
    /// No device answers as that switch.
    #[error(
        "no /dev/switchtec* answers as PAX {pax}: see that the switch has power and the kernel's switchtec driver it"
    )]
    Absent {
        /// The switch's PAX id.
        pax: u8,
        /// The error of the last device that could not be asked.
        #[source]
        source: Option<io::Error>,
    },
    /// It answered with a code other than 0.
    #[error("PAX {pax} refuses the {command}: {refusal}")]
    Refused { pax: u8, command: Command, refusal: Refusal },
    /// The command did not arrive, or no answer came back.
    #[error("send PAX {pax} the {command}")]
    Lost {
        pax: u8,
        command: Command,
        #[source]
        source: io::Error,
    },
    /// It was not sent, because the caller has stopped waiting.
    #[error("nobody waits for it any more")]
    GivenUp,
    /// The answer is invalid.
    #[error("PAX {pax} answers the {command} with what cannot be: {why}")]
    Malformed { pax: u8, command: Command, why: String },
    /// The switch was asked to open a tunnel, and did not.
    #[error(
        "PAX {pax} did not open its tunnel to function {pdfid:04X}h within {} s: see that the drive is ready", .waited.as_secs_f32()
    )]
    TunnelShut { pax: u8, pdfid: u16, waited: Duration },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_to_the_switch_of_the_device() {
        assert_eq!(Command::PaxId.word(), 0x007c_0081);
        assert_eq!(Command::LinkStatus.to_string(), "link status (1Ch)");
    }

    #[test]
    fn refusals_are_told_apart_and_unknown_ones_keep_their_number() {
        for code in [0x4a, 0x64001, 0x64004, 0x64006, 0x64007, 0x10_0002, 0xffff_0001, 0x9_1234] {
            assert_eq!(Refusal::new(code).code(), code);
        }
        assert_eq!(Refusal::new(0x64006), Refusal::InvalidParameter);
        assert_eq!(Refusal::new(0x9_1234).to_string(), "return code 91234h");
    }
}
