//! When mounts that no object wants are looked for: once after the first complete list, when an object went that did not
//! name all it had, and again while that fails. Pure.

use std::time::Instant;

use crate::error::Retry;

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// Not everything that exists has been told.
    #[default]
    NotSynced,
    Due,
    Running,
    /// Failed; due again then.
    Waiting(Instant),
    /// An object cannot be read; due again when one changes.
    PutOff,
    Done,
}

#[derive(Debug, Default)]
pub(super) struct Sweep {
    state: State,
    attempt: u32,
    failure: Option<String>,
}

impl Sweep {
    pub(super) fn synced(&mut self) {
        if self.state == State::NotSynced {
            self.state = State::Due;
        }
    }

    pub(super) fn changed(&mut self) {
        if self.state == State::PutOff {
            self.state = State::Due;
        }
    }

    /// An object went of which more may be mounted than it named.
    pub(super) fn again(&mut self) {
        if self.state == State::Done {
            self.state = State::Due;
        }
    }

    pub(super) fn started(&self) -> bool {
        self.state != State::NotSynced
    }

    pub(super) fn due(&self, now: Instant) -> bool {
        match self.state {
            State::Due => true,
            State::Waiting(until) => until <= now,
            State::NotSynced | State::Running | State::PutOff | State::Done => false,
        }
    }

    pub(super) fn running(&self) -> bool {
        self.state == State::Running
    }

    pub(super) fn begin(&mut self) {
        self.state = State::Running;
    }

    pub(super) fn put_off(&mut self) {
        self.state = State::PutOff;
    }

    pub(super) fn done(&mut self) {
        *self = Self { state: State::Done, ..Self::default() };
    }

    /// Whether this failure is another than the one before.
    pub(super) fn failed(&mut self, why: &str, now: Instant, jitter: f64) -> bool {
        let delay = Retry::Later.delay(self.attempt, jitter);
        self.state = delay.map_or(State::PutOff, |delay| State::Waiting(now + delay));
        self.attempt = self.attempt.saturating_add(1);
        self.failure.replace(why.to_owned()).as_deref() != Some(why)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::NotSynced | State::Due | State::Running | State::PutOff | State::Done => None,
        }
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_before_everything_is_known_and_once_when_it_works() {
        let (mut sweep, now) = (Sweep::default(), Instant::now());
        assert!(!sweep.due(now) && !sweep.started());
        sweep.synced();
        assert!(sweep.due(now));
        sweep.begin();
        assert!(sweep.running() && !sweep.due(now));
        sweep.done();
        sweep.synced();
        assert!(!sweep.due(now), "a reconnect does not sweep again");
        sweep.again();
        assert!(sweep.due(now));
        sweep.done();
        assert_eq!(sweep.next_due(), None);
    }

    #[test]
    fn a_failure_is_retried_and_told_once() {
        let (mut sweep, now) = (Sweep::default(), Instant::now());
        sweep.synced();
        assert!(sweep.failed("busy", now, 0.5));
        assert!(!sweep.failed("busy", now, 0.5));
        let due = sweep.next_due().unwrap();
        assert!(due > now && sweep.due(due) && !sweep.due(now));
        sweep.done();
        assert_eq!((sweep.failure(), sweep.next_due()), (None, None));
    }

    #[test]
    fn put_off_until_an_object_changes() {
        let (mut sweep, now) = (Sweep::default(), Instant::now());
        sweep.synced();
        sweep.put_off();
        assert!(!sweep.due(now) && sweep.next_due().is_none());
        sweep.changed();
        assert!(sweep.due(now));
    }
}
