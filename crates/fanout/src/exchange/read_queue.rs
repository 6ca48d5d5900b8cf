//! A queue of keys whose objects are to be read from the API.

use std::collections::{BTreeSet, VecDeque};

/// A queue that holds each key only once, from its addition until its reader is done.
#[derive(Debug, Default)]
pub(super) struct ReadQueue<T> {
    /// Keys that no reader has taken yet.
    waiting: VecDeque<T>,
    /// Keys that wait, and keys that are being read.
    open: BTreeSet<T>,
}

impl<T: Clone + Ord> ReadQueue<T> {
    /// Adds a key; returns whether it is new.
    pub(super) fn push(&mut self, key: &T) -> bool {
        let new = self.open.insert(key.clone());
        if new {
            self.waiting.push_back(key.clone());
        }
        new
    }

    /// Takes the next key for a reader.
    pub(super) fn take(&mut self) -> Option<T> {
        self.waiting.pop_front()
    }

    /// Records that the reader of a key is done: the key may be added again.
    pub(super) fn done(&mut self, key: &T) {
        self.open.remove(key);
    }
}
