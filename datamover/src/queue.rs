//! Work for the threads. Last in, first out: a tree is copied depth first, so that few directories are open at a time.

use std::{
    ffi::CString,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{file::Opened, folder::Folder, large::Large};

/// Maximum number of entries. A thread that finds the queue full does the work itself, so that memory stays bounded in
/// any tree.
const MAX_ENTRIES: usize = 1024;

/// One piece of work.
#[derive(Debug)]
pub(crate) enum Work {
    /// Reads the open source directory.
    Read(Arc<Folder>),
    /// Copies an open file.
    File(Box<Opened>),
    /// Copies a subdirectory, by its name in its folder.
    Folder(Arc<Folder>, CString),
    /// Copies files of a folder, by their names.
    Files(Arc<Folder>, Vec<CString>),
    /// Copies the next blocks of a large file.
    Blocks(Arc<Large>),
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    work: Vec<Work>,
    /// Number of threads that work on an entry, and may add more entries.
    busy: usize,
}

impl Queue {
    /// Returns whether at least this many entries wait.
    pub(crate) fn has(&self, entries: usize) -> bool {
        self.lock().work.len() >= entries
    }

    /// Adds work, or returns it as an error when the queue is full.
    pub(crate) fn push(&self, work: Work) -> Result<(), Work> {
        let mut state = self.lock();
        if state.work.len() >= MAX_ENTRIES {
            return Err(work);
        }
        state.work.push(work);
        self.changed.notify_one();
        Ok(())
    }

    /// Returns the next work; `None` once nothing is left and no thread can add more. The thread calls
    /// [`Queue::finish`] when it has done the work.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.work.pop() {
                state.busy += 1;
                return Some(work);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        if state.busy == 0 && state.work.is_empty() {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
