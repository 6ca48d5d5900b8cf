//! Signatures at the beginning of block devices.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::errno::Errno;
use serde::Deserialize;
use uuid::Uuid;

use super::{cmd::Cmd, exclusive, mount_table};
use crate::{
    desired::{FileSystemId, FileSystemKind},
    host::{CommandError, ObserveError, StepError, TooSmall},
    observed::{self, DeviceNumber, Signature, VolumeDevice},
};

/// A superblock's type and UUID.
struct Superblock {
    kind: FileSystemKind,
    uuid: Uuid,
    in_progress: bool,
}

/// `struct xfs_dsb` in fs/xfs/libxfs/xfs_format.h.
mod xfs {
    pub(super) const MAGIC: &[u8] = b"XFSB";
    pub(super) const UUID_AT: usize = 32;
    pub(super) const IN_PROGRESS_AT: usize = 126;
}

/// `struct gfs2_sb` in include/uapi/linux/gfs2_ondisk.h, at `GFS2_SB_ADDR` basic blocks; mkfs.gfs2(8) writes it last.
mod gfs2 {
    pub(super) const AT: u64 = 64 * 1024;
    /// `GFS2_MAGIC` and `GFS2_METATYPE_SB`.
    pub(super) const MAGIC: &[u8] = &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1];
    pub(super) const UUID_AT: usize = 256;
}

const BLOCK: usize = 4096;

/// Whether this module reads superblocks of this type.
pub(super) fn is_read(kind: &str) -> bool {
    [FileSystemKind::Xfs, FileSystemKind::Gfs2].iter().any(|known| known.as_str() == kind)
}

/// Reads the signature of `device`; runs tools only for what is not ours.
pub(super) fn read(device: &Path, deadline: Duration) -> Result<Signature, ObserveError> {
    let superblock = read_superblock(device)
        .map_err(|source| ObserveError::Read { path: device.display().to_string(), source })?;
    match superblock {
        Some(found) => Ok(whose(&found)),
        None => probe(device, deadline),
    }
}

fn whose(found: &Superblock) -> Signature {
    match FileSystemId::recognise(found.uuid) {
        Some(id) if found.in_progress => Signature::HalfMade(id),
        Some(id) => Signature::Ours(id),
        None => Signature::Foreign {
            kind: found.kind.as_str().to_owned(),
            uuid: Some(found.uuid.to_string()),
        },
    }
}

/// Whose file system is mounted from `device`.
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

/// A block, as far as the device reaches: beyond its end lseek(2) returns EINVAL.
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
    understand(&output).map_err(|error| ObserveError::Malformed {
        what: format!("output of wipefs --json {device}"),
        why: error.to_string(),
    })
}

/// wipefs(8) prints nothing at all for a device without signatures in some versions, an empty list in others.
fn understand(output: &[u8]) -> Result<Signature, serde_json::Error> {
    if output.trim_ascii().is_empty() {
        return Ok(Signature::Blank);
    }
    let report: Report = serde_json::from_slice(output)?;
    Ok(match report.signatures.into_iter().next() {
        Some(found) => Signature::Foreign { kind: found.kind, uuid: found.uuid },
        None => Signature::Blank,
    })
}

/// Zeroes the superblock of an interrupted mkfs; refuses anything else, and a device in use.
pub(super) fn wipe_half_made(
    device: &Path,
    id: FileSystemId,
    deadline: Duration,
) -> Result<(), StepError> {
    exclusive::with("wipe", device, deadline, |mut file| {
        let mut block = [0; BLOCK];
        file.read_exact(&mut block)?;
        let half_made = parse(&block).is_some_and(|found| whose(&found) == Signature::HalfMade(id));
        if !half_made {
            return Err(Errno::ESTALE.into());
        }
        file.rewind()?;
        file.write_all(&[0; BLOCK])?;
        file.sync_all()
    })
}

/// Makes a file system with its UUID: `mkfs -t xfs -m uuid=<id> …`, `mkfs -t gfs2 -O -U <id> …`, then the site's arguments.
pub(super) fn make(
    device: &VolumeDevice,
    kind: FileSystemKind,
    id: FileSystemId,
    line: &str,
    deadline: Duration,
) -> Result<(), StepError> {
    // mkfs needs the device for itself and says only that it is busy; this names the holders.
    exclusive::with("mkfs", &device.path, deadline, |_| Ok(()))?;
    let own = if kind == FileSystemKind::Gfs2 { "-O -U " } else { "-m uuid=" };
    let output = Cmd::shell(&format!("mkfs -t {kind} {own}{id} {line}")).run(deadline);
    output.map_err(|failed| explained(device, kind, failed))
}

/// The minimum size depends on mkfs' version and arguments. The size is the reason only when mkfs says so: it may also
/// be missing, or have failed to read or write.
fn explained(device: &VolumeDevice, kind: FileSystemKind, failed: CommandError) -> StepError {
    let least = kind.least();
    let why = match &failed {
        CommandError::Failed { stderr, .. } => of_size(stderr).map(str::to_owned),
        _ => None,
    };
    match (why, size(device.number)) {
        (Some(why), Ok(size)) if size < least => {
            StepError::TooSmall(TooSmall { device: device.path.clone(), kind, size, least, why })
        }
        _ => failed.into(),
    }
}

/// What mkfs says of a device's size; a warning may stand before it, and a usage text after it.
fn of_size(stderr: &str) -> Option<&str> {
    const WORDS: [&str; 3] = ["too small", "must be larger than", "will not fit"];
    stderr.lines().find(|line| WORDS.iter().any(|words| line.contains(words)))
}

/// Size of a device in bytes, from sysfs, which never waits for the device and counts in sectors of 512 bytes.
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
    fn a_superblock_tells_whose_it_is() {
        let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
        let id = FileSystemId::derive(owner, "rabbit-1", "storage", 0);
        assert_eq!(whose(&parse(&block(id.uuid(), 0)).unwrap()), Signature::Ours(id));
        assert_eq!(whose(&parse(&block(id.uuid(), 1)).unwrap()), Signature::HalfMade(id));
        let other = Uuid::from_u128(7);
        let foreign = Signature::Foreign { kind: "xfs".into(), uuid: Some(other.to_string()) };
        assert_eq!(whose(&parse(&block(other, 0)).unwrap()), foreign);
    }

    /// What mkfs.gfs2 3.5.0 wrote.
    #[test]
    fn gfs2_tells_whose_it_is() {
        let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
        let id = FileSystemId::derive(owner, "rabbit-1", "storage", 0);
        let mut block = vec![0; BLOCK];
        block[..8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
        block[256..272].copy_from_slice(id.uuid().as_bytes());
        assert_eq!(whose(&parse_gfs2(&block).unwrap()), Signature::Ours(id));
        block[256] = 0;
        let Signature::Foreign { kind, .. } = whose(&parse_gfs2(&block).unwrap()) else {
            panic!("its UUID is none of ours")
        };
        assert_eq!(kind, "gfs2");
        block[7] = 2;
        assert!(parse_gfs2(&block).is_none(), "another kind of GFS2's blocks");
    }

    #[test]
    fn a_short_or_strange_block_is_no_superblock() {
        assert!(parse(b"").is_none());
        assert!(parse(b"XFSB").is_none());
        assert!(parse(&[0; BLOCK]).is_none());
    }

    /// What mkfs.xfs 6.1.0 and mkfs.gfs2 3.5.0 say of sizes (they end with 1 and 255), and what other failures look like.
    #[test]
    fn mkfs_says_when_a_device_is_too_small() {
        let said = [
            "size 256 of data subvolume is too small, minimum 4096 blocks\nUsage: mkfs.xfs",
            "Filesystem must be larger than 300MB.\nUsage: mkfs.xfs",
            "agsize (103 blocks) too small, need at least 4096 blocks\nUsage: mkfs.xfs",
            "gfs2 will not fit on this device.",
            "Device '/dev/loop0' is too small",
        ];
        let unsaid = [
            "",
            "bash: mkfs: command not found",
            "mkfs: failed to execute mkfs.xfs: No such file or directory",
            "Error accessing specified device /dev/loop0: No such file or directory\nUsage: mkfs.xfs",
            "mkfs.xfs: pwrite failed: Input/output error",
        ];
        let first = |text: &'static str| text.lines().next();
        said.iter().for_each(|text| assert_eq!(of_size(text), first(text)));
        unsaid.iter().for_each(|text| assert_eq!(of_size(text), None));
    }

    #[test]
    fn wipefs_output_is_understood() {
        assert_eq!(understand(b"").unwrap(), Signature::Blank);
        assert_eq!(understand(br#"{"signatures":[]}"#).unwrap(), Signature::Blank);
        // util-linux 2.38 on an ext4 image
        let ext4 = br#"{"signatures":[{"device":"loop0","offset":"0x438","type":"ext4","uuid":"0f1d","label":null}]}"#;
        let foreign = Signature::Foreign { kind: "ext4".into(), uuid: Some("0f1d".into()) };
        assert_eq!(understand(ext4).unwrap(), foreign);
        assert!(understand(b"{").is_err());
    }
}
