//! Reads the block formats of a namespace (NVM Command Set Specification 1.0, 4.1.5.1, figure 97).

use super::{DriveError, Result};
use crate::nvme::{
    ledger::Found,
    wire::{BlockFormat, IdentifyNamespace},
};

/// Block size of new namespaces, in bytes, as the exponent of a power of two.
pub(super) const BLOCK_POWER: u8 = 12;

pub(super) fn describe(nsid: u32, described: &IdentifyNamespace) -> Result<Found> {
    let power = formats(described)
        .find_map(|(flbas, format)| (flbas == described.format & 0x6f).then_some(format.power));
    let size =
        power.and_then(|power| 1_u64.checked_shl(power.into())?.checked_mul(described.size.get()));
    let size =
        size.ok_or_else(|| DriveError::Unfit(format!("namespace {nsid} has an impossible size")))?;
    Ok(Found { nsid, nguid: described.nguid, size })
}

/// Returns the formats, each with the FLBAS value that selects it. Bits 3:0 of a format's index are bits 3:0 of FLBAS;
/// bits 5:4 of the index are bits 6:5 of FLBAS.
fn formats(described: &IdentifyNamespace) -> impl Iterator<Item = (u8, BlockFormat)> {
    let count = usize::from(described.formats) + 1;
    let listed = described.format_list.iter().take(count);
    (0_u8..).map(|index| index & 0xf | index >> 4 << 5).zip(listed.copied())
}

pub(super) fn best_format(described: &IdentifyNamespace) -> Option<u8> {
    formats(described)
        .filter(|(_, format)| format.metadata.get() == 0 && format.power == BLOCK_POWER)
        .min_by_key(|(_, format)| format.performance & 0b11)
        .map(|(flbas, _)| flbas)
}
