//! Computes the phase of a NodeContainers: the plan and the report both depend on it.

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
/// Maximum seconds between two attempts.
const LONGEST_DELAY: i64 = 360;

/// Facts that earlier passes stored in the status for later passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The time when the agent accepted the object; deadlines count from this time.
    pub start: Timestamp,
    /// The highest number of an attempt that was observed.
    pub attempt: i64,
    /// Whether `activeDeadlineSeconds` have passed.
    pub is_late: bool,
    /// The final state, once it is reached.
    pub end: Option<NodeContainersState>,
    /// The time when the final state was reached.
    pub end_time: Option<Timestamp>,
    /// Time of a request for logs that was not answered yet.
    pub requested: Option<MicroTime>,
    /// Time of the last request for logs that was answered.
    pub answered: Option<MicroTime>,
    /// The logs in the status.
    pub logs: Vec<NodeContainersLog>,
}

/// Phase of the containers of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The final state is reached: no container may run any more.
    Over(NodeContainersState),
    /// The deadline has passed. The status must record this before the agent stops any container.
    Late,
    /// The attempt with this number is in progress.
    Attempt(i64),
    /// The attempt with this number is next, and must not start before this time.
    Next(i64, Option<Timestamp>),
}

/// Outcome of an attempt so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    InProgress,
    /// All containers exited with 0.
    Succeeded,
    /// A container failed, at this time; `None` if the time is unknown.
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

/// Returns the end of the containers' deadline; `None` if they have no deadline.
pub(super) fn deadline(desired: &Desired, record: &Record) -> Option<Timestamp> {
    let seconds = desired.spec.active_deadline_seconds?;
    record.start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Returns the phase that holds if there is no deadline.
fn phase_before_deadline(desired: &Desired, observed: &Observed, record: &Record) -> Phase {
    let latest = observed.attempts.last_key_value();
    let Some((number, attempt)) = latest.filter(|(number, _)| **number >= record.attempt) else {
        // Either there was no attempt yet, or another program than Warren removed the attempt's pod.
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

/// Returns the outcome of an attempt. An attempt fails at once if an init container fails; otherwise it ends when all
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
