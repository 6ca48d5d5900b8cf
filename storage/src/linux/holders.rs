//! Who keeps a mount or a device busy.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use procfs::process::{FDTarget, MMapPath, Process, all_processes};

use super::{looks, mount_table};
use crate::observed::DeviceNumber;

/// As many as help at 3 a.m.; the rest is counted.
const NAMED: usize = 8;

/// A process that waits for a file system may not let itself be looked at, for whichever file system that is: its list of
/// mappings is locked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Processes and mounts that hold `path`, in one line; empty when none is found.
pub(super) fn of(path: &Path) -> String {
    let looked = path.to_owned();
    found(&format!("holders of {}", path.display()), move || find(&looked))
}

fn found(name: &str, find: impl FnOnce() -> String + Send + 'static) -> String {
    let found = looks::within(PATIENCE, name, find);
    found.unwrap_or_else(|error| format!("somebody who cannot be looked for: {error}"))
}

fn find(path: &Path) -> String {
    let mut holders: Vec<String> = mount_table::points_beneath(path)
        .unwrap_or_default()
        .iter()
        .map(|point| format!("mount {}", point.display()))
        .collect();
    if let Ok(processes) = all_processes() {
        holders.extend(
            processes
                .flatten()
                .filter(|process| holds(process, path))
                .map(|process| name(&process)),
        );
    }
    list(holders)
}

/// Where `device` is mounted, in whichever mount namespace; each namespace is told once, by its first process.
pub(super) fn of_device(device: DeviceNumber) -> String {
    found(&format!("holders of {device}"), move || find_of_device(device))
}

fn find_of_device(device: DeviceNumber) -> String {
    let Ok(processes) = all_processes() else { return String::new() };
    let mut looked = BTreeSet::new();
    let mut holders = Vec::new();
    for process in processes.flatten() {
        // A process that ends, or a kernel thread: its namespace is another's too.
        let Ok(namespace) = fs::read_link(format!("/proc/{}/ns/mnt", process.pid)) else {
            continue;
        };
        if !looked.insert(namespace) {
            continue;
        }
        let mounts = process.mountinfo().into_iter().flatten();
        let here = mounts.filter(|mount| mount.majmin == device.to_string());
        holders.extend(here.map(|mount| {
            format!("mounted on {} by {}", mount.mount_point.display(), name(&process))
        }));
    }
    list(holders)
}

fn list(mut holders: Vec<String>) -> String {
    let more = holders.len().saturating_sub(NAMED);
    holders.truncate(NAMED);
    let list = holders.join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

/// A process that ends while it is looked at holds nothing.
fn holds(process: &Process, path: &Path) -> bool {
    let within = |found: PathBuf| found.starts_with(path);
    process.cwd().is_ok_and(within)
        || process.root().is_ok_and(within)
        || process.fd().is_ok_and(|fds| {
            fds.flatten()
                .any(|fd| matches!(fd.target, FDTarget::Path(found) if found.starts_with(path)))
        })
        || process.maps().is_ok_and(|maps| {
            maps.into_iter()
                .any(|map| matches!(map.pathname, MMapPath::Path(found) if found.starts_with(path)))
        })
}

fn name(process: &Process) -> String {
    let comm = process.stat().map(|stat| stat.comm).unwrap_or_default();
    format!("process {} ({comm})", process.pid)
}
