//! An admin command, its codes and deadlines, and its errors. *Base* is the NVM Express Base Specification 2.0.

use std::{io, time::Duration};

use thiserror::Error;

use crate::nvme::status::Status;

/// The fields of an admin command that Warren uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    pub opcode: u8,
    pub nsid: u32,
    pub cdw10: u32,
    pub cdw11: u32,
    pub timeout: Duration,
}

/// Why a command failed.
#[derive(Debug, Error)]
pub enum AdminError {
    #[error("{0}")]
    Status(Status),
    #[error("the command was not carried out")]
    System(#[source] io::Error),
    /// The command was not sent, because the caller has stopped waiting.
    #[error("the command was not sent: its deadline had passed before its turn came")]
    GivenUp,
    #[error("the drive's answer to {what} is not as specified: {why}")]
    Malformed { what: &'static str, why: String },
}

impl AdminError {
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code()),
            Self::System(_) | Self::GivenUp | Self::Malformed { .. } => None,
        }
    }
}

pub type Answered<T> = Result<T, AdminError>;

/// Opcodes (Base 5, figure 138; Format NVM: Base 5.14).
pub mod opcode {
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
    pub const VIRTUALIZATION_MANAGEMENT: u8 = 0x1c;
    pub const FORMAT: u8 = 0x80;
}

/// CNS values of Identify (Base 5.17.1, figure 273).
pub mod cns {
    pub const NAMESPACE: u8 = 0x00;
    pub const CONTROLLER: u8 = 0x01;
    pub const ALLOCATED_LIST: u8 = 0x10;
    pub const ALLOCATED: u8 = 0x11;
    pub const ATTACHED_CONTROLLERS: u8 = 0x12;
    pub const PRIMARY_CAPABILITIES: u8 = 0x14;
    pub const SECONDARY_LIST: u8 = 0x15;
}

/// Log pages (Base 5.16.1, figure 202).
pub mod log {
    pub const SMART: u32 = 0x02;
    pub const COMMAND_EFFECTS: u32 = 0x05;
}

/// The NSID that addresses all namespaces of a drive.
pub const EVERY_NAMESPACE: u32 = u32::MAX;

/// Deadline of reads, which the drive answers from its memory.
pub(super) const QUICK: Duration = Duration::from_secs(10);
/// Deadline of creation and deletion, which take real drives many seconds.
pub(super) const SLOW: Duration = Duration::from_secs(120);
/// Deadline of an erasure, which takes many minutes on drives without cryptographic erase. The deadline is long because
/// an interrupted erasure must start again from the beginning.
pub const ERASE: Duration = Duration::from_secs(3600);
/// Deadline of a change: longer than the deadline of the drive's slowest command.
pub const CHANGE: Duration = SLOW.saturating_add(Duration::from_secs(30));
