//! Decides when an agent cleans up, that is, removes the mounts that no object asks for. A clean-up is due after the
//! first complete list of objects, after the deletion of an object that may have had more mounts than it named, and
//! after a clean-up that failed. This module does no I/O.

use std::time::Instant;

use apiclient::Delays;
use controller::Retry;

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// The agent has not received the first list of objects completely.
    #[default]
    NotSynced,
    Due,
    Running,
    /// The clean-up failed, and is due again at this time.
    Waiting(Instant),
    /// Some object cannot be read; the clean-up is due again when any object changes.
    Postponed,
    Done,
}

/// The next clean-up, and the reason why the last one failed.
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

    /// Makes a postponed clean-up due, because an object has changed: the unreadable object may be readable now.
    pub fn end_postponement(&mut self) {
        if self.state == State::Postponed {
            self.state = State::Due;
        }
    }

    /// Makes a clean-up due again, after the deletion of an object that may have had more mounts than it named.
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

    /// Postpones the clean-up, because an object cannot be read: the agent does not know which mounts this object asks
    /// for, and could remove them. Returns whether the reason differs from the last reason.
    pub fn postpone(&mut self, why: &str) -> bool {
        self.state = State::Postponed;
        self.failure.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Records success: no unwanted mount is left.
    pub fn record_success(&mut self) {
        let state = if self.due_again { State::Due } else { State::Done };
        *self = Self { state, ..Self::default() };
    }

    /// Records a failure and the time of the retry. Returns whether the reason differs from the last reason.
    pub fn record_failure(&mut self, why: &str, now: Instant) -> bool {
        self.delays = self.delays.take().or_else(|| Retry::Later.delays());
        let delay = self.delays.as_mut().map(Delays::next_delay);
        self.state = delay.map_or(State::Postponed, |delay| State::Waiting(now + delay));
        self.failure.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Returns the time at which a failed clean-up is due again; `None` if no clean-up waits for a time. An event may
    /// make a clean-up due earlier.
    pub fn next_due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::NotSynced | State::Due | State::Running | State::Postponed | State::Done => None,
        }
    }

    /// Returns the reason why unwanted mounts may remain.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_successful_clean_up_another_one_is_due_only_on_request() {
        let (mut clean_up, now) = (CleanUp::default(), Instant::now());
        assert!(!clean_up.due(now) && !clean_up.has_list());
        clean_up.make_due();
        assert!(clean_up.due(now));
        clean_up.begin();
        assert!(clean_up.running() && !clean_up.due(now));
        clean_up.record_success();
        clean_up.make_due();
        assert!(
            !clean_up.due(now),
            "another complete list, after a reconnect, makes no clean-up due"
        );
        clean_up.request_again();
        assert!(clean_up.due(now));
        clean_up.record_success();
        assert_eq!(clean_up.next_due(), None);
    }

    #[test]
    fn a_request_during_a_clean_up_makes_another_one_due() {
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
    fn a_postponed_clean_up_is_due_when_an_object_changes() {
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
