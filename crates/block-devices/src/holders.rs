//! Finds the processes and mounts that keep a mount or a device in use, in any mount namespace.
//!
//! A mount namespace (mount_namespaces(7)) that was created while a file system was mounted has a copy of the mount.
//! The copy stays when our mount is unmounted, and processes in that namespace go on using the file system. When our
//! mount point is removed, the kernel detaches the copy, and no mount table lists the copy any more. A file that a
//! process still has open there keeps the file system in use; the agent finds the process by the device number of that
//! file.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io, mem,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use jiff::Timestamp;
use process::bounded::{self, BoundedCalls};
use procfs::{
    boot_time_secs,
    process::{FDInfo, FDTarget, MMapPath, MemoryMaps, Process, StatFlags, all_processes},
    ticks_per_second,
};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use storage::observed::{DeviceNumber, Holders};

use super::mount_table;

/// Deadline of a search through all processes of a node, whose processors may be busy with a job. Each read that may
/// hang in the kernel has a deadline of its own.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the memory mappings of processes. A process that waits for a file system may hold the lock of its mappings, so
/// that a read of the mappings times out. The process's open files can be read without that lock.
static MAPPINGS: LazyLock<BoundedCalls> =
    LazyLock::new(|| BoundedCalls::at_locks(Duration::from_millis(200)));

/// Returns the holders of the mount of `device` at `target`: they make umount(2) return EBUSY.
pub fn of_mount(target: &Path, device: DeviceNumber) -> Holders {
    let path = target.to_owned();
    search_in_time(&format!("holders of {}", target.display()), move || {
        let mut search = Search::at(device);
        search.points.insert(search.own.clone(), vec![path.clone()]);
        let beneath = mount_table::points_beneath(&path).unwrap_or_default();
        search.add_mounts(&beneath);
        search.add_processes(|_| false);
        search.holders
    })
}

/// Returns the mounts of `device` and the processes that have it open, without this process.
pub fn of_device(device: DeviceNumber) -> Holders {
    search_in_time(&format!("holders of {device}"), move || {
        let mut search = Search::at(device);
        let own_points = search.points.get(&search.own).cloned().unwrap_or_default();
        search.add_mounts(&own_points);
        search.add_processes(|process| !is_us(process) && uses(process, device));
        search.holders
    })
}

/// Returns the processes that have the device itself open, without this process.
pub fn with_open(device: DeviceNumber) -> io::Result<Holders> {
    bounded::within(PATIENCE, &format!("processes that have {device} open"), move || {
        let mut search = Search::where_mounted(|_| false);
        search.add_processes(|process| !is_us(process) && uses(process, device));
        search.holders
    })
}

/// Returns the processes that have this file system, which has no device, mounted in other mount namespaces; none while
/// our own mount namespace still has it mounted.
pub fn of_source(kind: &str, source: &str) -> io::Result<Holders> {
    let (kind, source) = (kind.to_owned(), source.to_owned());
    let name = format!("processes that have {kind} {source} mounted");
    bounded::within(PATIENCE, &name, move || {
        let mut search =
            Search::where_mounted(|entry| entry.kind == kind && entry.source == source);
        match search.points.get(&search.own) {
            Some(here) if !here.is_empty() => Holders::default(),
            _ => {
                search.add_processes(|_| false);
                search.holders
            }
        }
    })
}

fn search_in_time(name: &str, find: impl FnOnce() -> Holders + Send + 'static) -> Holders {
    bounded::within(PATIENCE, name, find).unwrap_or_else(|error| Holders {
        names: vec![format!("unknown processes, because the search failed: {error}")],
        processes: Vec::new(),
    })
}

/// A search: all processes, and the paths of the wanted mount in each of their mount namespaces.
#[derive(Default)]
struct Search {
    own: PathBuf,
    /// PIDs, with the mount namespace of each process. The search holds no process open: a node may have more processes
    /// than an agent may have descriptors.
    processes: Vec<(i32, PathBuf)>,
    points: HashMap<PathBuf, Vec<PathBuf>>,
    holders: Holders,
}

impl Search {
    fn at(device: DeviceNumber) -> Self {
        Self::where_mounted(|entry| entry.shows() == device)
    }

    fn where_mounted(is_wanted: impl Fn(&mount_table::Entry) -> bool) -> Self {
        let own = fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
        let mut search = Self { own, ..Self::default() };
        let all = all_processes().into_iter().flatten().flatten();
        for pid in all.filter(has_files).map(|process| process.pid) {
            // A process that ends meanwhile holds nothing.
            let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/mnt")) else { continue };
            if !search.points.contains_key(&namespace) {
                let entries = mount_table::of_process(pid).unwrap_or_default();
                let points = entries.into_iter().filter(&is_wanted).map(|entry| entry.point);
                search.points.insert(namespace.clone(), points.collect());
            }
            search.processes.push((pid, namespace));
        }
        search
    }

    fn add_mounts(&mut self, points: &[PathBuf]) {
        self.holders.names.extend(points.iter().map(|point| format!("mount {}", point.display())));
    }

    /// Adds the processes that use the mount, and the processes that `others` selects. When no process uses the mount,
    /// a copy of the mount in another namespace is itself the holder, and the first process of that namespace is named.
    /// A copy does not count as a holder while our own namespace still has the mount: the copy does not cause EBUSY,
    /// and the kernel removes it with our mount.
    fn add_processes(&mut self, others: impl Fn(&Process) -> bool) {
        let mut idle: BTreeMap<PathBuf, i32> = BTreeMap::new();
        let mut is_kept = self.points.get(&self.own).is_some_and(|here| !here.is_empty());
        for (pid, namespace) in mem::take(&mut self.processes) {
            let points = self.points.get(&namespace).map_or(&[][..], Vec::as_slice);
            let Ok(process) = Process::new(pid) else { continue };
            let is_elsewhere = namespace != self.own;
            if points.iter().any(|point| holds(&process, point)) || others(&process) {
                add_process(&mut self.holders, &process, is_elsewhere.then_some(points));
                is_kept = true;
            } else if is_elsewhere && !points.is_empty() {
                idle.entry(namespace).or_insert(pid);
            }
        }
        if is_kept {
            return;
        }
        for (namespace, pid) in idle {
            if let Ok(process) = Process::new(pid) {
                let elsewhere = self.points.get(&namespace).map(Vec::as_slice);
                add_process(&mut self.holders, &process, elsewhere);
            }
        }
    }
}

/// Adds a process; if the process is in another mount namespace, also adds the mount points there.
fn add_process(holders: &mut Holders, process: &Process, elsewhere: Option<&[PathBuf]>) {
    let place = match elsewhere {
        None => String::new(),
        Some([]) => " in another mount namespace".to_owned(),
        Some([point, ..]) => {
            format!(" in another mount namespace, where it is on {}", point.display())
        }
    };
    holders.names.push(format!("{}{place}", name(process)));
    holders.processes.push(process.pid);
}

/// Returns whether a process can have open files: kernel threads cannot.
fn has_files(process: &Process) -> bool {
    let is_kernels = |flags| StatFlags::from_bits_truncate(flags).contains(StatFlags::PF_KTHREAD);
    process.stat().is_ok_and(|stat| !is_kernels(stat.flags))
}

/// Returns whether a process uses `path` or a file beneath it. A process that ends meanwhile holds nothing.
fn holds(process: &Process, path: &Path) -> bool {
    let within = |found: PathBuf| found.starts_with(path);
    process.cwd().is_ok_and(within)
        || process.root().is_ok_and(within)
        || process.fd().is_ok_and(|fds| {
            fds.flatten()
                .any(|fd| matches!(fd.target, FDTarget::Path(found) if found.starts_with(path)))
        })
        || mappings(process).is_some_and(|maps| {
            maps.into_iter()
                .any(|map| matches!(map.pathname, MMapPath::Path(found) if found.starts_with(path)))
        })
}

/// Reads the mappings of a process; `None` when the read fails or exceeds its deadline.
fn mappings(process: &Process) -> Option<MemoryMaps> {
    let pid = process.pid;
    in_time(pid, move || Process::new(pid).ok()?.maps().ok())
}

fn in_time<T: Send + 'static>(
    pid: i32,
    read: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    MAPPINGS.run(&format!("mappings of process {pid}"), read).ok().flatten()
}

fn is_us(process: &Process) -> bool {
    Ok(process.pid) == i32::try_from(std::process::id())
}

/// Returns whether a process has the device itself open, under any name, or a file on the device's file system.
fn uses(process: &Process, device: DeviceNumber) -> bool {
    let is_on = |link: &str| is_on(&format!("/proc/{}/{link}", process.pid), device);
    let is_open =
        |fd: FDInfo| matches!(fd.target, FDTarget::Path(_)) && is_on(&format!("fd/{}", fd.fd));
    let (major, minor) = (i32::try_from(device.major), i32::try_from(device.minor));
    is_on("cwd")
        || is_on("root")
        || process.fd().is_ok_and(|fds| fds.flatten().any(is_open))
        || mappings(process).is_some_and(|maps| {
            maps.into_iter().any(|map| (Ok(map.dev.0), Ok(map.dev.1)) == (major, minor))
        })
}

/// Returns whether a link leads to the device or to a file on it. With `AT_STATX_DONT_SYNC` the kernel asks no server.
fn is_on(link: &str, device: DeviceNumber) -> bool {
    let Ok(status) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE) else {
        return false;
    };
    let (on, is) = mount_table::numbers(&status);
    let is_block = libc::mode_t::from(status.stx_mode) & libc::S_IFMT == libc::S_IFBLK;
    on == device || (is_block && is == device)
}

/// Describes a process by its PID, name and start time.
fn name(process: &Process) -> String {
    let Ok(stat) = process.stat() else { return format!("process {}", process.pid) };
    let began = boot_time_secs().ok().and_then(|boot| {
        let seconds = boot.checked_add(stat.starttime / ticks_per_second().max(1))?;
        Timestamp::from_second(seconds.try_into().ok()?).ok()
    });
    let since = began.map_or_else(String::new, |began| format!(", since {began}"));
    format!("process {} ({}{since})", process.pid, stat.comm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_with_the_time_of_its_start() {
        let text = name(&Process::myself().unwrap());
        let (_, since) = text.split_once(", since ").unwrap();
        let began: Timestamp = since.trim_end_matches(')').parse().unwrap();
        assert!(began <= Timestamp::now(), "{text}");
    }

    #[test]
    fn a_hanging_read_is_skipped_and_not_repeated() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let hang = move || held.recv().ok();
        assert_eq!(in_time(-7, hang), None);
        assert_eq!(
            in_time(-7, || unreachable!("the earlier read of this process still hangs")
                as Option<()>),
            None
        );
        assert!(mappings(&Process::myself().unwrap()).is_some_and(|maps| maps.len() > 0));
        drop(release);
    }

    #[test]
    fn a_kernel_thread_holds_nothing() {
        let kthreadd =
            Process::new(2).ok().filter(|process| process.stat().is_ok_and(|stat| stat.ppid == 0));
        assert!(kthreadd.is_none_or(|process| !has_files(&process)));
        assert!(has_files(&Process::myself().unwrap()));
    }
}
