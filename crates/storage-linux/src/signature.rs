//! Reads, creates and wipes signatures at the beginning of block devices.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use causes::CommandError;
use nix::errno::Errno;
use process::Cmd;
use serde::Deserialize;
use storage::{
    desired::{FileSystemId, FileSystemKind},
    host::{ObserveError, StepError, TooSmall},
    observed::{self, DeviceNumber, Signature, VolumeDevice},
};
use uuid::Uuid;

use block_devices::{exclusive, mount_table};

/// A superblock's type and UUID.
struct Superblock {
    kind: FileSystemKind,
    uuid: Uuid,
    in_progress: bool,
}

/// Offsets in `struct xfs_dsb` (fs/xfs/libxfs/xfs_format.h).
mod xfs {
    pub(super) const MAGIC: &[u8] = b"XFSB";
    pub(super) const UUID_AT: usize = 32;
    pub(super) const IN_PROGRESS_AT: usize = 126;
}

/// Offsets in `struct gfs2_sb` (include/uapi/linux/gfs2_ondisk.h), which is in basic block `GFS2_SB_ADDR`. mkfs.gfs2(8)
/// writes this block last.
mod gfs2 {
    pub(super) const AT: u64 = 64 * 1024;
    /// The numbers `GFS2_MAGIC` and `GFS2_METATYPE_SB`, big-endian.
    pub(super) const MAGIC: &[u8] = &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1];
    pub(super) const UUID_AT: usize = 256;
}

const BLOCK: usize = 4096;

/// Returns whether this module reads superblocks of this type.
pub(super) fn is_read(kind: &str) -> bool {
    [FileSystemKind::Xfs, FileSystemKind::Gfs2].iter().any(|known| known.as_str() == kind)
}

/// Reads the signature of `device`. Runs wipefs(8) only when the device has no superblock of XFS or GFS2.
pub(super) fn read(device: &Path, deadline: Duration) -> Result<Signature, ObserveError> {
    let superblock = read_superblock(device)
        .map_err(|source| ObserveError::Read { path: device.display().to_string(), source })?;
    match superblock {
        Some(found) => Ok(classify(&found)),
        None => probe(device, deadline),
    }
}

fn classify(found: &Superblock) -> Signature {
    match FileSystemId::recognise(found.uuid) {
        Some(id) if found.in_progress => Signature::HalfMade(id),
        Some(id) => Signature::Ours(id),
        None => Signature::Foreign {
            kind: found.kind.as_str().to_owned(),
            uuid: Some(found.uuid.to_string()),
        },
    }
}

/// Returns whether the file system that is mounted from `device` is Warren's, foreign or unknown.
pub(super) fn of_mounted(device: DeviceNumber) -> observed::Superblock {
    let read = |path: PathBuf| read_superblock(&path).ok().flatten();
    match mount_table::device_path(device).and_then(read) {
        Some(found) => FileSystemId::recognise(found.uuid)
            .map_or(observed::Superblock::Foreign, observed::Superblock::Ours),
        None => observed::Superblock::Unknown,
    }
}

fn read_superblock(device: &Path) -> io::Result<Option<Superblock>> {
    let file = File::open(device)?;
    if let Some(found) = parse(&block_at(&file, 0)?) {
        return Ok(Some(found));
    }
    Ok(parse_gfs2(&block_at(&file, gfs2::AT)?))
}

/// Reads a block, or a part of it if the device ends within it; empty beyond the end of the device,
/// where lseek(2) returns EINVAL.
fn block_at(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let (mut block, mut filled) = (vec![0; BLOCK], 0);
    while filled < BLOCK {
        match file.read_at(&mut block[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    block.truncate(filled);
    Ok(block)
}

fn parse(block: &[u8]) -> Option<Superblock> {
    block.starts_with(xfs::MAGIC).then_some(())?;
    let uuid = Uuid::from_slice(block.get(xfs::UUID_AT..xfs::UUID_AT + 16)?).ok()?;
    let in_progress = *block.get(xfs::IN_PROGRESS_AT)? != 0;
    Some(Superblock { kind: FileSystemKind::Xfs, uuid, in_progress })
}

fn parse_gfs2(block: &[u8]) -> Option<Superblock> {
    block.starts_with(gfs2::MAGIC).then_some(())?;
    let uuid = Uuid::from_slice(block.get(gfs2::UUID_AT..gfs2::UUID_AT + 16)?).ok()?;
    Some(Superblock { kind: FileSystemKind::Gfs2, uuid, in_progress: false })
}

#[derive(Deserialize)]
struct Report {
    signatures: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
}

fn probe(device: &Path, deadline: Duration) -> Result<Signature, ObserveError> {
    let device = device.display().to_string();
    let output = Cmd::new(["wipefs", "--no-act", "--json", &device]).output(deadline)?;
    parse_wipefs(&output).map_err(|error| ObserveError::Malformed {
        what: format!("output of wipefs --json {device}"),
        why: error.to_string(),
    })
}

/// Parses the output of wipefs(8). For a device without signatures, some versions print nothing, and
/// others an empty list.
fn parse_wipefs(output: &[u8]) -> Result<Signature, serde_json::Error> {
    if output.trim_ascii().is_empty() {
        return Ok(Signature::Blank);
    }
    let report: Report = serde_json::from_slice(output)?;
    Ok(match report.signatures.into_iter().next() {
        Some(found) => Signature::Foreign { kind: found.kind, uuid: found.uuid },
        None => Signature::Blank,
    })
}

/// Zeroes the superblock that an interrupted mkfs left. Refuses a device with other contents, and a device in use.
pub(super) fn wipe_half_made(
    device: &Path,
    id: FileSystemId,
    deadline: Duration,
) -> Result<(), StepError> {
    exclusive::with("wipe", device, deadline, |mut file| {
        let mut block = [0; BLOCK];
        file.read_exact(&mut block)?;
        let half_made =
            parse(&block).is_some_and(|found| classify(&found) == Signature::HalfMade(id));
        if !half_made {
            return Err(Errno::ESTALE.into());
        }
        file.rewind()?;
        file.write_all(&[0; BLOCK])?;
        file.sync_all()
    })
}

/// Makes a file system with the given UUID: runs `mkfs -t xfs -m uuid=<id> …` or `mkfs -t gfs2 -O -U <id> …`, followed
/// by the site's arguments.
pub(super) fn make(
    device: &VolumeDevice,
    kind: FileSystemKind,
    id: FileSystemId,
    line: &str,
    deadline: Duration,
) -> Result<(), StepError> {
    // mkfs would report only that the device is busy; this check also names the holders.
    exclusive::with("mkfs", &device.path, deadline, |_| Ok(()))?;
    let own = if kind == FileSystemKind::Gfs2 { "-O -U " } else { "-m uuid=" };
    let output = Cmd::shell(&format!("mkfs -t {kind} {own}{id} {line}")).run(deadline);
    output.map_err(|failed| explain(device, kind, failed))
}

/// Turns the failure of mkfs into `TooSmall` if mkfs gives the size as its reason and the device is smaller than
/// [`FileSystemKind::least`]. The size alone proves nothing: on a small device, mkfs may also fail because it is
/// missing or cannot write, and which size it accepts depends on its version and arguments.
fn explain(device: &VolumeDevice, kind: FileSystemKind, failed: CommandError) -> StepError {
    let least = kind.least();
    let why = match &failed {
        CommandError::Failed { stderr, .. } => size_complaint(stderr).map(str::to_owned),
        _ => None,
    };
    match (why, size(device.number)) {
        (Some(why), Ok(size)) if size < least => {
            StepError::TooSmall(TooSmall { device: device.path.clone(), kind, size, least, why })
        }
        _ => failed.into(),
    }
}

/// Returns mkfs' line about the size of the device; a warning may precede the line, and a usage text may follow it.
fn size_complaint(stderr: &str) -> Option<&str> {
    const WORDS: [&str; 3] = ["too small", "must be larger than", "will not fit"];
    stderr.lines().find(|line| WORDS.iter().any(|words| line.contains(words)))
}

/// Returns the size of a device in bytes, from sysfs: a read from sysfs never waits for the device. sysfs counts in
/// sectors of 512 bytes.
fn size(device: DeviceNumber) -> io::Result<u64> {
    let sectors = fs::read_to_string(format!("/sys/dev/block/{device}/size"))?;
    let sectors: u64 = sectors.trim().parse().map_err(io::Error::other)?;
    Ok(sectors.saturating_mul(512))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(uuid: Uuid, in_progress: u8) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..4].copy_from_slice(xfs::MAGIC);
        block[xfs::UUID_AT..xfs::UUID_AT + 16].copy_from_slice(uuid.as_bytes());
        block[xfs::IN_PROGRESS_AT] = in_progress;
        block
    }

    #[test]
    fn a_superblock_is_classified_by_its_uuid() {
        let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
        let id = FileSystemId::derive(owner, "rabbit-1", "storage", 0);
        assert_eq!(classify(&parse(&block(id.uuid(), 0)).unwrap()), Signature::Ours(id));
        assert_eq!(classify(&parse(&block(id.uuid(), 1)).unwrap()), Signature::HalfMade(id));
        let other = Uuid::from_u128(7);
        let foreign = Signature::Foreign { kind: "xfs".into(), uuid: Some(other.to_string()) };
        assert_eq!(classify(&parse(&block(other, 0)).unwrap()), foreign);
    }

    /// The block has the layout that mkfs.gfs2 3.5.0 writes.
    #[test]
    fn a_gfs2_superblock_is_classified_by_its_uuid() {
        let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
        let id = FileSystemId::derive(owner, "rabbit-1", "storage", 0);
        let mut block = vec![0; BLOCK];
        block[..8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
        block[256..272].copy_from_slice(id.uuid().as_bytes());
        assert_eq!(classify(&parse_gfs2(&block).unwrap()), Signature::Ours(id));
        block[256] = 0;
        let Signature::Foreign { kind, .. } = classify(&parse_gfs2(&block).unwrap()) else {
            panic!("Warren did not derive its UUID")
        };
        assert_eq!(kind, "gfs2");
        block[7] = 2;
        assert!(parse_gfs2(&block).is_none(), "a GFS2 block of another type is no superblock");
    }

    #[test]
    fn a_short_or_unknown_block_has_no_superblock() {
        assert!(parse(b"").is_none());
        assert!(parse(b"XFSB").is_none());
        assert!(parse(&[0; BLOCK]).is_none());
    }

    /// Messages of mkfs.xfs 6.1.0 and mkfs.gfs2 3.5.0 about sizes (exit statuses 1 and 255), and about other failures.
    #[test]
    fn size_complaint_recognises_only_complaints_about_the_size() {
        let about_size = [
            "size 256 of data subvolume is too small, minimum 4096 blocks\nUsage: mkfs.xfs",
            "Filesystem must be larger than 300MB.\nUsage: mkfs.xfs",
            "agsize (103 blocks) too small, need at least 4096 blocks\nUsage: mkfs.xfs",
            "gfs2 will not fit on this device.",
            "Device '/dev/loop0' is too small",
        ];
        let others = [
            "",
            "bash: mkfs: command not found",
            "mkfs: failed to execute mkfs.xfs: No such file or directory",
            "Error accessing specified device /dev/loop0: No such file or directory\nUsage: mkfs.xfs",
            "mkfs.xfs: pwrite failed: Input/output error",
        ];
        let first = |text: &'static str| text.lines().next();
        about_size.iter().for_each(|text| assert_eq!(size_complaint(text), first(text)));
        others.iter().for_each(|text| assert_eq!(size_complaint(text), None));
    }

    #[test]
    fn wipefs_output_is_parsed() {
        assert_eq!(parse_wipefs(b"").unwrap(), Signature::Blank);
        assert_eq!(parse_wipefs(br#"{"signatures":[]}"#).unwrap(), Signature::Blank);
        // Output of wipefs of util-linux 2.38 for an ext4 image.
        let ext4 = br#"{"signatures":[{"device":"loop0","offset":"0x438","type":"ext4","uuid":"0f1d","label":null}]}"#;
        let foreign = Signature::Foreign { kind: "ext4".into(), uuid: Some("0f1d".into()) };
        assert_eq!(parse_wipefs(ext4).unwrap(), foreign);
        assert!(parse_wipefs(b"{").is_err());
    }
}
