//! Work for the threads, last in first out: a tree is copied depth first, and few directories are open at a time.

use std::{
    ffi::CString,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{file::Opened, folder::Folder, large::Large};

/// Most entries. A thread that finds the queue full does its work itself, so that memory stays bounded in any tree.
const MOST: usize = 1024;

/// One piece of work.
#[derive(Debug)]
pub(crate) enum Work {
    /// The contents of a folder that is open.
    Read(Arc<Folder>),
    /// A file that is open.
    File(Box<Opened>),
    /// A directory of the source, by its name in its folder.
    Folder(Arc<Folder>, CString),
    /// Files of a folder.
    Files(Arc<Folder>, Vec<CString>),
    /// The next blocks of a large file.
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
    /// Threads that are at work, and may add more.
    busy: usize,
}

impl Queue {
    /// Adds work, or gives it back when the queue is full.
    pub(crate) fn push(&self, work: Work) -> Result<(), Work> {
        let mut state = self.lock();
        if state.work.len() >= MOST {
            return Err(work);
        }
        state.work.push(work);
        self.changed.notify_one();
        Ok(())
    }

    /// Returns the next work; `None` once nothing is left and no thread can add more. Every thread that got work
    /// calls [`Queue::finish`] after it.
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
