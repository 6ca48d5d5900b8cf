//! Counters of the directories, files, links and bytes of a movement.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use movement::report::{Progress, Total};

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) directories: AtomicU64,
    pub(crate) files: AtomicU64,
    pub(crate) links: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) changed: AtomicU64,
    pub(crate) total: OnceLock<Total>,
}

impl Counters {
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            directories: self.directories.load(Relaxed),
            files: self.files.load(Relaxed),
            links: self.links.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            kept: self.kept.load(Relaxed),
            failed: self.failed.load(Relaxed),
            changed: self.changed.load(Relaxed),
            total: self.total.get().copied(),
        }
    }

    /// Counts a file that an earlier run copied.
    pub(crate) fn add_kept_file(&self, bytes: u64) {
        self.files.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.kept.fetch_add(bytes, Relaxed);
    }
}
