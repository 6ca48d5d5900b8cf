//! The journal, from which the next run continues an interrupted movement: which folders hold temporary files, and
//! which blocks of large files are copied.
//!
//! The file `slots` has a record of fixed size, a slot, for each thread: the folder in which the thread has a temporary
//! file. The file `log` grows by a line for each large file, block, sync and checkpoint. Only root may write to the
//! directory of both files; `datamover` opens them before it gives up root's rights.

use std::{
    fs::{File, OpenOptions, read_to_string},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{Mutex, PoisonError},
};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

/// Bytes of a slot: the length of a path, and the path of at most `PATH_MAX` (4,096) bytes.
const SLOT: u64 = 8192;
const PATH_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct Journal {
    slots: File,
    log: Mutex<File>,
    boot: String,
}

impl Journal {
    /// Opens and locks the journal, and returns the log of earlier runs. Waits for an earlier run that has not ended
    /// yet: a run holds the lock until its process ends.
    pub(crate) fn open(state: &Path) -> io::Result<(Self, String)> {
        let slots = open(&state.join("slots"))?;
        let mut log = open(&state.join("log"))?;
        log.lock()?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        if text.ends_with(|character| character != '\n') {
            // If an earlier run was killed while it wrote the last line, drop this incomplete line.
            text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
            log.set_len(text.len() as u64)?;
            log.seek(SeekFrom::End(0))?;
        }
        let boot = read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        Ok((Self { slots, log: Mutex::new(log), boot }, text))
    }

    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// Records that a thread is about to create a temporary file in the folder `path`, relative to the destination's
    /// root. A path that is too long is not recorded: a killed run then leaves its temporary file in that folder.
    pub(crate) fn note_folder(&self, slot: u16, path: &[u8]) -> io::Result<()> {
        let path = if path.len() > PATH_MAX { b"" } else { path };
        let length = u16::try_from(path.len()).unwrap_or_default();
        let record = [&length.to_le_bytes()[..], path].concat();
        self.slots.write_all_at(&record, u64::from(slot) * SLOT)
    }

    /// Returns the folders of all slots that were ever used.
    pub(crate) fn folders(&self) -> io::Result<Vec<(u16, Vec<u8>)>> {
        let used = self.slots.metadata()?.len().div_ceil(SLOT);
        let slots = 0..u16::try_from(used).unwrap_or(u16::MAX);
        slots.map(|slot| Ok((slot, self.folder(slot)?))).collect()
    }

    fn folder(&self, slot: u16) -> io::Result<Vec<u8>> {
        let mut record = vec![0; 2 + PATH_MAX];
        let mut read = 0;
        while read < record.len() {
            match self.slots.read_at(&mut record[read..], u64::from(slot) * SLOT + read as u64)? {
                0 => break,
                count => read += count,
            }
        }
        let length = usize::from(u16::from_le_bytes([record[0], record[1]])).min(PATH_MAX);
        Ok(record[2..2 + length].to_vec())
    }

    /// Records that this run began at `time`, by the destination's clock.
    pub(crate) fn note_start(&self, time: Time) -> io::Result<()> {
        self.write(&format!("start {} {} {}\n", self.boot, time.0, time.1))
    }

    /// Records that a sync of the destination begins: the sync covers the blocks that were recorded before.
    pub(crate) fn note_sync(&self) -> io::Result<()> {
        self.write("sync\n")
    }

    /// Records that the latest sync has ended: everything written before `time` is on stable storage.
    pub(crate) fn note_checkpoint(&self, time: Time) -> io::Result<()> {
        self.write(&format!("checkpoint {} {} {}\n", self.boot, time.0, time.1))?;
        self.lock().sync_data()
    }

    pub(crate) fn note_large(&self, large: &LargeEntry<'_>) -> io::Result<()> {
        let path = percent_encode(large.path, NON_ALPHANUMERIC);
        let (seconds, nanoseconds) = large.modified;
        let line =
            format!("large {} {} {seconds} {nanoseconds} {path}\n", large.number, large.size);
        self.write(&line)
    }

    pub(crate) fn note_block(&self, number: u64, block: u64) -> io::Result<()> {
        self.write(&format!("block {number} {block}\n"))
    }

    fn write(&self, line: &str) -> io::Result<()> {
        self.lock().write_all(line.as_bytes())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, File> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds and nanoseconds.
pub(crate) type Time = (i64, i64);

/// The log's line for a large file.
#[derive(Debug)]
pub(crate) struct LargeEntry<'a> {
    /// Number in the temporary name.
    pub(crate) number: u64,
    pub(crate) size: u64,
    /// Modification time of the source.
    pub(crate) modified: Time,
    /// Path relative to the destination's root.
    pub(crate) path: &'a [u8],
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(path)
}
