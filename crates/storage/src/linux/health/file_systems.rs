//! File systems at our mount points: whether they accept writes, and whether they were shut down.
//!
//! What the kernel shows was tried, not assumed:
//! * A file system that went read-only shows `ro` among the options of its superblock, behind the dash of its line in
//!   /proc/self/mountinfo, and `rw` among those of the mount if nobody asked for it.
//! * An XFS that was shut down (XFS_IOC_GOINGDOWN, or by itself after an error) shows nothing there: its line says `rw`, and
//!   statfs(2) answers. stat(2) of any of its inodes fails with EIO (`xfs_vn_getattr`).
//! * A GFS2 that withdrew says so in /sys/fs/gfs2/<name>/withdraw.

use std::{
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::{
    caught,
    desired::AllowedRoots,
    health::{Answer, FileSystemFacts},
    linux::{
        bounded::BoundedCalls,
        drives::attribute,
        mount_table::{self, Options},
    },
    observed::DeviceNumber,
};

/// Types that Warren makes or mounts; other mounts are not its concern.
const OURS: [&str; 3] = ["xfs", "gfs2", "lustre"];

pub(super) fn read(
    roots: &AllowedRoots,
    calls: &BoundedCalls,
    sysfs: &Path,
) -> io::Result<Vec<FileSystemFacts>> {
    let ours: Vec<_> = mount_table::options_beneath(roots)?
        .into_iter()
        .filter(|(_, options)| OURS.contains(&&*options.kind))
        .collect();
    Ok(thread::scope(|scope| {
        let ask = |(point, options)| scope.spawn(move || facts(point, options, calls, sysfs));
        let asked: Vec<_> = ours.into_iter().map(ask).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    }))
}

fn facts(point: PathBuf, options: Options, calls: &BoundedCalls, sysfs: &Path) -> FileSystemFacts {
    let target = point.display().to_string();
    let asked = caught(|| answer(point, &options, calls, sysfs));
    FileSystemFacts {
        target,
        answer: asked.unwrap_or_else(|panicked| Answer::Silent(panicked.to_string())),
        device: options.device,
        kind: options.kind,
        asked_read_only: options.mount_read_only,
        is_read_only: options.super_read_only,
    }
}

/// Asks on a thread of its own: a cluster file system that waits for its cluster does not answer meanwhile.
fn answer(point: PathBuf, options: &Options, calls: &BoundedCalls, sysfs: &Path) -> Answer {
    if options.kind == "gfs2" && withdrew(sysfs, options.device) {
        return Answer::ShutDown("it withdrew from its cluster".to_owned());
    }
    let name = format!("file system at {}", point.display());
    match calls.run(&name, move || root(&point)) {
        Ok(Ok(())) => Answer::Well,
        Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => {
            Answer::ShutDown(error.to_string())
        }
        Ok(Err(error)) | Err(error) => Answer::Silent(error.to_string()),
    }
}

/// Stats the mount's root with what this node knows already (AT_STATX_DONT_SYNC, statx(2)).
fn root(point: &Path) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    statx(CWD, point, flags, StatxFlags::TYPE).map(drop).map_err(io::Error::from)
}

fn withdrew(sysfs: &Path, device: DeviceNumber) -> bool {
    let Ok(listing) = fs::read_dir(sysfs.join("fs/gfs2")) else { return false };
    let number = |path: &Path| attribute(&path.join("device"), "dev").ok().flatten();
    let says_so =
        |path: &Path| attribute(path, "withdraw").is_ok_and(|text| text.as_deref() == Some("1"));
    let mut tables = listing.filter_map(|entry| Some(entry.ok()?.path()));
    tables.any(|path| number(&path) == Some(device.to_string()) && says_so(&path))
}
