//! NVMe structures, byte for byte.
//!
//! *Base* is the NVM Express Base Specification 2.0, *NVM* the NVM Command Set Specification 1.0. All fields are
//! little-endian and unaligned, so that the structures can be read directly from the drive's buffer.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::little_endian::{U16, U32, U64, U128},
};

/// A structure that a drive returns.
pub trait Answer: FromBytes + IntoBytes + KnownLayout + Immutable {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable> Answer for T {}

/// Identify Controller, CNS 01h (Base 5.17.2.1, figure 275).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyController {
    vendor: [U16; 2],
    pub serial: [u8; 20],
    pub model: [u8; 40],
    pub firmware: [u8; 8],
    reserved_72: [u8; 6],
    /// CNTLID: id of the controller.
    pub controller: U16,
    reserved_80: [u8; 176],
    /// OACS: the optional admin commands that the controller supports.
    pub admin_commands: U16,
    reserved_258: [u8; 8],
    /// WCTEMP: temperature above which the drive warns, in kelvin; 0 when the drive does not report it.
    pub warm: U16,
    /// CCTEMP: critical temperature, in kelvin; 0 when the drive does not report it.
    pub too_warm: U16,
    reserved_270: [u8; 10],
    /// TNVMCAP: total capacity of the drive, in bytes.
    pub total: U128,
    /// UNVMCAP: unallocated capacity of the drive, in bytes.
    pub unallocated: U128,
    reserved_312: [u8; 204],
    /// NN: highest valid NSID.
    pub max_namespaces: U32,
    reserved_520: [u8; 4],
    /// FNA: attributes of the Format command.
    pub format: u8,
    reserved_525: [u8; 15],
    /// MNAN: maximum number of namespaces; 0 when the drive does not report it.
    pub most_allowed: U32,
    reserved_544: [u8; 224],
    pub nqn: [u8; 256],
    reserved_1024: [u8; 3072],
}

impl IdentifyController {
    /// Returns the maximum number of namespaces of the drive: MNAN, or NN where MNAN is 0; `None` when both are 0.
    pub fn limit(&self) -> Option<u32> {
        [self.most_allowed.get(), self.max_namespaces.get()].into_iter().find(|limit| *limit > 0)
    }

    /// Returns whether a Format of one namespace, with or without erasure, applies to every namespace of the drive.
    pub fn formats_all(&self) -> bool {
        self.format & FORMATS_ALL != 0
    }
}

/// OACS bit 3: Namespace Management and Attachment.
pub const NAMESPACE_MANAGEMENT: u16 = 1 << 3;

/// FNA bits 0 and 1: a Format of one namespace, or an erasing Format of one namespace, applies to all namespaces (Base
/// 5.17.2.1, figure 275).
const FORMATS_ALL: u8 = 0b11;

/// FNA bit 2: a Format can erase data by discarding the drive's encryption key.
pub const CRYPTOGRAPHIC_ERASE: u8 = 1 << 2;

/// Identify Namespace, CNS 00h and 11h (NVM 4.1.5.1, figure 97).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// NSZE: size in blocks.
    pub size: U64,
    /// NCAP: blocks that may be allocated.
    pub capacity: U64,
    /// NUSE: blocks that are allocated.
    pub used: U64,
    features: u8,
    /// NLBAF: the number of block formats, minus one.
    pub formats: u8,
    /// FLBAS: index of the block format in use.
    pub format: u8,
    reserved_27: [u8; 3],
    /// NMIC: whether the namespace may be attached to several controllers.
    pub sharing: u8,
    reserved_31: [u8; 2],
    /// DLFEAT: the value that a read of deallocated blocks returns.
    pub deallocation: u8,
    reserved_34: [u8; 70],
    pub nguid: [u8; 16],
    eui64: [u8; 8],
    pub format_list: [BlockFormat; 64],
    vendor: [u8; 3712],
}

/// DLFEAT bits 2:0, and their value on a drive where deallocated blocks read as zero.
pub const DEALLOCATED_READ: u8 = 0b111;
pub const DEALLOCATED_IS_ZERO: u8 = 0b001;

/// NMIC bit 0: the namespace may be attached to more than one controller.
pub const SHARED: u8 = 1;

/// LBA Format (NVM figure 98).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockFormat {
    /// MS: bytes of metadata per block.
    pub metadata: U16,
    /// LBADS: size of a block, as the exponent of a power of two.
    pub power: u8,
    /// RP in bits 1:0: relative performance; 0 is the best.
    pub performance: u8,
}

/// Namespace List (Base 4.4.2): NSIDs in ascending order; zero ends the list.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NamespaceList(pub [U32; 1024]);

/// Controller List (Base 4.4.1).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ControllerList {
    pub count: U16,
    pub controllers: [U16; 2047],
}

/// Primary Controller Capabilities, CNS 14h (Base 5.17.2.14).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PrimaryCapabilities {
    pub controller: U16,
    reserved_2: [u8; 38],
    /// VQRFAP: flexible queues that are assigned to the primary controller.
    pub queues_at_primary: U16,
    reserved_42: [u8; 30],
    /// VIRFAP: flexible interrupts that are assigned to the primary controller.
    pub interrupts_at_primary: U16,
    reserved_74: [u8; 4022],
}

/// Secondary Controller List, CNS 15h (Base 5.17.2.15).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SecondaryList {
    pub count: u8,
    reserved_1: [u8; 31],
    pub entries: [SecondaryController; 127],
}

/// One entry of the Secondary Controller List (Base figure 283).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SecondaryController {
    /// SCID: id of the secondary controller.
    pub controller: U16,
    /// PCID: id of its primary controller.
    pub primary: U16,
    /// SCS: bit 0 is 1 when the controller is online.
    pub state: u8,
    reserved_5: [u8; 3],
    /// VFN: number of the virtual function, from 1.
    pub function: U16,
    /// NVQ: number of assigned queues.
    pub queues: U16,
    /// NVI: number of assigned interrupts.
    pub interrupts: U16,
    reserved_14: [u8; 18],
}

/// Commands Supported and Effects, log 05h (Base 5.16.1.6).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CommandEffects {
    /// Effects of the admin commands, by opcode.
    pub admin: [U32; 256],
    io: [U32; 256],
    reserved_2048: [u8; 2048],
}

/// CSUPP: this bit is 1 for a supported command.
pub const SUPPORTED: u32 = 1;

/// SMART / Health Information, log 02h (Base 5.16.1.3).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SmartLog {
    /// Critical Warning: one bit for each warning.
    pub warnings: u8,
    /// Composite Temperature in kelvin; 0 when the drive does not report it.
    pub temperature: U16,
    /// Available Spare, in percent.
    pub spare: u8,
    pub spare_threshold: u8,
    /// Percentage Used: more than 100 on a drive that lives longer than estimated.
    pub used: u8,
    reserved_6: [u8; 138],
    pub unsafe_shutdowns: U128,
    /// Media and Data Integrity Errors.
    pub media_errors: U128,
    reserved_176: [u8; 336],
}

/// `struct nvme_passthru_cmd`, include/uapi/linux/nvme_ioctl.h: in the machine's own byte order.
#[derive(Debug, Clone, Copy, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PassthroughCommand {
    pub opcode: u8,
    pub flags: u8,
    pub reserved_2: u16,
    pub nsid: u32,
    pub cdw2: u32,
    pub cdw3: u32,
    pub metadata: u64,
    pub address: u64,
    pub metadata_length: u32,
    pub data_length: u32,
    pub cdw10: u32,
    pub cdw11: u32,
    pub cdw12: u32,
    pub cdw13: u32,
    pub cdw14: u32,
    pub cdw15: u32,
    pub timeout_ms: u32,
    pub result: u32,
}

/// Returns the text in a field of fixed length, without the padding.
pub fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_matches(['\0', ' ']).to_owned()
}

#[cfg(test)]
mod tests;
