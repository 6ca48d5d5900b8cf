//! When an agent looks for mounts that no object wants: once after the first complete list, when an object went that did not
//! name all it had, and again while that fails. Pure.

use std::time::Instant;

use controller::{Delays, Retry};

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

/// When to look next, and why the last look failed.
#[derive(Debug, Default)]
pub struct Sweep {
    state: State,
    delays: Option<Delays>,
    failure: Option<String>,
    /// The agent looks once more when the look that runs has ended.
    again: bool,
}

impl Sweep {
    /// Everything that exists has been told.
    pub fn synced(&mut self) {
        if self.state == State::NotSynced {
            self.state = State::Due;
        }
    }

    /// An object changed: what could not be told of it may be told now.
    pub fn changed(&mut self) {
        if self.state == State::PutOff {
            self.state = State::Due;
        }
    }

    /// An object went of which more may be mounted than it named.
    pub fn again(&mut self) {
        match self.state {
            State::Done => self.state = State::Due,
            State::Running => self.again = true,
            State::NotSynced | State::Due | State::Waiting(_) | State::PutOff => {}
        }
    }

    /// Whether everything that exists has been told.
    #[must_use]
    pub fn started(&self) -> bool {
        self.state != State::NotSynced
    }

    /// Whether to look now.
    #[must_use]
    pub fn due(&self, now: Instant) -> bool {
        match self.state {
            State::Due => true,
            State::Waiting(until) => until <= now,
            State::NotSynced | State::Running | State::PutOff | State::Done => false,
        }
    }

    /// Whether somebody looks now.
    #[must_use]
    pub fn running(&self) -> bool {
        self.state == State::Running
    }

    /// Somebody looks.
    pub fn begin(&mut self) {
        (self.state, self.again) = (State::Running, false);
    }

    /// It cannot be told what is wanted; whether that is news.
    pub fn put_off(&mut self, why: &str) -> bool {
        self.state = State::PutOff;
        self.failure.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Nothing unwanted is left.
    pub fn done(&mut self) {
        let state = if self.again { State::Due } else { State::Done };
        *self = Self { state, ..Self::default() };
    }

    /// Whether this failure is another than the one before.
    pub fn failed(&mut self, why: &str, now: Instant) -> bool {
        let delays = self.delays.get_or_insert_with(|| Retry::Later.delays().expect("it has some"));
        let delay = delays.next();
        self.state = delay.map_or(State::PutOff, |delay| State::Waiting(now + delay));
        self.failure.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// When to look again if nothing changes before; `None` at rest.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::NotSynced | State::Due | State::Running | State::PutOff | State::Done => None,
        }
    }

    /// Why unwanted mounts may remain.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
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
    fn what_is_lost_while_somebody_looks_is_looked_for_once_more() {
        let (mut sweep, now) = (Sweep::default(), Instant::now());
        sweep.synced();
        sweep.begin();
        sweep.again();
        sweep.done();
        assert!(sweep.due(now));
        sweep.begin();
        sweep.done();
        assert!(!sweep.due(now));
    }

    #[test]
    fn a_failure_is_retried_and_told_once() {
        let (mut sweep, now) = (Sweep::default(), Instant::now());
        sweep.synced();
        assert!(sweep.failed("busy", now));
        assert!(!sweep.failed("busy", now));
        let due = sweep.next_due().unwrap();
        assert!(due > now && sweep.due(due) && !sweep.due(now));
        sweep.done();
        assert_eq!((sweep.failure(), sweep.next_due()), (None, None));
    }

    #[test]
    fn put_off_until_an_object_changes() {
        let (mut sweep, now) = (Sweep::default(), Instant::now());
        sweep.synced();
        assert!(sweep.put_off("torn"));
        assert!(!sweep.due(now) && sweep.next_due().is_none());
        sweep.changed();
        assert!(sweep.due(now));
        assert!(!sweep.put_off("torn"), "every change would tell it again");
        assert_eq!(sweep.failure(), Some("torn"));
    }
}
