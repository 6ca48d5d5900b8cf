//! The mount table, with what proves whose each mount is.

use std::{collections::HashMap, fs, io, path::PathBuf};

use nix::sys::stat::{lstat, major, minor};
use procfs::process::{MountInfo, Process};

use super::{drives::Drives, signature};
use crate::{
    desired::{AllowedRoots, FileSystemKind, MountPoint},
    observed::{DeviceNumber, MountedThing},
};

/// proc_pid_mountinfo(5) of this process, in the order of the mounts.
pub(super) fn read() -> io::Result<Vec<MountInfo>> {
    let infos = Process::myself().and_then(|me| me.mountinfo()).map_err(io::Error::other)?;
    Ok(infos.into_iter().collect())
}

/// The entry with this mount id.
pub(super) fn entry(id: u64) -> io::Result<Option<MountInfo>> {
    Ok(read()?.into_iter().find(|info| u64::try_from(info.mnt_id) == Ok(id)))
}

/// A device number from `st_rdev` or `st_dev`.
pub(super) fn number(dev: libc::dev_t) -> DeviceNumber {
    let part = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    DeviceNumber { major: part(major(dev)), minor: part(minor(dev)) }
}

/// Describes an entry; `bound` is the device when the mount is a block device bound on a file.
pub(super) fn describe(
    info: &MountInfo,
    bound: Option<DeviceNumber>,
    drives: &dyn Drives,
) -> io::Result<MountedThing> {
    let device = bound.map_or_else(|| parse_number(&info.majmin), Ok)?;
    let superblock = match bound {
        None if info.fs_type == FileSystemKind::Xfs.as_str() => signature::of_mounted(device),
        _ => None,
    };
    Ok(MountedThing {
        device,
        source: unescape(info.mount_source.as_deref().unwrap_or("none")),
        kind: bound
            .map_or_else(|| info.fs_type.clone(), |_| FileSystemKind::Raw.as_str().to_owned()),
        root: unescape(&info.root),
        superblock,
        namespace: drives.namespace_of(device),
    })
}

/// All mounts beneath the roots.
pub(super) fn beneath(
    roots: &AllowedRoots,
    drives: &dyn Drives,
) -> io::Result<Vec<(MountPoint, MountedThing)>> {
    let mut found = Vec::new();
    for info in read()? {
        let path = unescape(&info.mount_point.to_string_lossy());
        let Ok(target) = MountPoint::parse(&path, roots) else { continue };
        found.push((target, describe(&info, bound_device(&info, &path), drives)?));
    }
    Ok(found)
}

/// Mount points strictly beneath `path`.
pub(super) fn points_beneath(path: &PathBuf) -> io::Result<Vec<PathBuf>> {
    let points = read()?
        .into_iter()
        .map(|info| PathBuf::from(unescape(&info.mount_point.to_string_lossy())));
    Ok(points.filter(|point| point != path && point.starts_with(path)).collect())
}

/// Device nodes live on devtmpfs or tmpfs; only there is it worth a look, and a look cannot hang.
fn bound_device(info: &MountInfo, path: &str) -> Option<DeviceNumber> {
    if info.fs_type != "devtmpfs" && info.fs_type != "tmpfs" {
        return None;
    }
    let stat = lstat(path).ok()?;
    (stat.st_mode & libc::S_IFMT == libc::S_IFBLK).then(|| number(stat.st_rdev))
}

fn parse_number(text: &str) -> io::Result<DeviceNumber> {
    let parsed = text.split_once(':').and_then(|(major, minor)| {
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    });
    parsed.ok_or_else(|| io::Error::other(format!("mountinfo has device number {text:?}")))
}

/// The kernel writes space, tab, newline and backslash as `\040` and so on.
fn unescape(text: &str) -> String {
    let codes = HashMap::from([("040", ' '), ("011", '\t'), ("012", '\n'), ("134", '\\')]);
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|code| codes.get(code));
        out.push(*code.unwrap_or(&'\\'));
        rest = &rest[at + if code.is_some() { 4 } else { 1 }..];
    }
    out.push_str(rest);
    out
}

/// `/dev/<name>` of a block device number; names in sysfs are what the kernel calls it.
pub(super) fn device_path(device: DeviceNumber) -> Option<PathBuf> {
    let link = fs::read_link(format!("/sys/dev/block/{device}")).ok()?;
    Some(PathBuf::from("/dev").join(link.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn octal_codes_of_the_kernel_become_characters() {
        assert_eq!(unescape(r"/mnt/a\040b\134c\011"), "/mnt/a b\\c\t");
        assert_eq!(unescape(r"tail\"), r"tail\");
        assert_eq!(unescape(r"\04é"), r"\04é");
    }
}
