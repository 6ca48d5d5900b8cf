//! Decides which object to work on next: one task at a time per object, many objects in parallel, and retries after failures.
//!
//! Pure: the clock comes in as an argument. A wake during work is never lost: the queue hands the object out once more. A timer
//! exists only while something fails, or a reconcile is due at a certain time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Instant,
};

use crate::retry::{Delays, Retry};

/// Keys that wait, run, or failed and wait for their retry.
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
    /// The state after a failure; `None` when time alone changes nothing.
    fn after(before: Option<Self>, retry: Retry, now: Instant) -> Option<Self> {
        let known = before.filter(|before| before.retry == retry).map(|before| before.delays);
        let mut delays = known.or_else(|| retry.delays())?;
        let due = now + delays.next()?;
        Some(Self { retry, delays, due })
    }
}

/// Whether the result of the work is still current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing woke the key meanwhile.
    Current,
    /// Something woke the key, and the queue hands it out again; or the key was forgotten.
    Superseded,
}

impl<K: Ord + Clone + Debug> Queue<K> {
    /// A queue that hands out at most `limit` keys at a time.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, waiting: BTreeSet::new(), running: BTreeSet::new(), failing: BTreeMap::new() }
    }

    /// Something about this key changed: the queue hands it out as soon as there is room, whatever delay it was in.
    pub fn wake(&mut self, key: K) {
        self.waiting.insert(key);
    }

    /// Whether nothing is worked on, waits, or is to be worked on later.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.failing.is_empty()
    }

    /// Whether a task works on the key.
    #[must_use]
    pub fn is_running(&self, key: &K) -> bool {
        self.running.contains(key)
    }

    /// The keys on which tasks work.
    pub fn running(&self) -> impl Iterator<Item = &K> {
        self.running.iter()
    }

    /// Takes back a wake, because the running task already works on what it was for.
    pub fn satisfy(&mut self, key: &K) {
        self.waiting.remove(key);
    }

    /// Forgets a key whose object is gone and has no work left.
    pub fn forget(&mut self, key: &K) {
        self.waiting.remove(key);
        self.running.remove(key);
        self.failing.remove(key);
    }

    /// Like [`Self::wake`], after a delay.
    pub fn wake_later(&mut self, key: &K, now: Instant) {
        let Some(mut later) = Failing::after(None, Retry::Soon, now) else { return };
        if let Some(known) = self.failing.get(key) {
            later.due = later.due.min(known.due);
        }
        self.failing.insert(key.clone(), later);
    }

    /// Like [`Self::wake`], at this moment, unless something wakes the key before.
    pub fn wake_at(&mut self, key: &K, due: Instant, now: Instant) {
        if let Some(known) = self.failing.get_mut(key) {
            known.due = known.due.min(due);
        } else if let Some(later) = Failing::after(None, Retry::Soon, now) {
            self.failing.insert(key.clone(), Failing { due, ..later });
        }
    }

    /// Hands out the keys that may start now. A key for which `may_begin` is false keeps waiting.
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

    /// When to call [`Self::start`] if nothing happens before; `None` at rest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        // A key that waits already does not wait for the clock.
        let idle = |key: &K| !self.running.contains(key) && !self.waiting.contains(key);
        let failing = self.failing.iter().filter(|(key, _)| idle(key));
        failing.map(|(_, failing)| failing.due).min()
    }
}

#[cfg(test)]
mod tests;
