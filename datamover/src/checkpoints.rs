//! Checkpoints: each records the time, by the destination's own clock, before which all copied files are on stable
//! storage.

use std::{fs::File, sync::Arc, thread, time::Duration};

use movement::layout::Layout;
use rustix::{
    fs::{Mode, OFlags, fstat, futimens, openat, syncfs},
    io::Errno,
};

use crate::{data::errno_of, journal::Time, mover::Mover};

/// Time between checkpoints.
const INTERVAL: Duration = Duration::from_secs(10);

/// Name of the marker: an empty file whose ctime is the time by the destination's clock.
fn marker_name(mover: &Mover) -> String {
    mover.temporary(0)
}

/// Creates the marker, and records when this run began, by the destination's clock.
pub(crate) fn record_start(mover: &Mover, target: &File, layout: &Layout) -> Result<(), Errno> {
    let noted = mover.journal.note_folder(0, layout.directory.as_bytes());
    noted.map_err(|error| errno_of(&error))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let marker = openat(target, marker_name(mover), flags, Mode::RUSR | Mode::WUSR)?;
    let started = mover.journal.note_start(destination_time(&File::from(marker))?);
    started.map_err(|error| errno_of(&error))
}

/// Sets the marker's times to now, and returns its ctime.
fn destination_time(marker: &File) -> Result<Time, Errno> {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    futimens(marker, &rustix::fs::Timestamps { last_access: now, last_modification: now })?;
    let stat = fstat(marker)?;
    Ok((stat.st_ctime, stat.st_ctime_nsec.cast_signed()))
}

/// Opens the marker of this run.
pub(crate) fn open_marker(mover: &Mover, target: &File) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(target, marker_name(mover), flags, Mode::empty()).map(File::from)
}

/// Starts a thread that takes checkpoints until `threads` copying threads have ended.
pub(crate) fn start_thread(mover: &Arc<Mover>, marker: File, threads: usize) {
    let mover = mover.clone();
    let take_checkpoints = move || {
        let is_over = || mover.is_over();
        while !mover.threads.wait(threads, INTERVAL, is_over) && !mover.is_over() {
            if take(&mover, &marker).is_err() {
                return;
            }
        }
    };
    // Ignores an error: the copy succeeds without checkpoints too. But if the power fails, the next run copies
    // everything again.
    let _ = thread::Builder::new().name("checkpoints".to_owned()).spawn(take_checkpoints);
}

/// Takes a checkpoint. Blocks that threads record in the journal while the sync runs are not part of the checkpoint.
fn take(mover: &Mover, marker: &File) -> Result<(), Errno> {
    let time = destination_time(marker)?;
    mover.journal.note_sync().map_err(|error| errno_of(&error))?;
    syncfs(&mover.root)?;
    mover.journal.note_checkpoint(time).map_err(|error| errno_of(&error))
}
