//! Decides when an agent removes mounts that no object asks for: once after the first complete list, when an object is
//! deleted that did not name all its mounts, and again while that fails. Pure.

use std::time::Instant;

use controller::{Delays, Retry};

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// The first list of objects is not complete.
    #[default]
    NotSynced,
    Due,
    Running,
    /// The clean-up failed, and is due again at this time.
    Waiting(Instant),
    /// An object cannot be read; the clean-up is due again when an object changes.
    Postponed,
    Done,
}

/// The next clean-up, and why the last one failed.
#[derive(Debug, Default)]
pub struct CleanUp {
    state: State,
    delays: Option<Delays>,
    failure: Option<String>,
    /// Whether another clean-up is due as soon as the running one has ended.
    due_again: bool,
}

impl CleanUp {
    /// Makes the clean-up due: the first list of objects is complete.
    pub fn make_due(&mut self) {
        if self.state == State::NotSynced {
            self.state = State::Due;
        }
    }

    /// Ends a postponement: an object that could not be read may be readable now.
    pub fn end_postponement(&mut self) {
        if self.state == State::Postponed {
            self.state = State::Due;
        }
    }

    /// Makes a clean-up due again: an object is deleted that may have had more mounts than it named.
    pub fn request_again(&mut self) {
        match self.state {
            State::Done => self.state = State::Due,
            State::Running => self.due_again = true,
            State::NotSynced | State::Due | State::Waiting(_) | State::Postponed => {}
        }
    }

    /// Returns whether a clean-up has removed every unwanted mount.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns whether the first list of objects is complete.
    pub fn has_list(&self) -> bool {
        self.state != State::NotSynced
    }

    /// Returns whether a clean-up is to start now.
    pub fn due(&self, now: Instant) -> bool {
        match self.state {
            State::Due => true,
            State::Waiting(until) => until <= now,
            State::NotSynced | State::Running | State::Postponed | State::Done => false,
        }
    }

    /// Returns whether a clean-up runs.
    pub fn running(&self) -> bool {
        self.state == State::Running
    }

    /// Records that a clean-up starts.
    pub fn begin(&mut self) {
        (self.state, self.due_again) = (State::Running, false);
    }

    /// Postpones the clean-up: while an object cannot be read, the wanted mounts
    /// are not known. Returns whether the reason is new.
    pub fn postpone(&mut self, why: &str) -> bool {
        self.state = State::Postponed;
        self.failure.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Records success: no unwanted mount is left.
    pub fn record_success(&mut self) {
        let state = if self.due_again { State::Due } else { State::Done };
        *self = Self { state, ..Self::default() };
    }

    /// Records a failure, and when to retry. Returns whether the reason is new.
    pub fn record_failure(&mut self, why: &str, now: Instant) -> bool {
        let delays = self
            .delays
            .get_or_insert_with(|| Retry::Later.delays().expect("a retry later has delays"));
        let delay = delays.next();
        self.state = delay.map_or(State::Postponed, |delay| State::Waiting(now + delay));
        self.failure.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Returns when a clean-up is due if nothing changes before; `None` at rest.
    pub fn next_due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::NotSynced | State::Due | State::Running | State::Postponed | State::Done => None,
        }
    }

    /// Returns why unwanted mounts may remain.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_once_after_the_first_list_when_it_succeeds() {
        let (mut clean_up, now) = (CleanUp::default(), Instant::now());
        assert!(!clean_up.due(now) && !clean_up.has_list());
        clean_up.make_due();
        assert!(clean_up.due(now));
        clean_up.begin();
        assert!(clean_up.running() && !clean_up.due(now));
        clean_up.record_success();
        clean_up.make_due();
        assert!(!clean_up.due(now), "a reconnect does not clean up again");
        clean_up.request_again();
        assert!(clean_up.due(now));
        clean_up.record_success();
        assert_eq!(clean_up.next_due(), None);
    }

    #[test]
    fn a_request_while_it_runs_makes_it_due_again() {
        let (mut clean_up, now) = (CleanUp::default(), Instant::now());
        clean_up.make_due();
        clean_up.begin();
        clean_up.request_again();
        clean_up.record_success();
        assert!(clean_up.due(now));
        clean_up.begin();
        clean_up.record_success();
        assert!(!clean_up.due(now));
    }

    #[test]
    fn a_failure_is_retried_and_logged_once() {
        let (mut clean_up, now) = (CleanUp::default(), Instant::now());
        clean_up.make_due();
        assert!(clean_up.record_failure("busy", now));
        assert!(!clean_up.record_failure("busy", now));
        let due = clean_up.next_due().unwrap();
        assert!(due > now && clean_up.due(due) && !clean_up.due(now));
        clean_up.record_success();
        assert_eq!((clean_up.failure(), clean_up.next_due()), (None, None));
    }

    #[test]
    fn it_is_postponed_until_an_object_changes() {
        let (mut clean_up, now) = (CleanUp::default(), Instant::now());
        clean_up.make_due();
        assert!(clean_up.postpone("torn"));
        assert!(!clean_up.due(now) && clean_up.next_due().is_none());
        clean_up.end_postponement();
        assert!(clean_up.due(now));
        assert!(!clean_up.postpone("torn"), "the same reason is not logged again");
        assert_eq!(clean_up.failure(), Some("torn"));
    }
}
