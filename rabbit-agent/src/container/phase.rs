//! How far the containers of an object are: what both the plan and the report go by.

use api::{
    MicroTime,
    node_containers::{NodeContainersLog, NodeContainersState},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{
    desired::Desired,
    observed::{Attempt, Observed, State},
};

/// Seconds before the second attempt. They double with each that follows, as those of a Job do.
const FIRST_DELAY: i64 = 10;
/// And are at most so many.
const LONGEST_DELAY: i64 = 360;

/// What earlier passes wrote into the status, and the next go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When the containers were taken up.
    pub start: Timestamp,
    /// The last attempt that was seen.
    pub attempt: i64,
    /// Whether they took longer than they may.
    pub is_late: bool,
    /// How they ended, once they have.
    pub end: Option<NodeContainersState>,
    /// When they did.
    pub end_time: Option<Timestamp>,
    /// The moment of a question for logs that nobody answered yet.
    pub asked: Option<MicroTime>,
    /// The moment of the last question that was answered.
    pub answered: Option<MicroTime>,
    /// The logs that were told.
    pub logs: Vec<NodeContainersLog>,
}

/// How far they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nothing may run any more, and this is how they ended.
    Over(NodeContainersState),
    /// They take longer than they may: that is to be written down before anything is ended.
    Late,
    /// An attempt goes on.
    Attempt(i64),
    /// The next attempt is to begin, not before that moment.
    Next(i64, Option<Timestamp>),
}

/// How an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    Goes,
    /// All of its containers ended well.
    Succeeded,
    /// One did not; when it is known, at that moment.
    Failed(Option<Timestamp>),
}

/// How far they are at this moment.
#[must_use]
pub fn phase(desired: &Desired, observed: &Observed, record: &Record, now: Timestamp) -> Phase {
    if let Some(end) = &record.end {
        return Phase::Over(end.clone());
    }
    if record.is_late {
        return Phase::Over(NodeContainersState::TooLate);
    }
    if desired.spec.suspend {
        return Phase::Over(NodeContainersState::Suspended);
    }
    let phase = untimed(desired, observed, record);
    let is_over = matches!(phase, Phase::Over(_));
    if !is_over && due(desired, record).is_some_and(|due| due <= now) {
        return Phase::Late;
    }
    phase
}

/// When they will have taken too long.
pub(super) fn due(desired: &Desired, record: &Record) -> Option<Timestamp> {
    let seconds = desired.spec.active_deadline_seconds?;
    record.start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn untimed(desired: &Desired, observed: &Observed, record: &Record) -> Phase {
    let latest = observed.attempts.last_key_value();
    let Some((number, attempt)) = latest.filter(|(number, _)| **number >= record.attempt) else {
        // Somebody removed the last attempt, or there was none.
        return if record.attempt == 0 {
            Phase::Next(1, None)
        } else {
            failed(desired, record.attempt, None)
        };
    };
    match verdict(desired, attempt) {
        Verdict::Goes => Phase::Attempt(*number),
        Verdict::Succeeded => Phase::Over(NodeContainersState::Succeeded),
        Verdict::Failed(at) => failed(desired, *number, at),
    }
}

fn failed(desired: &Desired, number: i64, at: Option<Timestamp>) -> Phase {
    if number >= desired.attempts() {
        return Phase::Over(NodeContainersState::Failed);
    }
    let doublings = u32::try_from(number - 1).unwrap_or(u32::MAX);
    let delay = FIRST_DELAY.saturating_mul(2_i64.saturating_pow(doublings)).min(LONGEST_DELAY);
    let begins = at.and_then(|at| at.checked_add(SignedDuration::from_secs(delay)).ok());
    Phase::Next(number + 1, begins)
}

/// How an attempt is. It fails at once if an init container failed; otherwise it ends when all main containers have ended.
pub(super) fn verdict(desired: &Desired, attempt: &Attempt) -> Verdict {
    let state = |name: &str| attempt.containers.get(name).map(|one| one.state);
    if attempt.containers.values().any(|one| one.state == State::Lost) {
        return Verdict::Failed(None);
    }
    for first in &desired.spec.init_containers {
        match state(&first.name) {
            Some(State::Ended { code: 0, .. }) => {}
            Some(State::Ended { at, .. }) => return Verdict::Failed(Some(at)),
            _ => return Verdict::Goes,
        }
    }
    let (mut has_failed, mut last) = (false, None);
    for main in &desired.spec.containers {
        let Some(State::Ended { code, at, .. }) = state(&main.name) else { return Verdict::Goes };
        has_failed |= code != 0;
        last = last.max(Some(at));
    }
    if has_failed { Verdict::Failed(last) } else { Verdict::Succeeded }
}

/// Whether an attempt's containers all run, or ended well.
pub(super) fn is_ready(desired: &Desired, attempt: &Attempt) -> bool {
    desired.spec.containers.iter().all(|main| {
        attempt
            .containers
            .get(&main.name)
            .is_some_and(|one| matches!(one.state, State::Running | State::Ended { code: 0, .. }))
    })
}
