//! Which objects are to be worked on, and when. Pure: time comes in as an argument.
//!
//! One object is worked on by one worker at a time; a change that comes meanwhile is taken up when that one is back. A
//! timer exists only while something fails.

use std::{collections::BTreeMap, time::Instant};

use crate::error::Retry;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Ready,
    Running { again: bool },
    Waiting { until: Instant },
}

#[derive(Debug)]
struct Item {
    state: State,
    attempt: u32,
}

/// Work of one node, by the uid of the object.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: BTreeMap<String, Item>,
}

/// Whether what a worker brings back is still what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing changed meanwhile.
    Current,
    /// Something did: the object is worked on again.
    Superseded,
}

impl Queue {
    /// The object changed, or what it depends on did: work on it now, and count its failures anew.
    pub(crate) fn wake(&mut self, uid: &str) {
        let item =
            self.items.entry(uid.to_owned()).or_insert(Item { state: State::Idle, attempt: 0 });
        item.attempt = 0;
        item.state = match item.state {
            State::Running { .. } => State::Running { again: true },
            State::Idle | State::Ready | State::Waiting { .. } => State::Ready,
        };
    }

    /// The objects to be worked on now; each counts as running until [`Self::finished`]. What may not begin yet stays ready.
    pub(crate) fn take(&mut self, now: Instant, may_begin: impl Fn(&str) -> bool) -> Vec<String> {
        let due = self.items.iter_mut().filter(|(_, item)| match item.state {
            State::Ready => true,
            State::Waiting { until } => until <= now,
            State::Idle | State::Running { .. } => false,
        });
        let mut taken = Vec::new();
        for (uid, item) in due {
            item.state = State::Ready;
            if may_begin(uid) {
                item.state = State::Running { again: false };
                taken.push(uid.clone());
            }
        }
        taken
    }

    /// A worker is back; `retry` when it failed and it makes sense to try again.
    pub(crate) fn finished(
        &mut self,
        uid: &str,
        retry: Option<Retry>,
        now: Instant,
        jitter: f64,
    ) -> Standing {
        let Some(item) = self.items.get_mut(uid) else { return Standing::Superseded };
        if item.state == (State::Running { again: true }) {
            item.state = State::Ready;
            return Standing::Superseded;
        }
        item.state = match retry.and_then(|retry| retry.delay(item.attempt, jitter)) {
            Some(delay) => State::Waiting { until: now + delay },
            None => State::Idle,
        };
        item.attempt = item.attempt.saturating_add(1);
        Standing::Current
    }

    /// The objects that are being worked on.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        let running = self.items.iter().filter(|(_, it)| matches!(it.state, State::Running { .. }));
        running.map(|(uid, _)| uid.as_str())
    }

    /// The object is no more and nothing is left to do for it.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.items.remove(uid);
    }

    /// When the next failed object is due; `None` when nothing waits for time to pass.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let times = self.items.values().filter_map(|item| match item.state {
            State::Waiting { until } => Some(until),
            State::Idle | State::Ready | State::Running { .. } => None,
        });
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn any(_: &str) -> bool {
        true
    }

    #[test]
    fn what_may_not_begin_stays_ready_without_a_timer() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.wake("a");
        queue.take(now, any);
        queue.finished("a", Some(Retry::Soon), now, 0.5);
        let due = queue.next_due().unwrap();
        assert!(queue.take(due, |_| false).is_empty());
        assert_eq!(queue.next_due(), None, "time alone does not let it begin");
        assert_eq!(queue.take(due, any), ["a"]);
    }

    #[test]
    fn at_rest_nothing_waits_for_time() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.wake("a");
        assert_eq!(queue.take(now, any), ["a"]);
        assert_eq!(queue.finished("a", None, now, 0.5), Standing::Current);
        assert_eq!((queue.next_due(), queue.take(now, any)), (None, Vec::new()));
    }

    #[test]
    fn one_worker_per_object_and_the_newest_desire_wins() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.wake("a");
        queue.take(now, any);
        queue.wake("a");
        queue.wake("a");
        assert!(queue.take(now, any).is_empty(), "its worker is not back");
        assert_eq!(queue.finished("a", Some(Retry::Later), now, 0.5), Standing::Superseded);
        assert_eq!(queue.take(now, any), ["a"], "once for both changes");
        assert_eq!(queue.finished("a", None, now, 0.5), Standing::Current);
        assert!(queue.take(now, any).is_empty());
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_change_starts_over() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.wake("a");
        for seconds in [1, 2, 4] {
            queue.take(now + Duration::from_secs(100), any);
            queue.finished("a", Some(Retry::Soon), now, 0.5);
            assert_eq!(queue.next_due(), Some(now + Duration::from_secs(seconds)));
            assert!(queue.take(now, any).is_empty());
        }
        queue.wake("a");
        assert_eq!(queue.take(now, any), ["a"], "a change does not wait");
        queue.finished("a", Some(Retry::Soon), now, 0.5);
        assert_eq!(queue.next_due(), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn what_only_a_change_can_mend_is_not_tried_again() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.wake("a");
        queue.take(now, any);
        queue.finished("a", Some(Retry::OnChange), now, 0.5);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn a_forgotten_object_comes_back_superseded() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.wake("a");
        queue.take(now, any);
        queue.forget("a");
        assert_eq!(queue.finished("a", Some(Retry::Soon), now, 0.5), Standing::Superseded);
        assert!(queue.take(now, any).is_empty());
    }
}
