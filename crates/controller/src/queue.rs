//! Which object is worked on next: each by one task at a time, many objects side by side, and after a failure once more.
//!
//! Pure: the clock comes in as an argument. A wake during work is never lost: the object is worked on once more. A timer exists
//! only while something fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Instant,
};

use crate::retry::{Delays, Retry};

/// Keys that wait, run, or wait until the queue hands them out again.
#[derive(Debug)]
pub struct Queue<K> {
    limit: usize,
    waiting: BTreeSet<K>,
    running: BTreeSet<K>,
    failing: BTreeMap<K, Failing>,
}

#[derive(Debug)]
struct Failing {
    retry: Retry,
    delays: Delays,
    due: Instant,
}

impl Failing {
    /// After a failure; `None` when time alone changes nothing.
    fn after(before: Option<Self>, retry: Retry, now: Instant) -> Option<Self> {
        let known = before.filter(|before| before.retry == retry).map(|before| before.delays);
        let mut delays = known.or_else(|| retry.delays())?;
        let due = now + delays.next()?;
        Some(Self { retry, delays, due })
    }
}

/// Whether what the work brought is still what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing woke the key meanwhile.
    Current,
    /// Something did, and it is worked on again; or it was forgotten.
    Superseded,
}

impl<K: Ord + Clone + Debug> Queue<K> {
    /// A queue that hands out at most `limit` keys at a time.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, waiting: BTreeSet::new(), running: BTreeSet::new(), failing: BTreeMap::new() }
    }

    /// Something about this key changed: it is worked on as soon as there is room, whatever delay it was in.
    pub fn wake(&mut self, key: K) {
        self.waiting.insert(key);
    }

    /// Whether it is being worked on.
    #[must_use]
    pub fn is_running(&self, key: &K) -> bool {
        self.running.contains(key)
    }

    /// What is being worked on.
    pub fn running(&self) -> impl Iterator<Item = &K> {
        self.running.iter()
    }

    /// What this key was woken for is what was just worked on.
    pub fn satisfy(&mut self, key: &K) {
        self.waiting.remove(key);
    }

    /// The object is no more and nothing is left to do for it.
    pub fn forget(&mut self, key: &K) {
        self.waiting.remove(key);
        self.running.remove(key);
        self.failing.remove(key);
    }

    /// Like [`Self::wake`], but in a while.
    pub fn wake_later(&mut self, key: &K, now: Instant) {
        let Some(mut later) = Failing::after(None, Retry::Soon, now) else { return };
        if let Some(known) = self.failing.get(key) {
            later.due = later.due.min(known.due);
        }
        self.failing.insert(key.clone(), later);
    }

    /// Hands out what may start now; what may not begin waits on. All for which `may_begin` is true start.
    pub fn start(&mut self, now: Instant, may_begin: impl FnMut(&K) -> bool) -> Vec<K> {
        let due = self.failing.iter();
        let due = due.filter(|(key, failing)| failing.due <= now && !self.running.contains(key));
        let due: Vec<K> = due.map(|(key, _)| key.clone()).collect();
        self.waiting.extend(due);
        let room = self.limit.saturating_sub(self.running.len());
        let waiting = self.waiting.difference(&self.running).cloned();
        let start: Vec<K> = waiting.filter(may_begin).take(room).collect();
        for key in &start {
            self.waiting.remove(key);
            self.running.insert(key.clone());
        }
        start
    }

    /// The work on a key ended; unless `retry` waits for a change, the queue hands it out again after a while.
    pub fn finished(&mut self, key: &K, retry: Retry, now: Instant) -> Standing {
        if !self.running.remove(key) {
            return Standing::Superseded;
        }
        let before = self.failing.remove(key);
        if let Some(failing) = Failing::after(before, retry, now) {
            self.failing.insert(key.clone(), failing);
        }
        if self.waiting.contains(key) { Standing::Superseded } else { Standing::Current }
    }

    /// When to look again if nothing happens before; `None` at rest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        // What waits already waits for something else than time.
        let idle = |key: &K| !self.running.contains(key) && !self.waiting.contains(key);
        let failing = self.failing.iter().filter(|(key, _)| idle(key));
        failing.map(|(_, failing)| failing.due).min()
    }
}

#[cfg(test)]
mod tests;
