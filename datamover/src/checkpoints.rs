//! Checkpoints: up to which moment of the destination's own clock its files are on stable storage.

use std::{fs::File, sync::Arc, thread, time::Duration};

use movement::layout::Layout;
use rustix::{
    fs::{Mode, OFlags, fstat, futimens, openat, syncfs},
    io::Errno,
};

use crate::{data::errno_of, journal::Time, mover::Mover};

/// Between checkpoints.
const CHECKPOINT: Duration = Duration::from_secs(10);

/// Name of the file whose times are those of the destination's clock.
fn marker(mover: &Mover) -> String {
    mover.temporary(0)
}

/// Makes the marker and records the begin of this run in the destination's own time.
pub(crate) fn mark(mover: &Mover, target: &File, layout: &Layout) -> Result<(), Errno> {
    let noted = mover.journal.note_folder(0, layout.directory.as_bytes());
    noted.map_err(|error| errno_of(&error))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let marker = openat(target, marker(mover), flags, Mode::RUSR | Mode::WUSR)?;
    let started = mover.journal.note_start(changed(&File::from(marker))?);
    started.map_err(|error| errno_of(&error))
}

fn changed(file: &File) -> Result<Time, Errno> {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    futimens(file, &rustix::fs::Timestamps { last_access: now, last_modification: now })?;
    let stat = fstat(file)?;
    Ok((stat.st_ctime, stat.st_ctime_nsec.cast_signed()))
}

/// Opens the marker of this run.
pub(crate) fn open_marker(mover: &Mover, target: &File) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(target, marker(mover), flags, Mode::empty()).map(File::from)
}

/// Has everything that was copied so far on stable storage from time to time.
pub(crate) fn keep(mover: &Arc<Mover>, marker: File, threads: usize) {
    let mover = mover.clone();
    let keep = move || {
        let is_over = || mover.is_over();
        while !mover.threads.wait(threads, CHECKPOINT, is_over) && !mover.is_over() {
            if take(&mover, &marker).is_err() {
                return;
            }
        }
    };
    // Without it, a run after a loss of power copies everything again.
    let _ = thread::Builder::new().name("checkpoints".to_owned()).spawn(keep);
}

/// Takes a checkpoint. What is noted while the sync runs may not be part of it.
fn take(mover: &Mover, marker: &File) -> Result<(), Errno> {
    let time = changed(marker)?;
    mover.journal.note_sync().map_err(|error| errno_of(&error))?;
    syncfs(&mover.root)?;
    mover.journal.note_checkpoint(time).map_err(|error| errno_of(&error))
}
