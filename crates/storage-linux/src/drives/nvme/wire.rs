//! NVMe structures, byte for byte.
//!
//! *Base* is the NVM Express Base Specification 2.0, *NVM* the NVM Command Set Specification 1.0. All fields are
//! little-endian and unaligned, so that the structures can be read directly from the drive's buffer.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::little_endian::{U16, U32, U64, U128},
};

/// A structure that a drive returns.
pub(super) trait Answer: FromBytes + IntoBytes + KnownLayout + Immutable {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable> Answer for T {}

/// Identify Controller, CNS 01h (Base 5.17.2.1, figure 275).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct IdentifyController {
    vendor: [U16; 2],
    pub(super) serial: [u8; 20],
    pub(super) model: [u8; 40],
    pub(super) firmware: [u8; 8],
    reserved_72: [u8; 6],
    /// CNTLID: id of the controller.
    pub(super) controller: U16,
    reserved_80: [u8; 176],
    /// OACS: the optional admin commands that the controller supports.
    pub(super) admin_commands: U16,
    reserved_258: [u8; 8],
    /// WCTEMP: temperature above which the drive warns, in kelvin; 0 when the drive does not report it.
    pub(super) warm: U16,
    /// CCTEMP: critical temperature, in kelvin; 0 when the drive does not report it.
    pub(super) too_warm: U16,
    reserved_270: [u8; 10],
    /// TNVMCAP: total capacity of the drive, in bytes.
    pub(super) total: U128,
    /// UNVMCAP: unallocated capacity of the drive, in bytes.
    pub(super) unallocated: U128,
    reserved_312: [u8; 204],
    /// NN: highest valid NSID.
    pub(super) max_namespaces: U32,
    reserved_520: [u8; 4],
    /// FNA: attributes of the Format command.
    pub(super) format: u8,
    reserved_525: [u8; 15],
    /// MNAN: maximum number of namespaces; 0 when the drive does not report it.
    pub(super) most_allowed: U32,
    reserved_544: [u8; 224],
    pub(super) nqn: [u8; 256],
    reserved_1024: [u8; 3072],
}

impl IdentifyController {
    /// Returns the maximum number of namespaces of the drive: MNAN, or NN where MNAN is 0; `None` when both are 0.
    pub(super) fn limit(&self) -> Option<u32> {
        [self.most_allowed.get(), self.max_namespaces.get()].into_iter().find(|limit| *limit > 0)
    }

    /// Returns whether a Format of one namespace, with or without erasure, applies to every namespace of the drive.
    pub(super) fn formats_all(&self) -> bool {
        self.format & FORMATS_ALL != 0
    }
}

/// OACS bit 3: Namespace Management and Attachment.
pub(super) const NAMESPACE_MANAGEMENT: u16 = 1 << 3;

/// FNA bits 0 and 1: a Format of one namespace, or an erasing Format of one namespace, applies to all namespaces (Base
/// 5.17.2.1, figure 275).
const FORMATS_ALL: u8 = 0b11;

/// FNA bit 2: a Format can erase data by discarding the drive's encryption key.
pub(super) const CRYPTOGRAPHIC_ERASE: u8 = 1 << 2;

/// Identify Namespace, CNS 00h and 11h (NVM 4.1.5.1, figure 97).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct IdentifyNamespace {
    /// NSZE: size in blocks.
    pub(super) size: U64,
    /// NCAP: blocks that may be allocated.
    pub(super) capacity: U64,
    /// NUSE: blocks that are allocated.
    pub(super) used: U64,
    features: u8,
    /// NLBAF: the number of block formats, minus one.
    pub(super) formats: u8,
    /// FLBAS: index of the block format in use.
    pub(super) format: u8,
    reserved_27: [u8; 3],
    /// NMIC: whether the namespace may be attached to several controllers.
    pub(super) sharing: u8,
    reserved_31: [u8; 2],
    /// DLFEAT: the value that a read of deallocated blocks returns.
    pub(super) deallocation: u8,
    reserved_34: [u8; 70],
    pub(super) nguid: [u8; 16],
    eui64: [u8; 8],
    pub(super) format_list: [BlockFormat; 64],
    vendor: [u8; 3712],
}

/// DLFEAT bits 2:0, and their value on a drive where deallocated blocks read as zero.
pub(super) const DEALLOCATED_READ: u8 = 0b111;
pub(super) const DEALLOCATED_IS_ZERO: u8 = 0b001;

/// NMIC bit 0: the namespace may be attached to more than one controller.
pub(super) const SHARED: u8 = 1;

/// LBA Format (NVM figure 98).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct BlockFormat {
    /// MS: bytes of metadata per block.
    pub(super) metadata: U16,
    /// LBADS: size of a block, as the exponent of a power of two.
    pub(super) power: u8,
    /// RP in bits 1:0: relative performance; 0 is the best.
    pub(super) performance: u8,
}

/// Namespace List (Base 4.4.2): NSIDs in ascending order; zero ends the list.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct NamespaceList(pub(super) [U32; 1024]);

/// Controller List (Base 4.4.1).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ControllerList {
    pub(super) count: U16,
    pub(super) controllers: [U16; 2047],
}

/// Primary Controller Capabilities, CNS 14h (Base 5.17.2.14).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PrimaryCapabilities {
    pub(super) controller: U16,
    reserved_2: [u8; 38],
    /// VQRFAP: flexible queues that are assigned to the primary controller.
    pub(super) queues_at_primary: U16,
    reserved_42: [u8; 30],
    /// VIRFAP: flexible interrupts that are assigned to the primary controller.
    pub(super) interrupts_at_primary: U16,
    reserved_74: [u8; 4022],
}

/// Secondary Controller List, CNS 15h (Base 5.17.2.15).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SecondaryList {
    pub(super) count: u8,
    reserved_1: [u8; 31],
    pub(super) entries: [SecondaryController; 127],
}

/// One entry of the Secondary Controller List (Base figure 283).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SecondaryController {
    /// SCID: id of the secondary controller.
    pub(super) controller: U16,
    /// PCID: id of its primary controller.
    pub(super) primary: U16,
    /// SCS: bit 0 is 1 when the controller is online.
    pub(super) state: u8,
    reserved_5: [u8; 3],
    /// VFN: number of the virtual function, from 1.
    pub(super) function: U16,
    /// NVQ: number of assigned queues.
    pub(super) queues: U16,
    /// NVI: number of assigned interrupts.
    pub(super) interrupts: U16,
    reserved_14: [u8; 18],
}

/// Commands Supported and Effects, log 05h (Base 5.16.1.6).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CommandEffects {
    /// Effects of the admin commands, by opcode.
    pub(super) admin: [U32; 256],
    io: [U32; 256],
    reserved_2048: [u8; 2048],
}

/// CSUPP: this bit is 1 for a supported command.
pub(super) const SUPPORTED: u32 = 1;

/// SMART / Health Information, log 02h (Base 5.16.1.3).
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SmartLog {
    /// Critical Warning: one bit for each warning.
    pub(super) warnings: u8,
    /// Composite Temperature in kelvin; 0 when the drive does not report it.
    pub(super) temperature: U16,
    /// Available Spare, in percent.
    pub(super) spare: u8,
    pub(super) spare_threshold: u8,
    /// Percentage Used: more than 100 on a drive that lives longer than estimated.
    pub(super) used: u8,
    reserved_6: [u8; 138],
    pub(super) unsafe_shutdowns: U128,
    /// Media and Data Integrity Errors.
    pub(super) media_errors: U128,
    reserved_176: [u8; 336],
}

/// `struct nvme_passthru_cmd`, include/uapi/linux/nvme_ioctl.h: in the machine's own byte order.
#[derive(Debug, Clone, Copy, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct PassthroughCommand {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) reserved_2: u16,
    pub(super) nsid: u32,
    pub(super) cdw2: u32,
    pub(super) cdw3: u32,
    pub(super) metadata: u64,
    pub(super) address: u64,
    pub(super) metadata_length: u32,
    pub(super) data_length: u32,
    pub(super) cdw10: u32,
    pub(super) cdw11: u32,
    pub(super) cdw12: u32,
    pub(super) cdw13: u32,
    pub(super) cdw14: u32,
    pub(super) cdw15: u32,
    pub(super) timeout_ms: u32,
    pub(super) result: u32,
}

/// Returns the text in a field of fixed length, without the padding.
pub(super) fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_matches(['\0', ' ']).to_owned()
}

#[cfg(test)]
mod tests;
