//! The state that all threads of a movement share.

use std::{
    fs::File,
    io,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use movement::{order::Order, report::Outcome};
use rustix::io::Errno;

use crate::{
    counters::Counters, data::Fault, failures::Failures, folder::Folder, journal::Journal,
    links::Links, queue::Queue, resume::Resume, threads::Threads, throttle::Throttle,
};

#[derive(Debug)]
pub(crate) struct Mover {
    pub(crate) order: Order,
    /// Root of the destination.
    pub(crate) root: File,
    pub(crate) counters: Counters,
    pub(crate) failures: Failures,
    pub(crate) throttle: Throttle,
    pub(crate) journal: Journal,
    /// The state that earlier runs left; `None` in the first run.
    pub(crate) resume: Option<Resume>,
    pub(crate) links: Links,
    pub(crate) queue: Queue,
    pub(crate) threads: Threads,
    /// Number for the next large file's temporary name.
    pub(crate) next_large: AtomicU64,
    /// Whether copy_file_range(2) works from this source to this destination; true until a call fails.
    pub(crate) copies_ranges: AtomicBool,
    pub(crate) is_within_one_file_system: bool,
    /// Whether files of the destination can share blocks with files of the source; true until a call fails.
    pub(crate) shares_blocks: AtomicBool,
    is_over: AtomicBool,
    end: OnceLock<Outcome>,
    /// Serializes threads that run out of space: the first computes the missing bytes for the message.
    space: Mutex<()>,
}

/// The state of one copying thread.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Slot of the thread in the journal, and its number in temporary names.
    pub(crate) slot: u16,
    /// Buffer for data that copy_file_range(2) cannot copy.
    pub(crate) buffer: Vec<u8>,
    /// The folder that the journal records for the slot.
    pub(crate) noted: Option<Vec<u8>>,
}

impl Mover {
    pub(crate) fn new(
        order: Order,
        root: File,
        failures: File,
        journal: Journal,
        resume: Option<Resume>,
    ) -> Self {
        Self {
            throttle: Throttle::new(order.rate),
            next_large: AtomicU64::new(resume.as_ref().map_or(0, |resume| resume.next)),
            order,
            root,
            counters: Counters::default(),
            failures: Failures::new(failures),
            journal,
            resume,
            links: Links::default(),
            queue: Queue::default(),
            threads: Threads::default(),
            copies_ranges: AtomicBool::new(true),
            is_within_one_file_system: false,
            shares_blocks: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            end: OnceLock::new(),
            space: Mutex::new(()),
        }
    }

    /// Whether the movement has been cancelled or stopped: threads then end before everything is copied.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Whether this movement copies the source if the source is a file: the first share does.
    pub(crate) fn copies_single_file(&self) -> bool {
        self.order.share.is_none_or(|share| share.index == 0)
    }

    /// Outcome of a movement that was cancelled or stopped.
    pub(crate) fn end(&self) -> Option<&Outcome> {
        self.end.get()
    }

    /// Ends the movement early. Only the first call sets the outcome.
    pub(crate) fn stop(&self, outcome: Outcome) {
        let _ = self.end.set(outcome);
        self.is_over.store(true, Relaxed);
        self.threads.wake();
        self.throttle.wake();
    }

    /// Counts and lists an entry that could not be copied.
    pub(crate) fn fail(&self, path: &[u8], action: &str, errno: Errno) {
        self.counters.failed.fetch_add(1, Relaxed);
        self.failures.add(path, action, Some(errno), io::Error::from(errno).to_string());
    }

    /// Records a fault of a file's data, and ends the movement when the destination is full.
    pub(crate) fn fail_data(&self, path: &[u8], fault: Fault) {
        let (action, errno) = match fault {
            Fault::Read(errno) => ("read", errno),
            Fault::Write(errno) => ("write", errno),
            Fault::Over => return,
        };
        self.fail_write(path, action, errno);
    }

    /// Records a failure to write, and ends the movement when the destination is full.
    pub(crate) fn fail_write(&self, path: &[u8], action: &str, errno: Errno) {
        self.fail(path, action, errno);
        if matches!(errno, Errno::NOSPC | Errno::DQUOT) && action != "read" {
            let _once = self.space.lock().unwrap_or_else(PoisonError::into_inner);
            self.stop(Outcome::Stopped(self.full_text(errno)));
        }
    }

    /// Returns the error text for a full destination, with the number of missing bytes if the total is known.
    fn full_text(&self, errno: Errno) -> String {
        let why =
            if errno == Errno::DQUOT { "the user's quota is used up" } else { "no space is left" };
        let path = &self.order.destination.path;
        let root = self.order.destination.root.display();
        let progress = self.counters.progress();
        let missing = progress.total.map(|total| total.bytes.saturating_sub(progress.bytes));
        let missing = missing.map_or(String::new(), |bytes| format!("; {bytes} bytes are missing"));
        format!("destination {path:?} on {root}: {why}{missing}")
    }

    /// Name of a thread's temporary file.
    pub(crate) fn temporary(&self, slot: u16) -> String {
        format!("{}-{slot}", self.order.prefix)
    }

    /// Name of a large file's temporary file.
    pub(crate) fn temporary_large(&self, number: u64) -> String {
        format!("{}-large-{number}", self.order.prefix)
    }
}

impl Worker {
    pub(crate) fn new(slot: u16) -> Self {
        Self { slot, buffer: Vec::new(), noted: None }
    }

    /// Records the folder in the journal, before this thread creates a temporary file in it.
    pub(crate) fn note_folder(&mut self, mover: &Mover, folder: &Folder) -> Result<(), Errno> {
        if self.noted.as_deref() == Some(&folder.target_path) {
            return Ok(());
        }
        let noted = mover.journal.note_folder(self.slot, &folder.target_path);
        noted.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.noted = Some(folder.target_path.clone());
        Ok(())
    }
}
