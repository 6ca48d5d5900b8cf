//! Who keeps a mount or a device in use, in whichever mount namespace.
//!
//! A mount namespace (mount_namespaces(7)) that was made while a file system was mounted has a copy of the mount, which stays
//! when ours goes: the file system lives on for the processes in there. When our mount point is removed the kernel detaches the
//! copy that is on it, and no mount table tells of it any more; what a process has open in there keeps the file system all the
//! same, and tells its device.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io, mem,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use jiff::Timestamp;
use procfs::{
    boot_time_secs,
    process::{FDInfo, FDTarget, MMapPath, MemoryMaps, Process, StatFlags, all_processes},
    ticks_per_second,
};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::{
    bounded::{self, BoundedCalls},
    mount_table,
};
use crate::observed::{DeviceNumber, Holders};

const PATIENCE: Duration = Duration::from_secs(5);

/// A process that waits for a file system, for whichever, may have its list of mappings locked. What it maps is then not
/// known, and what it has open is: that does not wait.
static MAPPINGS: LazyLock<BoundedCalls> =
    LazyLock::new(|| BoundedCalls::at_locks(Duration::from_millis(200)));

/// Who holds the mount of `device` at `target`, which umount(2) calls busy.
pub(super) fn of_mount(target: &Path, device: DeviceNumber) -> Holders {
    let path = target.to_owned();
    found(&format!("holders of {}", target.display()), move || {
        let mut looked = Looked::at(device);
        looked.points.insert(looked.own.clone(), vec![path.clone()]);
        let beneath = mount_table::points_beneath(&path).unwrap_or_default();
        looked.tell_mounts(&beneath);
        looked.tell_processes(|_| false);
        looked.holders
    })
}

/// Who has `device` mounted or open, but for this process, which only looks at it.
pub(super) fn of_device(device: DeviceNumber) -> Holders {
    found(&format!("holders of {device}"), move || {
        let mut looked = Looked::at(device);
        let here = looked.points.get(&looked.own).cloned().unwrap_or_default();
        looked.tell_mounts(&here);
        looked.tell_processes(|process| !is_us(process) && uses(process, device));
        looked.holders
    })
}

/// Who has the device itself open, but for this process, which only looks at it.
pub(super) fn with_open(device: DeviceNumber) -> io::Result<Holders> {
    bounded::within(PATIENCE, &format!("who has {device} open"), move || {
        let mut looked = Looked::where_mounted(|_| false);
        looked.tell_processes(|process| !is_us(process) && uses(process, device));
        looked.holders
    })
}

/// Who has a file system without a device mounted: another mount namespace, while ours has it nowhere.
pub(super) fn of_source(kind: &str, source: &str) -> io::Result<Holders> {
    let (kind, source) = (kind.to_owned(), source.to_owned());
    let name = format!("who has {kind} {source} mounted");
    bounded::within(PATIENCE, &name, move || {
        let mut looked =
            Looked::where_mounted(|entry| entry.kind == kind && entry.source == source);
        match looked.points.get(&looked.own) {
            Some(here) if !here.is_empty() => Holders::default(),
            _ => {
                looked.tell_processes(|_| false);
                looked.holders
            }
        }
    })
}

fn found(name: &str, find: impl FnOnce() -> Holders + Send + 'static) -> Holders {
    bounded::within(PATIENCE, name, find).unwrap_or_else(|error| Holders {
        told: vec![format!("somebody who cannot be looked for: {error}")],
        processes: Vec::new(),
    })
}

/// All processes, and where each of their mount namespaces has what is looked for.
#[derive(Default)]
struct Looked {
    /// Our own mount namespace.
    own: PathBuf,
    /// Ids, with the mount namespace of each. None is held open: there may be more than an agent may have descriptors.
    processes: Vec<(i32, PathBuf)>,
    points: HashMap<PathBuf, Vec<PathBuf>>,
    holders: Holders,
}

impl Looked {
    fn at(device: DeviceNumber) -> Self {
        Self::where_mounted(|entry| entry.shows() == device)
    }

    fn where_mounted(is_it: impl Fn(&mount_table::Entry) -> bool) -> Self {
        let own = fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
        let mut looked = Self { own, ..Self::default() };
        let all = all_processes().into_iter().flatten().flatten();
        for pid in all.filter(has_files).map(|process| process.pid) {
            // One that ends meanwhile holds nothing.
            let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/mnt")) else { continue };
            if !looked.points.contains_key(&namespace) {
                let entries = mount_table::of_process(pid).unwrap_or_default();
                let points = entries.into_iter().filter(&is_it).map(|entry| entry.point);
                looked.points.insert(namespace.clone(), points.collect());
            }
            looked.processes.push((pid, namespace));
        }
        looked
    }

    fn tell_mounts(&mut self, points: &[PathBuf]) {
        self.holders.told.extend(points.iter().map(|point| format!("mount {}", point.display())));
    }

    /// Tells the processes that work where it is mounted, or are `others`. Where nobody does, what keeps it is that it is
    /// mounted in another namespace, and the first process in there stands for all; but copies of what our namespace has keep
    /// nothing: they never make umount(2) busy, and go with ours.
    fn tell_processes(&mut self, others: impl Fn(&Process) -> bool) {
        let mut idle: BTreeMap<PathBuf, i32> = BTreeMap::new();
        let mut is_kept = self.points.get(&self.own).is_some_and(|here| !here.is_empty());
        for (pid, namespace) in mem::take(&mut self.processes) {
            let points = self.points.get(&namespace).map_or(&[][..], Vec::as_slice);
            let Ok(process) = Process::new(pid) else { continue };
            let is_elsewhere = namespace != self.own;
            if points.iter().any(|point| holds(&process, point)) || others(&process) {
                self.holders.tell(&process, is_elsewhere.then_some(points));
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
                self.holders.tell(&process, self.points.get(&namespace).map(Vec::as_slice));
            }
        }
    }
}

impl Holders {
    /// With where it is mounted, if the process is in another mount namespace.
    fn tell(&mut self, process: &Process, elsewhere: Option<&[PathBuf]>) {
        let place = match elsewhere {
            None => String::new(),
            Some([]) => " in another mount namespace".to_owned(),
            Some([point, ..]) => {
                format!(" in another mount namespace, where it is on {}", point.display())
            }
        };
        self.told.push(format!("{}{place}", name(process)));
        self.processes.push(process.pid);
    }
}

/// A kernel thread has none.
fn has_files(process: &Process) -> bool {
    let is_kernels = |flags| StatFlags::from_bits_truncate(flags).contains(StatFlags::PF_KTHREAD);
    process.stat().is_ok_and(|stat| !is_kernels(stat.flags))
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
        || mappings(process).is_some_and(|maps| {
            maps.into_iter()
                .any(|map| matches!(map.pathname, MMapPath::Path(found) if found.starts_with(path)))
        })
}

/// What a process maps, if it lets that be read in time.
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

/// Whether a process has the device itself open, under whichever name, or works in the file system on it.
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

/// `AT_STATX_DONT_SYNC`: no server is asked for it.
fn is_on(link: &str, device: DeviceNumber) -> bool {
    let Ok(seen) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE) else {
        return false;
    };
    let on = DeviceNumber { major: seen.stx_dev_major, minor: seen.stx_dev_minor };
    let is = DeviceNumber { major: seen.stx_rdev_major, minor: seen.stx_rdev_minor };
    let is_block = libc::mode_t::from(seen.stx_mode) & libc::S_IFMT == libc::S_IFBLK;
    on == device || (is_block && is == device)
}

/// Its number, its name, and since when it runs.
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
        let told = name(&Process::myself().unwrap());
        let (_, since) = told.split_once(", since ").unwrap();
        let began: Timestamp = since.trim_end_matches(')').parse().unwrap();
        assert!(began <= Timestamp::now(), "{told}");
    }

    #[test]
    fn a_process_that_hangs_is_passed_over_and_not_waited_for_again() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let hang = move || held.recv().ok();
        assert_eq!(in_time(-7, hang), None);
        assert_eq!(in_time(-7, || unreachable!("it hangs") as Option<()>), None);
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
