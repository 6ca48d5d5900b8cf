//! Commands to a switch, and their errors.

use std::{fmt, io, time::Duration};

use thiserror::Error;

/// Commands of MRPC, the mailbox of a switch's firmware (Microsemi/switchtec-user, `inc/switchtec/mrpc.h`).
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

/// Addresses the switch to which the opened device belongs, in bits 22:18 of a
/// command word (switchtec-user, `SWITCHTEC_PAX_ID_LOCAL`).
const THIS_SWITCH: u32 = 0x1f << 18;

impl Command {
    /// Returns the command word, which is sent before the request.
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

/// The return code with which a switch refuses a command. The known codes are from switchtec-user,
/// `inc/switchtec/errors.h`; the fabric commands also return codes that are not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) u32);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0x4a => "its firmware does not have the command",
            0x64001 => "no handler is free",
            0x64002 => "the handler is busy",
            0x64004 => "invalid subcommand",
            0x64005 => "invalid command",
            0x64006 => "invalid parameter",
            0x64007 => "its firmware is in the wrong state for it",
            0x64010 => "denied",
            0x10_0002 => "invalid port",
            0xffff_0001 => "access refused",
            code => return write!(f, "return code {code:X}h"),
        })
    }
}

/// A failure of a command to a switch.
#[derive(Debug, Error)]
pub(super) enum SwitchError {
    #[error(
        "no /dev/switchtec* answers as PAX {pax}: check that the switch has power and that the kernel's switchtec driver is bound to it"
    )]
    Absent {
        pax: u8,
        #[source]
        source: Option<io::Error>,
    },
    #[error("PAX {pax} refuses the {command}: {refusal}")]
    Refused { pax: u8, command: Command, refusal: Refusal },
    #[error("send PAX {pax} the {command}")]
    Lost {
        pax: u8,
        command: Command,
        #[source]
        source: io::Error,
    },
    /// The command was not sent, because the caller has stopped waiting.
    #[error("the command was not sent: its deadline had passed before its turn came")]
    GivenUp,
    #[error("PAX {pax} sent a malformed answer to the {command}: {why}")]
    Malformed { pax: u8, command: Command, why: String },
    #[error(
        "PAX {pax} did not open its tunnel to function {pdfid:04X}h within {} s: check that the drive is ready", .waited.as_secs_f32()
    )]
    TunnelShut { pax: u8, pdfid: u16, waited: Duration },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_word_addresses_the_switch_of_the_device() {
        assert_eq!(Command::PaxId.word(), 0x007c_0081);
        assert_eq!(Command::LinkStatus.to_string(), "link status (1Ch)");
    }

    #[test]
    fn known_refusals_have_texts_and_unknown_refusals_show_their_code() {
        for code in [0x4a, 0x64001, 0x64004, 0x64006, 0x64007, 0x10_0002, 0xffff_0001, 0x9_1234] {
            let text = Refusal(code).to_string();
            assert_eq!(text.starts_with("return code"), code == 0x9_1234, "{text}");
        }
        assert_eq!(Refusal(0x9_1234).to_string(), "return code 91234h");
    }
}
