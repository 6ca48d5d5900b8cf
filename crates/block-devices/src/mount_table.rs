//! Reads the mount table, with the facts that prove which object each mount belongs to.
//!
//! Only the lines of wanted mount points are parsed. Users can mount too (fusermount(1)), with names of their choice,
//! and a malformed line of a user's mount must not keep the agent from reading its own mounts.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use files::none_if_absent;
use nix::sys::stat::{lstat, major, minor};
use procfs::process::MountInfo;
use rustix::fs::Statx;
use storage::{desired::AllowedRoots, observed::DeviceNumber};

use super::sysfs;

/// The fields that Warren uses of a line of proc_pid_mountinfo(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: u64,
    pub device: DeviceNumber,
    pub root: String,
    pub point: PathBuf,
    pub kind: String,
    pub source: String,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        Self::from_info(&MountInfo::from_line(line).ok()?)
    }

    /// Converts a line that the crate procfs has parsed, and decodes the kernel's octal escapes, which procfs leaves in
    /// the texts.
    fn from_info(info: &MountInfo) -> Option<Self> {
        let plain = |text: &str| unescape(text).into_owned();
        Some(Self {
            id: info.mnt_id.try_into().ok()?,
            device: DeviceNumber::parse(&info.majmin)?,
            root: plain(&info.root),
            point: PathBuf::from(plain(info.mount_point.to_str()?)),
            kind: plain(&info.fs_type),
            source: plain(info.mount_source.as_deref().unwrap_or_default()),
        })
    }

    /// Returns the block device if the mount is a block device that is bind-mounted on a file; otherwise the device of
    /// the file system.
    #[must_use]
    pub fn shows(&self) -> DeviceNumber {
        self.bound().unwrap_or(self.device)
    }

    /// Returns the number of a block device that is bind-mounted on a file, from the device's name in devtmpfs. Does
    /// not open the mount point, so that it also works for a mount that another mount covers.
    #[must_use]
    pub fn bound(&self) -> Option<DeviceNumber> {
        let name = self
            .root
            .strip_prefix('/')
            .filter(|name| self.kind == "devtmpfs" && !name.contains('/'))?;
        sysfs::number(&Path::new("/sys/class/block").join(name)).ok()
    }

    /// Returns the block device, if the mount is a device node that is bind-mounted on a file. A device node is on
    /// tmpfs or devtmpfs. On tmpfs, this function looks at the mount point itself, which cannot hang; on devtmpfs, it
    /// uses the device's name in the mount table.
    #[must_use]
    pub fn bound_device(&self) -> Option<DeviceNumber> {
        if self.kind == "tmpfs" {
            let stat = lstat(&self.point).ok()?;
            return (stat.st_mode & libc::S_IFMT == libc::S_IFBLK).then(|| number(stat.st_rdev));
        }
        self.bound()
    }
}

/// Reads the mount table. All names that Warren uses are UTF-8, so replacing other bytes is safe.
fn read() -> io::Result<String> {
    let bytes = fs::read("/proc/self/mountinfo")?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn entries(table: &str) -> impl Iterator<Item = io::Result<Entry>> {
    table.lines().map(|line| Entry::parse(line).ok_or_else(|| unreadable(line)))
}

fn unreadable(line: &str) -> io::Error {
    io::Error::other(format!("/proc/self/mountinfo has the line {line:?}"))
}

fn lines_at(table: &str, wanted: impl Fn(&Path) -> bool) -> String {
    let is_wanted = |line: &&str| {
        line.split(' ').nth(4).is_some_and(|point| wanted(Path::new(&*unescape(point))))
    };
    table.lines().filter(is_wanted).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the mounts whose mount points are wanted, in the order in which they were made.
///
/// # Errors
/// When the mount table, or a line of a wanted mount point, cannot be read.
pub fn wanted(is_wanted: impl Fn(&Path) -> bool) -> io::Result<Vec<Entry>> {
    entries(&lines_at(&read()?, is_wanted)).collect()
}

/// Returns the mounts at `point`, the latest first.
///
/// # Errors
/// As [`wanted`].
pub fn at(point: &Path) -> io::Result<Vec<Entry>> {
    let mut found = wanted(|there| there == point)?;
    found.reverse();
    Ok(found)
}

/// Returns the type of the file system that is mounted at exactly this path; if there are several mounts, the
/// type of the latest.
///
/// # Errors
/// When the mount table cannot be read.
pub fn kind_at(point: &Path) -> io::Result<Option<String>> {
    Ok(at(point)?.into_iter().next().map(|entry| entry.kind))
}

/// Returns all mounts of the mount namespace of a process, without lines that cannot be parsed.
///
/// # Errors
/// When the mount table of the process cannot be read.
pub fn of_process(pid: i32) -> io::Result<Vec<Entry>> {
    let bytes = fs::read(format!("/proc/{pid}/mountinfo"))?;
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(Entry::parse).collect())
}

/// Returns all mounts of our own mount namespace, without lines that cannot be parsed.
///
/// # Errors
/// When the mount table cannot be read.
pub fn all() -> io::Result<Vec<Entry>> {
    Ok(read()?.lines().filter_map(Entry::parse).collect())
}

/// Returns the mount with this mount ID (`stx_mnt_id` of statx(2)).
///
/// # Errors
/// When the mount table, or the line of this mount, cannot be read.
pub fn entry(id: u64) -> io::Result<Option<Entry>> {
    let (table, start) = (read()?, format!("{id} "));
    let line = table.lines().find(|line| line.starts_with(&start));
    line.map(|line| entries(line).next()).and_then(|entry| entry).transpose()
}

/// Converts a device number from `st_rdev` or `st_dev`.
#[must_use]
pub fn number(dev: libc::dev_t) -> DeviceNumber {
    let part = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    DeviceNumber { major: part(major(dev)), minor: part(minor(dev)) }
}

/// Returns the device of the file system that a file is on, and the device that the file itself is.
#[must_use]
pub fn numbers(status: &Statx) -> (DeviceNumber, DeviceNumber) {
    (
        DeviceNumber { major: status.stx_dev_major, minor: status.stx_dev_minor },
        DeviceNumber { major: status.stx_rdev_major, minor: status.stx_rdev_minor },
    )
}

/// The options of a mount and of its file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub device: DeviceNumber,
    pub kind: String,
    /// Whether the mount is read-only.
    pub mount_read_only: bool,
    /// Whether the file system is read-only, for all its mounts.
    pub super_read_only: bool,
}

impl Options {
    fn new(entry: &Entry, info: &MountInfo) -> Self {
        Self {
            device: entry.device,
            kind: entry.kind.clone(),
            mount_read_only: info.mount_options.contains_key("ro"),
            super_read_only: info.super_options.contains_key("ro"),
        }
    }
}

/// Returns all mounts beneath the roots with their options; at each mount point only the topmost mount.
///
/// # Errors
/// When the mount table, or the line of such a mount, cannot be read.
pub fn options_beneath(roots: &AllowedRoots) -> io::Result<Vec<(PathBuf, Options)>> {
    let mut real_roots = Vec::new();
    for root in roots.iter() {
        real_roots.extend(real(root)?);
    }
    let is_beneath = |point: &Path| real_roots.iter().any(|root| point.starts_with(root));
    let mut found = BTreeMap::new();
    for line in lines_at(&read()?, is_beneath).lines() {
        let info = MountInfo::from_line(line).map_err(|_| unreadable(line))?;
        let entry = Entry::from_info(&info).ok_or_else(|| unreadable(line))?;
        let options = Options::new(&entry, &info);
        found.insert(entry.point, options);
    }
    Ok(found.into_iter().collect())
}

/// Returns the mount points beneath a path.
///
/// # Errors
/// As [`wanted`].
pub fn points_beneath(path: &Path) -> io::Result<Vec<PathBuf>> {
    let beneath = wanted(|point| point != path && point.starts_with(path))?;
    Ok(beneath.into_iter().map(|entry| entry.point).collect())
}

/// Returns the path of a root as the kernel knows it, with symbolic links resolved: the admin chose the root, so its
/// links are trusted. `None` when the root does not exist.
///
/// # Errors
/// When a link or directory on the path cannot be read.
pub fn real(root: &Path) -> io::Result<Option<PathBuf>> {
    none_if_absent(root.canonicalize())
}

/// Returns the block devices that are bind-mounted on files beneath a directory: the devices of raw storage.
///
/// # Errors
/// When the mount table cannot be read.
pub fn devices_beneath(directory: &Path) -> io::Result<Vec<DeviceNumber>> {
    let Some(directory) = real(directory)? else { return Ok(Vec::new()) };
    let beneath = wanted(|point| point.starts_with(&directory))?;
    Ok(beneath.iter().filter_map(Entry::bound_device).collect())
}

/// Replaces the kernel's escapes by the characters: the kernel writes space, tab, newline and backslash as `\040` and
/// so on (`mangle` in fs/proc_namespace.c).
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let char = match rest.get(at + 1..at + 4) {
            Some("040") => ' ',
            Some("011") => '\t',
            Some("012") => '\n',
            Some("043") => '#',
            Some("134") => '\\',
            _ => {
                out.push('\\');
                rest = &rest[at + 1..];
                continue;
            }
        };
        out.push(char);
        rest = &rest[at + 4..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the path `/dev/<name>` of a block device, where `<name>` is the kernel's name in sysfs.
#[must_use]
pub fn device_path(device: DeviceNumber) -> Option<PathBuf> {
    let link = fs::read_link(format!("/sys/dev/block/{device}")).ok()?;
    Some(PathBuf::from("/dev").join(link.file_name()?))
}

#[cfg(test)]
mod tests;
