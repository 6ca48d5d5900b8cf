//! Decides for which object the caller starts a task next. One object has at most one task at a time, many objects have
//! tasks in parallel, and failed tasks are retried.
//!
//! This module does no I/O; the time is an argument. To wake a key is to request a task for its object. A wake that
//! arrives while a task works on the key is not lost: the queue hands the key out once more after that task. The queue
//! needs a timer only while a key waits for its retry, or for the time at which its reconcile is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Instant,
};

use apiclient::Delays;

use crate::retry::Retry;

/// Keys of objects that wait for a task, have a task, or wait for their retry.
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
    /// Returns the retry state after a failure; `None` if no retry is planned, because only a change of
    /// an object can help.
    fn after(before: Option<Self>, retry: Retry, now: Instant) -> Option<Self> {
        let known = before.filter(|before| before.retry == retry).map(|before| before.delays);
        let mut delays = known.or_else(|| retry.delays())?;
        let due = now + delays.next_delay();
        Some(Self { retry, delays, due })
    }
}

/// Whether the result of a finished task is still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Valid: no wake arrived during the task.
    Current,
    /// Not valid: a wake arrived during the task, so that the queue hands the key out again; or the key was forgotten.
    Superseded,
}

impl<K: Ord + Clone + Debug> Queue<K> {
    /// Returns a queue that hands out at most `limit` keys at a time.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, waiting: BTreeSet::new(), running: BTreeSet::new(), failing: BTreeMap::new() }
    }

    /// Wakes a key, because its object has changed: the queue hands the key out as soon as the number of tasks permits,
    /// even if the key waits for a retry.
    pub fn wake(&mut self, key: K) {
        self.waiting.insert(key);
    }

    /// Returns whether no key has a task, waits for a task, or is due later.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.failing.is_empty()
    }

    /// Returns whether a task works on the key.
    #[must_use]
    pub fn is_running(&self, key: &K) -> bool {
        self.running.contains(key)
    }

    /// Returns the keys on which tasks work.
    pub fn running(&self) -> impl Iterator<Item = &K> {
        self.running.iter()
    }

    /// Withdraws a wake, because the running task has already seen the change that caused the wake.
    pub fn satisfy(&mut self, key: &K) {
        self.waiting.remove(key);
    }

    /// Forgets a key whose object was deleted and needs no further task.
    pub fn forget(&mut self, key: &K) {
        self.waiting.remove(key);
        self.running.remove(key);
        self.failing.remove(key);
    }

    /// Wakes the key after a delay, or earlier if a retry of the key is due earlier.
    pub fn wake_later(&mut self, key: &K, now: Instant) {
        let Some(mut later) = Failing::after(None, Retry::Soon, now) else { return };
        if let Some(known) = self.failing.get(key) {
            later.due = later.due.min(known.due);
        }
        self.failing.insert(key.clone(), later);
    }

    /// Wakes the key at the time `due`, or earlier if a retry of the key is due earlier.
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

    /// Records the end of a key's task. Unless `retry` is [`Retry::OnChange`], the queue hands the key out
    /// again after a delay.
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

    /// Returns the time at which to call [`Self::start`] unless a wake arrives before; `None` if no timer is needed.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        // A key needs no timer if it has a task, or if it already waits for a task.
        let idle = |key: &K| !self.running.contains(key) && !self.waiting.contains(key);
        let failing = self.failing.iter().filter(|(key, _)| idle(key));
        failing.map(|(_, failing)| failing.due).min()
    }
}

#[cfg(test)]
mod tests;
