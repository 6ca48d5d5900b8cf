//! Removes temporary files.

use rustix::fs::{AtFlags, unlinkat};

use crate::{mover::Mover, place, resume::Resume};

/// Removes all temporary files of earlier runs and of this run. This run does not use an earlier run's temporary file
/// of a large source file if the source has changed since, or if this run reached the source by another hard link.
pub(crate) fn clean(mover: &Mover) {
    clean_small(mover);
    for (path, number) in mover.resume.iter().flat_map(Resume::temporary_files) {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        remove(mover, &path[..end], &mover.temporary_large(number));
    }
}

/// Removes each thread's temporary file. Temporary files of large files stay: this run keeps the blocks that were
/// copied to them.
pub(crate) fn clean_small(mover: &Mover) {
    for (slot, path) in mover.journal.folders().unwrap_or_default() {
        remove(mover, &path, &mover.temporary(slot));
    }
}

fn remove(mover: &Mover, folder: &[u8], name: &str) {
    if let Ok(folder) = place::directory(&mover.root, folder) {
        let _ = unlinkat(&folder, name, AtFlags::empty());
    }
}
