//! Computes the phase of a NodeContainers, from which both the plan and the report follow.

use api::{
    MicroTime,
    node_containers::{NodeContainersLog, NodeContainersState},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{
    desired::Desired,
    observed::{ContainerState, Observed, ObservedAttempt},
};

/// Seconds before the second attempt. The delay doubles before each further attempt, like the back-off
/// of a Kubernetes Job.
const FIRST_DELAY: i64 = 10;
/// Most seconds between two attempts.
const LONGEST_DELAY: i64 = 360;

/// Facts that earlier passes stored in the status for later ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When the agent accepted the object; deadlines count from here.
    pub start: Timestamp,
    /// Highest number of an observed attempt.
    pub attempt: i64,
    /// Whether `activeDeadlineSeconds` have passed.
    pub is_late: bool,
    /// Final state, once reached.
    pub end: Option<NodeContainersState>,
    /// When the final state was reached.
    pub end_time: Option<Timestamp>,
    /// Time of a request for logs that has no answer yet.
    pub asked: Option<MicroTime>,
    /// Time of the last request for logs that was answered.
    pub answered: Option<MicroTime>,
    /// Logs in the status.
    pub logs: Vec<NodeContainersLog>,
}

/// Phase of the containers of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nothing may run any more; the final state.
    Over(NodeContainersState),
    /// The deadline has passed. The status must record this before anything is stopped.
    Late,
    /// The attempt with this number is in progress.
    Attempt(i64),
    /// The attempt with this number is next, not before this time.
    Next(i64, Option<Timestamp>),
}

/// Outcome of an attempt so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    InProgress,
    /// All containers exited with 0.
    Succeeded,
    /// A container failed, at this time if known.
    Failed(Option<Timestamp>),
}

/// Returns the phase at `now`.
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
    let phase = phase_before_deadline(desired, observed, record);
    let is_over = matches!(phase, Phase::Over(_));
    if !is_over && deadline(desired, record).is_some_and(|deadline| deadline <= now) {
        return Phase::Late;
    }
    phase
}

/// Returns when the containers will exceed their deadline, if they have one.
pub(super) fn deadline(desired: &Desired, record: &Record) -> Option<Timestamp> {
    let seconds = desired.spec.active_deadline_seconds?;
    record.start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Returns the phase as if there were no deadline.
fn phase_before_deadline(desired: &Desired, observed: &Observed, record: &Record) -> Phase {
    let latest = observed.attempts.last_key_value();
    let Some((number, attempt)) = latest.filter(|(number, _)| **number >= record.attempt) else {
        // Either there was no attempt yet, or its pod was removed outside Warren.
        return if record.attempt == 0 {
            Phase::Next(1, None)
        } else {
            phase_after_failure(desired, record.attempt, None)
        };
    };
    match verdict(desired, attempt) {
        Verdict::InProgress => Phase::Attempt(*number),
        Verdict::Succeeded => Phase::Over(NodeContainersState::Succeeded),
        Verdict::Failed(at) => phase_after_failure(desired, *number, at),
    }
}

fn phase_after_failure(desired: &Desired, number: i64, at: Option<Timestamp>) -> Phase {
    if number >= desired.attempts() {
        return Phase::Over(NodeContainersState::Failed);
    }
    let doublings = u32::try_from(number - 1).unwrap_or(u32::MAX);
    let delay = FIRST_DELAY.saturating_mul(2_i64.saturating_pow(doublings)).min(LONGEST_DELAY);
    let begins = at.and_then(|at| at.checked_add(SignedDuration::from_secs(delay)).ok());
    Phase::Next(number + 1, begins)
}

/// Returns the outcome of an attempt. It fails at once if an init container fails; otherwise it ends when all
/// main containers have ended.
pub(super) fn verdict(desired: &Desired, attempt: &ObservedAttempt) -> Verdict {
    let state = |name: &str| attempt.containers.get(name).map(|container| container.state);
    if attempt.containers.values().any(|container| container.state == ContainerState::Lost) {
        return Verdict::Failed(None);
    }
    for first in &desired.spec.init_containers {
        match state(&first.name) {
            Some(ContainerState::Ended { code: 0, .. }) => {}
            Some(ContainerState::Ended { at, .. }) => return Verdict::Failed(Some(at)),
            _ => return Verdict::InProgress,
        }
    }
    let (mut has_failed, mut last) = (false, None);
    for main in &desired.spec.containers {
        let Some(ContainerState::Ended { code, at, .. }) = state(&main.name) else {
            return Verdict::InProgress;
        };
        has_failed |= code != 0;
        last = last.max(Some(at));
    }
    if has_failed { Verdict::Failed(last) } else { Verdict::Succeeded }
}

/// Returns whether each main container of an attempt runs or exited with 0.
pub(super) fn is_ready(desired: &Desired, attempt: &ObservedAttempt) -> bool {
    desired.spec.containers.iter().all(|main| {
        attempt.containers.get(&main.name).is_some_and(|container| {
            matches!(
                container.state,
                ContainerState::Running | ContainerState::Ended { code: 0, .. }
            )
        })
    })
}
