//! Checks the file systems at our mount points: whether they accept writes, and whether they were shut down.
//!
//! The following behaviour of the kernel was tested, not assumed:
//! * A file system that turned read-only shows `ro` among the options of its superblock, which follow the dash in its
//!   line of /proc/self/mountinfo. The options of the mount still show `rw`, unless the mount itself is read-only.
//! * An XFS that was shut down (by XFS_IOC_GOINGDOWN, or by itself after an error) shows `rw` in both places, and
//!   statfs(2) succeeds. stat(2) of any of its inodes fails with EIO (`xfs_vn_getattr`).
//! * A GFS2 that withdrew shows 1 in /sys/fs/gfs2/<name>/withdraw.

use std::{
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use block_devices::mount_table::{self, Options};
use drives::nvme::attribute;
use process::bounded::BoundedCalls;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use storage::{
    caught,
    desired::AllowedRoots,
    health::{Answer, FileSystemFacts},
    observed::DeviceNumber,
};

/// Types of the file systems that Warren makes or mounts; mounts of other types are not checked.
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
        let start_check =
            |(point, options)| scope.spawn(move || facts(point, options, calls, sysfs));
        let threads: Vec<_> = ours.into_iter().map(start_check).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    }))
}

fn facts(point: PathBuf, options: Options, calls: &BoundedCalls, sysfs: &Path) -> FileSystemFacts {
    let target = point.display().to_string();
    let answer_or_panic = caught(|| answer(point, &options, calls, sysfs));
    FileSystemFacts {
        target,
        answer: answer_or_panic.unwrap_or_else(|panicked| Answer::Silent(panicked.to_string())),
        device: options.device,
        kind: options.kind,
        is_mounted_read_only: options.mount_read_only,
        is_read_only: options.super_read_only,
    }
}

/// Checks one mount on its own thread: a cluster file system that waits for its cluster does not answer.
fn answer(point: PathBuf, options: &Options, calls: &BoundedCalls, sysfs: &Path) -> Answer {
    if options.kind == "gfs2" && withdrew(sysfs, options.device) {
        return Answer::ShutDown("it withdrew from its cluster".to_owned());
    }
    let name = format!("file system at {}", point.display());
    match calls.run(&name, move || stat_root(&point)) {
        Ok(Ok(())) => Answer::Well,
        Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => {
            Answer::ShutDown(error.to_string())
        }
        Ok(Err(error)) | Err(error) => Answer::Silent(error.to_string()),
    }
}

/// Stats the mount's root with cached attributes (AT_STATX_DONT_SYNC, statx(2)).
fn stat_root(point: &Path) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    statx(CWD, point, flags, StatxFlags::TYPE).map(drop).map_err(io::Error::from)
}

fn withdrew(sysfs: &Path, device: DeviceNumber) -> bool {
    let Ok(listing) = fs::read_dir(sysfs.join("fs/gfs2")) else { return false };
    let number = |path: &Path| attribute(&path.join("device"), "dev").ok().flatten();
    let is_set =
        |path: &Path| attribute(path, "withdraw").is_ok_and(|text| text.as_deref() == Some("1"));
    let mut tables = listing.filter_map(|entry| Some(entry.ok()?.path()));
    tables.any(|path| number(&path) == Some(device.to_string()) && is_set(&path))
}
