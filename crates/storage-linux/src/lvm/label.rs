//! Reads the label of a physical volume, and wipes it when an interrupted LVM command left it marked.
//!
//! A mark in the label says that a group uses the device. `vgcreate` and `vgextend` set the mark before they commit the
//! group's metadata, and `vgremove` removes the mark after it has removed the metadata. An interruption in between
//! leaves a marked device without a group. LVM then accepts the device only with `--force --force`, which is too
//! dangerous: the same options would take a member away from a group that exists. Sources: lvm2's lib/label/label.h,
//! lib/format_text/layout.h and lib/format_text/format-text.c.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    time::Duration,
};

use nix::errno::Errno;
use storage::host::StepError;
use zerocopy::{
    FromBytes, Immutable, KnownLayout,
    little_endian::{U32, U64},
};

use block_devices::exclusive;

const SECTOR: usize = 512;

/// `LABEL_SCAN_SECTORS`: the label is in one of the first four sectors.
const SCANNED: usize = 4;

/// `LABEL_ID` and the type of a physical volume with metadata in text.
const LABEL_ID: &[u8; 8] = b"LABELONE";
const TYPE: &[u8; 8] = b"LVM2 001";

/// `FMTT_MAGIC`: magic number of a metadata area.
const AREA_MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";

/// `PV_EXT_USED`: flag of a label that a group uses.
const USED: u32 = 1;

#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct LabelHeader {
    id: [u8; 8],
    sector: U64,
    crc: U32,
    /// Bytes from the beginning of the label to its contents.
    offset: U32,
    kind: [u8; 8],
}

#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct PhysicalHeader {
    uuid: [u8; 32],
    device_size: U64,
}

/// An entry of a list that ends with an entry of zeros.
#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Location {
    offset: U64,
    size: U64,
}

#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Extension {
    version: U32,
    flags: U32,
}

/// The header of a metadata area; `committed` locates the committed metadata, if any.
#[derive(FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct AreaHeader {
    checksum: U32,
    magic: [u8; 16],
    version: U32,
    start: U64,
    size: U64,
    committed: Location,
}

/// The contents of a label.
#[derive(Debug, PartialEq, Eq)]
struct Label {
    /// Number of the sector that holds the label.
    sector: usize,
    /// Whether the label is marked as used by a group.
    is_used: bool,
    /// Offsets of the metadata areas, in bytes.
    areas: Vec<u64>,
}

/// Wipes the label of a device, but only if the label is marked as used by a group and the device
/// has no committed metadata.
///
/// # Errors
/// [`StepError::Changed`] when the label is not marked or when metadata is committed; `EBUSY` when the
/// device is in use.
pub(crate) fn unmark(device: &Path, deadline: Duration) -> Result<(), StepError> {
    let wiped = exclusive::with("wipe the label of", device, deadline, |mut file| {
        let mut begin = [0; SCANNED * SECTOR];
        file.read_exact(&mut begin)?;
        let label = parse(&begin).filter(|label| label.is_used).ok_or(Errno::ESTALE)?;
        if !has_no_metadata(&label, &mut file)? {
            return Err(Errno::ESTALE.into());
        }
        file.seek(SeekFrom::Start((label.sector * SECTOR) as u64))?;
        file.write_all(&[0; SECTOR])?;
        file.sync_all()
    });
    match wiped {
        Err(StepError::System { source, .. }) if source.raw_os_error() == Some(libc::ESTALE) => {
            Err(StepError::Changed(format!(
                "LVM shows {} as used by a group that it cannot find, but the device has committed metadata, or its label has \
                 changed: repair it with pvck --repair, or delete the object",
                device.display()
            )))
        }
        other => other,
    }
}

fn parse(begin: &[u8]) -> Option<Label> {
    let sectors = begin.chunks_exact(SECTOR).enumerate();
    let (sector, bytes) = sectors.into_iter().find(|(_, bytes)| bytes.starts_with(LABEL_ID))?;
    let (header, _) = LabelHeader::read_from_prefix(bytes).ok()?;
    if header.kind != *TYPE || header.sector.get() != sector as u64 {
        return None;
    }
    let rest = bytes.get(header.offset.get() as usize..)?;
    let (_, rest) = PhysicalHeader::read_from_prefix(rest).ok()?;
    let (_, rest) = locations(rest)?;
    let (areas, rest) = locations(rest)?;
    let (extension, _) = Extension::read_from_prefix(rest).ok()?;
    let is_used = extension.version.get() > 0 && extension.flags.get() & USED != 0;
    Some(Label { sector, is_used, areas })
}

fn locations(mut bytes: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let mut found = Vec::new();
    loop {
        let (location, rest) = Location::read_from_prefix(bytes).ok()?;
        bytes = rest;
        if location.offset.get() == 0 {
            return Some((found, bytes));
        }
        found.push(location.offset.get());
    }
}

/// Returns whether no metadata area has committed metadata. Returns false for a device without a metadata area: only an
/// empty metadata area proves that no metadata was committed.
fn has_no_metadata(label: &Label, file: &mut File) -> io::Result<bool> {
    for area in &label.areas {
        let mut bytes = [0; SECTOR];
        file.seek(SeekFrom::Start(*area))?;
        file.read_exact(&mut bytes)?;
        if !is_without_metadata(&bytes, *area) {
            return Ok(false);
        }
    }
    Ok(!label.areas.is_empty())
}

fn is_without_metadata(bytes: &[u8], area: u64) -> bool {
    AreaHeader::read_from_prefix(bytes).is_ok_and(|(header, _)| {
        header.magic == *AREA_MAGIC
            && header.start.get() == area
            && header.committed.offset.get() == 0
            && header.committed.size.get() == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes on the device after LVM 2.03.16's `vgcreate` was killed before it committed the group's metadata. The mark
    /// is at offset 0x28c.
    const CUT: &[(usize, &str)] = &[
        (0x200, "4c4142454c4f4e450100000000000000"),
        (0x210, "1796ccc9200000004c564d3220303031"),
        (0x220, "3935423064794d346a6c37745a65776e"),
        (0x230, "62494b5867554542395468616e30454f"),
        (0x240, "00000004000000000000100000000000"),
        (0x260, "00000000000000000010000000000000"),
        (0x270, "00f00f00000000000000000000000000"),
        (0x280, "00000000000000000200000001000000"),
        (0x1000, "6fbec316204c564d3220785b35412572"),
        (0x1010, "304e2a3e010000000010000000000000"),
        (0x1020, "00f00f00000000000000000000000000"),
        (0x1040, "0002000000000000b203000000000000"),
    ];

    fn written() -> Vec<u8> {
        let mut bytes = vec![0; 0x1200];
        for (at, text) in CUT {
            for (place, digits) in text.as_bytes().chunks(2).enumerate() {
                let digits = std::str::from_utf8(digits).unwrap();
                bytes[at + place] = u8::from_str_radix(digits, 16).unwrap();
            }
        }
        bytes
    }

    fn is_unfinished(bytes: &[u8]) -> bool {
        let label = parse(&bytes[..SCANNED * SECTOR]).filter(|label| label.is_used);
        label.is_some_and(|label| {
            label.areas.iter().all(|&area| is_without_metadata(&bytes[0x1000..], area))
        })
    }

    #[test]
    fn a_marked_label_is_parsed_with_its_metadata_areas() {
        let label = parse(&written()[..SCANNED * SECTOR]).unwrap();
        assert_eq!(label, Label { sector: 1, is_used: true, areas: vec![0x1000] });
        assert!(is_unfinished(&written()));
    }

    #[test]
    fn a_device_with_metadata_or_a_malformed_label_is_left_alone() {
        for (at, value, what) in [
            (0x1028, 2, "the metadata area has committed metadata"),
            (0x1030, 1, "the size of the committed metadata is not 0"),
            (0x1004, 0, "the magic number of the metadata area is wrong"),
            (0x1018, 9, "the metadata area was copied from another offset"),
            (0x28c, 0, "not marked"),
            (0x288, 0, "the label has a version without the mark"),
            (0x200, 0, "no label"),
            (0x208, 2, "the label was copied from another sector"),
            (0x218, b'X', "the label is of another type"),
        ] {
            let mut bytes = written();
            bytes[at] = value;
            assert!(!is_unfinished(&bytes), "{what}");
        }
        assert!(parse(&[0; 100]).is_none());
        assert!(parse(&[0xff; SCANNED * SECTOR]).is_none());
    }
}
