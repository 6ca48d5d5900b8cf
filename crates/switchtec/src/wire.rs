//! The messages of `/dev/switchtecN`, byte for byte: MRPC, the PAX firmware's mailbox.
//!
//! Microchip's command reference is not public. The layouts are taken from programs that use the switches; each comment
//! names its source. *S* is Microsemi/switchtec-user (`inc/switchtec/{mrpc,fabric,switchtec,errors}.h`, `lib/fabric.c`,
//! `lib/switchtec.c`). *E* is NearNodeFlash/nnf-ec (`internal/switchtec/pkg/{switchtec,nvme}`), the earlier software of
//! rabbits. *K* is the kernel (`drivers/pci/switch/switchtec.c`). All numbers are little-endian.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::little_endian::{U16, U32, U64},
};

/// Maximum bytes of a request after the command word, and of a reply after the
/// return code (*K*: `SWITCHTEC_MRPC_PAYLOAD_SIZE`).
pub(super) const PAYLOAD: usize = 1024;

/// The request of a command to a switch.
pub(super) trait Request: IntoBytes + Immutable {}
impl<T: IntoBytes + Immutable> Request for T {}

/// The reply of a switch to a command.
pub(super) trait Reply: FromBytes + IntoBytes + KnownLayout {}
impl<T: FromBytes + IntoBytes + KnownLayout> Reply for T {}

/// Get PAX ID, 81h (*S* reads one byte, *E* four).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PaxIdReply {
    pub(super) pax: u8,
    reserved_1: [u8; 3],
}

/// Link status, 1Ch. The request has a bit mask of ports; 0 means all ports (*S* `switchtec_status`, *E* `LinkStat`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LinkStatusRequest {
    pub(super) ports: U64,
}

/// Number of entries in the reply (*S* `SWITCHTEC_MAX_PORTS`, Gen4 and later).
pub(super) const LINK_ENTRIES: usize = 60;
/// Highest stack number of a port; a higher number marks an unused entry (*S* `SWITCHTEC_MAX_STACKS`).
pub(super) const LAST_STACK: u8 = 8;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LinkStatusReply(pub(super) [LinkEntry; LINK_ENTRIES]);

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LinkEntry {
    pub(super) port: u8,
    pub(super) partition: u8,
    pub(super) logical: u8,
    /// Number of the stack in bits 7:4, number of the port within the stack in bits 3:0.
    pub(super) stack: u8,
    pub(super) configured_width: u8,
    pub(super) negotiated_width: u8,
    pub(super) upstream: u8,
    /// Whether the link is up in bit 7, PCIe generation in bits 6:0.
    pub(super) rate: u8,
    /// Major state in bits 7:0 (*E* `PortLinkState`), minor state in the higher bits.
    pub(super) ltssm: U16,
    pub(super) lanes: [u8; 2],
}

/// Bind, 84h (*S* `switchtec_gfms_bind`, later versions; *E* `Bind`). Earlier versions of *S* sent only
/// the first 8 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct BindRequest {
    pub(super) subcommand: u8,
    pub(super) pax: u8,
    pub(super) port: u8,
    pub(super) logical: u8,
    pub(super) functions: [BindFunction; 8],
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct BindFunction {
    pub(super) pdfid: U16,
    pub(super) next_valid: u8,
    reserved_3: u8,
}

pub(super) const BIND: u8 = 1;
#[cfg(test)]
pub(super) const UNBIND: u8 = 2;

/// Unbind, 84h (*S* `switchtec_gfms_unbind`). The agent never unbinds a function; an admin may.
#[cfg(test)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct UnbindRequest {
    pub(super) subcommand: u8,
    pub(super) pax: u8,
    pub(super) port: u8,
    pub(super) logical: u8,
    pub(super) pdfid: U16,
    pub(super) option: u8,
    reserved_7: u8,
}

/// EP (endpoint) tunnel configuration, 8Fh (*E* `endPointTunnelConfig`; numbers in *S* `mrpc.h`), without metadata.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct TunnelRequest {
    pub(super) subcommand: U16,
    pub(super) pdfid: U16,
    /// Expected bytes of the answer, without the answer's length field.
    pub(super) expected: U16,
    pub(super) metadata: U16,
}

pub(super) const TUNNEL_ENABLE: u16 = 0;
#[cfg(test)]
pub(super) const TUNNEL_DISABLE: u16 = 1;
pub(super) const TUNNEL_STATUS: u16 = 2;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct TunnelReply {
    pub(super) length: U32,
    /// 0 means disabled, 1 enabled (*S* `switchtec_ep_tunnel_status`).
    pub(super) state: U32,
}

/// EP resource access, 8Eh: reads or writes a register of a function's configuration space (*E* `CsrRead`, `CsrWrite`).
/// The request to read consists only of this header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RegisterRequest {
    pub(super) subcommand: u8,
    reserved_1: u8,
    pub(super) pdfid: U16,
    pub(super) address: U16,
    /// Bytes of the register, at most 4.
    pub(super) length: u8,
    reserved_7: u8,
}

pub(super) const REGISTER_READ: u8 = 0;
pub(super) const REGISTER_WRITE: u8 = 1;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RegisterWrite {
    pub(super) head: RegisterRequest,
    pub(super) data: [u8; 4],
}

/// NVMe admin pass-through, 91h, first part: sends a command in as many pieces as needed (*E* `adminPassthruStart`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PassStart {
    pub(super) subcommand: u8,
    reserved_1: [u8; 3],
    pub(super) pdfid: U16,
    /// Expected bytes of the completion and the data; set only in the last piece.
    pub(super) expected: U16,
    /// 1 when another piece of the command follows.
    pub(super) more: u8,
    reserved_9: [u8; 3],
    pub(super) offset: U16,
    pub(super) length: U16,
    pub(super) data: [u8; PASS_PIECE],
}

pub(super) const PASS_START: u8 = 1;
pub(super) const PASS_DATA: u8 = 2;
pub(super) const PASS_END: u8 = 3;
pub(super) const PASS_PIECE: usize = PAYLOAD - 16;
/// Maximum bytes of a command together with its data (*S* `SWITCHTEC_NVME_ADMIN_PASSTHRU_MAX_DATA_LEN`).
pub(super) const PASS_MOST: usize = 4096 + size_of::<Submission>();

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PassStarted {
    pub(super) length: U16,
    reserved_2: U16,
}

/// NVMe admin pass-through, second and third part: the second reads a piece of the answer, and the third ends
/// the command (*E* `adminPassthru{Data,End}`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PassNext {
    pub(super) subcommand: u8,
    reserved_1: [u8; 3],
    pub(super) pdfid: U16,
    pub(super) offset: U16,
}

pub(super) const PASS_ANSWER: usize = PAYLOAD - 4;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PassPiece {
    pub(super) offset: U16,
    pub(super) length: U16,
    pub(super) data: [u8; PASS_ANSWER],
}

/// Submission Queue Entry (NVM Express Base Specification 2.0, figure 88). The switch sets the command identifier
/// and the data pointers.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Submission {
    pub(super) opcode: u8,
    reserved_1: [u8; 3],
    pub(super) nsid: U32,
    reserved_8: [u8; 32],
    pub(super) cdw10: U32,
    pub(super) cdw11: U32,
    cdw12: [U32; 4],
}

/// Completion Queue Entry (figure 91 of the same specification).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Completion {
    pub(super) result: U32,
    reserved_4: [u8; 10],
    /// Phase in bit 0, status in bits 15:1.
    pub(super) status: U16,
}

#[cfg(test)]
mod tests;
