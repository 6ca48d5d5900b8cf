//! The list of files that could not be copied: JSON lines in the movement's state directory.

use std::{
    fs::File,
    io::{BufWriter, Write},
    sync::{Mutex, PoisonError},
};

use rustix::io::Errno;
use serde::Serialize;

/// Maximum bytes of the list: a tree of millions of unreadable files must not fill the rabbit's own disk.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Failures(Mutex<List>);

#[derive(Debug)]
struct List {
    file: BufWriter<File>,
    written: u64,
}

/// A line of the list.
#[derive(Serialize)]
struct Failure<'a> {
    /// Path in the source. Bytes that are not UTF-8 are replaced.
    path: &'a str,
    /// The operation that failed, such as `open`.
    action: &'a str,
    /// errno(3), when a system call failed.
    errno: Option<i32>,
    error: String,
}

impl Failures {
    pub(crate) fn new(file: File) -> Self {
        Self(Mutex::new(List { file: BufWriter::new(file), written: 0 }))
    }

    pub(crate) fn add(&self, path: &[u8], action: &str, errno: Option<Errno>, error: String) {
        let path = String::from_utf8_lossy(path);
        let failure = Failure { path: &path, action, errno: errno.map(Errno::raw_os_error), error };
        let Ok(mut line) = serde_json::to_vec(&failure) else { return };
        line.push(b'\n');
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.written += line.len() as u64;
        if list.written <= MAX_BYTES {
            // An unwritable list does not stop the copy: the progress still counts the failures.
            let _ = list.file.write_all(&line);
        }
    }

    pub(crate) fn flush(&self) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).file.flush();
    }
}
