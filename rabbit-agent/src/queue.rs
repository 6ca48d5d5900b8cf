//! Which object is worked on next: each by one task at a time, many objects side by side, failures again later.
//!
//! Pure: the clock comes in as an argument. A wake during work is never lost: the object is worked on once more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Instant,
};

use clientmount_agent::error::{Retry, jitter};

/// Keys that wait, run, or wait after a failure.
#[derive(Debug)]
pub struct Queue<K> {
    limit: usize,
    waiting: BTreeSet<K>,
    running: BTreeSet<K>,
    failing: BTreeMap<K, Failing>,
}

#[derive(Debug)]
struct Failing {
    failures: u32,
    due: Instant,
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

    /// Like `wake`, but in a while.
    pub fn wake_later(&mut self, key: &K, now: Instant) {
        let Some(delay) = Retry::Soon.delay(0, jitter()) else { return };
        let failing =
            self.failing.entry(key.clone()).or_insert(Failing { failures: 0, due: now + delay });
        failing.due = failing.due.min(now + delay);
    }

    /// Hands out what may start now; what may not begin waits on. All for which `may_begin` is true start.
    pub fn start(&mut self, now: Instant, may_begin: impl FnMut(&K) -> bool) -> Vec<K> {
        let due: Vec<K> = self
            .failing
            .iter()
            .filter(|(key, it)| it.due <= now && !self.running.contains(key))
            .map(|(key, _)| key.clone())
            .collect();
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
    pub fn finished(&mut self, key: &K, retry: Retry, now: Instant) {
        self.running.remove(key);
        let failures = self.failing.get(key).map_or(0, |it| it.failures.saturating_add(1));
        match retry.delay(failures, jitter()) {
            None => {
                self.failing.remove(key);
            }
            Some(delay) => {
                self.failing.insert(key.clone(), Failing { failures, due: now + delay });
            }
        }
    }

    /// When to look again if nothing happens before; `None` at rest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.failing
            .iter()
            // What waits already waits for something else than time.
            .filter(|(key, _)| !self.running.contains(key) && !self.waiting.contains(key))
            .map(|(_, it)| it.due)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn any(_: &&str) -> bool {
        true
    }

    #[test]
    fn what_may_not_begin_waits_without_a_timer() {
        let now = Instant::now();
        let mut queue = Queue::new(8);
        queue.wake("a");
        queue.start(now, any);
        queue.finished(&"a", Retry::Soon, now);
        queue.wake("b");
        let later = now + second(2);
        assert_eq!(queue.start(later, |key| *key == "b"), ["b"]);
        assert_eq!(queue.deadline(), None, "time alone does not let it begin");
        assert_eq!(queue.start(later, any), ["a"]);
    }

    #[test]
    fn a_wake_during_work_is_worked_on_once_more() {
        let now = Instant::now();
        let mut queue = Queue::new(8);
        queue.wake("a");
        assert_eq!(queue.start(now, any), ["a"]);
        queue.wake("a");
        assert!(queue.start(now, any).is_empty(), "one task per key");
        assert!(queue.is_running(&"a"));
        queue.finished(&"a", Retry::OnChange, now);
        assert!(!queue.is_running(&"a"));
        assert_eq!(queue.start(now, any), ["a"]);
        queue.finished(&"a", Retry::OnChange, now);
        assert!(queue.start(now, any).is_empty());
        assert_eq!(queue.deadline(), None, "at rest there is no timer");
    }

    #[test]
    fn a_wake_for_what_was_just_done_is_over_with_it() {
        let now = Instant::now();
        let mut queue = Queue::new(8);
        queue.wake("a");
        queue.start(now, any);
        queue.wake("a");
        queue.satisfy(&"a");
        queue.finished(&"a", Retry::Soon, now);
        assert!(queue.start(now, any).is_empty());
        assert_eq!(
            queue.start(now + second(2), any),
            ["a"],
            "what failed is tried again all the same"
        );
    }

    #[test]
    fn no_more_than_the_limit_run_side_by_side() {
        let now = Instant::now();
        let mut queue = Queue::new(2);
        for key in ["a", "b", "c"] {
            queue.wake(key);
        }
        assert_eq!(queue.start(now, any), ["a", "b"]);
        queue.finished(&"a", Retry::OnChange, now);
        assert_eq!(queue.start(now, any), ["c"]);
    }

    #[test]
    fn of_one_kind_no_more_start_than_may_begin() {
        let now = Instant::now();
        let mut queue = Queue::new(8);
        for key in ["big-1", "big-2", "big-3", "small"] {
            queue.wake(key);
        }
        let mut big = 0;
        let started = queue.start(now, |key| {
            big += usize::from(key.starts_with("big"));
            !key.starts_with("big") || big <= 2
        });
        assert_eq!(started, ["big-1", "big-2", "small"]);
        queue.finished(&"big-1", Retry::OnChange, now);
        assert_eq!(queue.start(now, any), ["big-3"]);
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_success_forgets_them() {
        let now = Instant::now();
        let mut queue = Queue::new(2);
        queue.wake("a");
        queue.start(now, any);
        queue.finished(&"a", Retry::Soon, now);
        assert!(queue.start(now, any).is_empty());
        assert_eq!(queue.start(now + second(2), any), ["a"], "the first delay is 0.75 to 1.25 s");
        queue.finished(&"a", Retry::Soon, now);
        assert!(queue.start(now + second(1), any).is_empty(), "the second delay is 1.5 to 2.5 s");
        assert_eq!(queue.start(now + second(3), any), ["a"]);
        queue.finished(&"a", Retry::OnChange, now);
        assert_eq!(queue.deadline(), None);
    }

    #[test]
    fn what_is_woken_for_later_starts_once_and_then_rests() {
        let now = Instant::now();
        let mut queue = Queue::new(2);
        queue.wake_later(&"a", now);
        assert!(queue.start(now, any).is_empty() && queue.deadline().is_some());
        assert_eq!(queue.start(now + second(2), any), ["a"]);
        queue.finished(&"a", Retry::OnChange, now);
        assert_eq!(queue.deadline(), None);
    }

    #[test]
    fn a_change_ends_a_delay() {
        let now = Instant::now();
        let mut queue = Queue::new(2);
        queue.wake("a");
        queue.start(now, any);
        queue.finished(&"a", Retry::Later, now);
        queue.wake("a");
        assert_eq!(queue.start(now, any), ["a"]);
    }
}
