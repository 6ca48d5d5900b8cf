//! The messages of a dump, byte for byte. In a dump, the fabric manager (GFMS) of a switch sends a part of its
//! database: one port of the switch, and the device that is plugged into this port. The layouts are taken from
//! Microsemi/switchtec-user, which is called *S* here and in `wire.rs`.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::little_endian::{U16, U32},
};

use super::wire::PAYLOAD;

/// Dump of the database, 83h, for one endpoint port, in three parts (*S* `gfms_ep_port_{start,get,finish}`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DumpRequest {
    pub(super) subcommand: u8,
    pub(super) port: u8,
    pub(super) reserved_2: [u8; 2],
    pub(super) part: U32,
}

/// Subcommand that dumps an endpoint port.
pub(super) const DUMP_ENDPOINT_PORT: u8 = 5;
pub(super) const DUMP_START: u32 = 1;
pub(super) const DUMP_GET: u32 = 2;
pub(super) const DUMP_FINISH: u32 = 3;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DumpStarted {
    /// Length of the whole dump in dwords.
    pub(super) dwords: U32,
    pub(super) switches: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DumpGet {
    pub(super) head: DumpRequest,
    /// Offset in the dump, in dwords.
    pub(super) offset: U32,
}

pub(super) const DUMP_PIECE: usize = PAYLOAD - 12;
/// Dwords of the header of each piece; the size of a piece includes its header.
pub(super) const DUMP_HEAD: usize = 3;
/// Maximum dwords of a piece (*S*).
pub(super) const DUMP_MOST: usize = 0xf0;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DumpPiece {
    pub(super) offset: U32,
    pub(super) dwords: U32,
    reserved_8: U32,
    pub(super) data: [u8; DUMP_PIECE],
}

/// Header of a dump (*S* `switchtec_gfms_db_dump_section_hdr`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SectionHead {
    pub(super) class: u8,
    pub(super) pax: u8,
    pub(super) fabric_id: U16,
    /// Length of the section in dwords, including this header.
    pub(super) dwords: U32,
    reserved_8: U32,
}

/// Header of an endpoint port (*S* `switchtec_gfms_db_ep_port_hdr`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PortHead {
    pub(super) kind: u8,
    pub(super) port: u8,
    pub(super) endpoints: U16,
    /// Length in dwords, a number of 24 bits, including this header.
    pub(super) dwords: [u8; 3],
    reserved_7: u8,
}

pub(super) const PORT_HAS_ENDPOINT: u8 = 0;
pub(super) const PORT_HAS_SWITCH: u8 = 1;
pub(super) const PORT_IS_EMPTY: u8 = 2;

/// Header of an endpoint's functions (*S* `switchtec_gfms_db_ep_port_attachement_hdr`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct AttachmentHead {
    pub(super) functions: U16,
    enumeration: U16,
    /// Length in dwords, a number of 24 bits, including this header.
    pub(super) dwords: [u8; 3],
    reserved_7: u8,
}

/// A function of the device (*S* `switchtec_gfms_db_ep_port_attached_device_function`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct FunctionEntry {
    pub(super) number: U16,
    pub(super) pdfid: U16,
    /// 3 for a physical function with SR-IOV, 1 for a physical function without SR-IOV, 0 for a
    /// virtual function (*S* `ep_port_func_type`).
    pub(super) kind: u8,
    pub(super) virtual_number: u8,
    reserved_6: U16,
    pub(super) bound: u8,
    pub(super) bound_pax: u8,
    pub(super) bound_port: u8,
    pub(super) bound_logical: u8,
    pub(super) vendor: U16,
    pub(super) device: U16,
    subsystem: [U16; 2],
    /// PCI class code, 24 bits: NVMe is 010802h.
    pub(super) class: [u8; 3],
    bars: u8,
    bar: [[u8; 2]; 6],
}

pub(super) const FUNCTION_IS_VIRTUAL: u8 = 0;
pub(super) const CLASS_NVME: [u8; 3] = [0x02, 0x08, 0x01];

/// Converts a little-endian number of 24 bits.
pub(super) fn of_24(bytes: [u8; 3]) -> usize {
    let [low, middle, high] = bytes.map(usize::from);
    low | middle << 8 | high << 16
}
