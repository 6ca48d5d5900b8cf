//! Counts the bytes to copy, and compares them with the destination's free space.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use movement::report::{Outcome, Total};
use rustix::fs::{fstat, fstatvfs};

use crate::{data::bytes_of_data, mover::Mover, run::Source, scan};

/// How long copying waits for the count, so that a destination that is too small is usually found before anything is
/// copied.
const COUNT_PATIENCE: Duration = Duration::from_millis(250);

/// Counts the source. If the count ends in time and the destination has too little free space, ends the movement before
/// anything is copied.
pub(crate) fn count(mover: &Arc<Mover>, source: &Source) {
    let directory = match source {
        Source::Directory(directory) => directory.try_clone(),
        Source::File(_) if !mover.copies_single_file() => {
            let _ = mover.counters.total.set(Total::default());
            return;
        }
        Source::File(file) => {
            let bytes = fstat(file).map_or(0, |stat| bytes_of_data(&stat));
            let _ = mover.counters.total.set(Total { files: 1, bytes });
            return check_space(mover);
        }
    };
    let Ok(directory) = directory else { return };
    let (done, counted) = mpsc::channel();
    let counter = mover.clone();
    let count = move || {
        let _ = counter.counters.total.set(scan::count(&counter, &directory));
        let _ = done.send(());
    };
    let started = thread::Builder::new().name("count".to_owned()).spawn(count);
    if !mover.is_within_one_file_system
        && started.is_ok()
        && counted.recv_timeout(COUNT_PATIENCE).is_ok()
    {
        check_space(mover);
    }
}

fn check_space(mover: &Mover) {
    // The free space cannot be compared with the size of the source: earlier runs may have copied a part already, and
    // copies within a file system may share blocks.
    if mover.resume.is_some() || mover.is_within_one_file_system {
        return;
    }
    let (Some(total), Ok(destination)) = (mover.counters.total.get(), fstatvfs(&mover.root)) else {
        return;
    };
    let free = destination.f_bavail.saturating_mul(destination.f_frsize);
    if total.bytes > free {
        let missing = total.bytes - free;
        mover.stop(Outcome::Stopped(format!(
            "destination {:?} on {}: {} bytes are to be copied and {free} are free; {missing} bytes are missing, nothing was copied",
            mover.order.destination.path, mover.order.destination.root.display(), total.bytes
        )));
    }
}
