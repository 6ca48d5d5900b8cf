//! What a workflow's status says, from the outcomes of its directives. Pure.

mod initial;
mod variables;

use api::{
    ErrorType, MicroTime, ResourceError, Severity, WorkflowState, WorkflowStatus,
    workflow::{DriverStatus, WorkflowDriverStatus, WorkflowStatusKind},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp, Unit};

pub use self::initial::{begin, begin_status};
use self::{initial::start_state, variables::add_storage};
use crate::{change::Change, names::GO_FINALIZER, progress::Outcome, view::View};

/// The driver whose share is ours.
const DRIVER: &str = "nnf";

/// Writes only a message and TransientCondition into a Workflow that carries the Go finalizer; no state or driver is completed. One
/// that is ready in its desired state gets the message alone.
pub fn mark_go_owned(view: &View<'_>) -> Option<Change> {
    let before = &*view.workflow;
    let mut after = before.clone();
    let status = after.status.get_or_insert_default();
    let is_there = status.ready && status.state.as_ref() == Some(&view.state());
    if !is_there {
        status.status = Some(WorkflowStatusKind::TransientCondition);
    }
    status.message = format!(
        "begun by the Go controllers (finalizer {GO_FINALIZER}): Warren does nothing for it; let those controllers end it (docs/operate/switching-from-go.md)"
    );
    Change::patch(before, &after)
}

/// Writes to the status how far a workflow is; nothing when the status says so already.
pub fn report(
    view: &View<'_>,
    state: &WorkflowState,
    outcomes: &[Outcome],
    now: Timestamp,
) -> Option<Change> {
    let before = &*view.workflow;
    let mut after = before.clone();
    let is_new = before.status.as_ref().and_then(|status| status.state.as_ref()) != Some(state);
    if is_new {
        start_state(&mut after, state, now);
    }
    let forced = before.spec.force_ready && !is_new;
    let status = after.status.get_or_insert_default();
    let is_early = is_early(status, now);
    // Write drivers[] only after status.state: admission refuses both in one write.
    if !is_new && !status.ready {
        for (index, outcome) in outcomes.iter().enumerate() {
            update_share(status, state, index, outcome, is_early, now);
        }
    }
    // Paths depend on no node: a workload manager tells them to its job before the job has any.
    let is_done = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done));
    let is_agreed = *state == WorkflowState::Proposal && is_done;
    add_storage(view, is_agreed || *state == WorkflowState::PreRun, status);
    finish_state(status, state, (is_done, forced), now);
    Change::patch(before, &after)
}

/// Waits shorter than this are not written: most are over by then, and each would cost a write. Shorter than the first of
/// [`controller::Retry::Soon`].
const EARLY: SignedDuration = SignedDuration::from_millis(500);

fn is_early(status: &WorkflowStatus, now: Timestamp) -> bool {
    status.desired_state_change.is_some_and(|begun| now.duration_since(begun.0) < EARLY)
}

/// Whether a state was begun only just, and not reached.
pub fn is_new(view: &View<'_>, state: &WorkflowState, now: Timestamp) -> bool {
    view.workflow.status.as_ref().is_some_and(|status| {
        status.state.as_ref() == Some(state) && !status.ready && is_early(status, now)
    })
}

/// Whether a directive waits for something that is not written to the status yet.
pub fn has_unwritten_wait(
    view: &View<'_>,
    state: &WorkflowState,
    outcomes: &[Outcome],
    now: Timestamp,
) -> bool {
    let waits = |outcome: &Outcome| matches!(outcome, Outcome::Wait(_) | Outcome::Queued(_));
    is_new(view, state, now) && outcomes.iter().any(waits)
}

/// One directive's share.
fn update_share(
    status: &mut WorkflowStatus,
    state: &WorkflowState,
    index: usize,
    outcome: &Outcome,
    is_early: bool,
    now: Timestamp,
) {
    let ours = status.drivers.iter_mut().filter(|one| {
        one.driver_id == DRIVER
            && one.watch_state == *state
            && usize::try_from(one.dwd_index) == Ok(index)
            && !one.completed
    });
    for share in ours {
        match outcome {
            Outcome::Done => {
                share.completed = true;
                share.status = DriverStatus::Completed;
                (share.message, share.error) = (String::new(), String::new());
                share.complete_time = Some(micro(now));
            }
            // The next plan, after these changes, says what the directive waits for.
            Outcome::Working => {}
            Outcome::Wait(_) | Outcome::Queued(_) if is_early => {}
            Outcome::Wait(why) | Outcome::Queued(why) => {
                share.status = DriverStatus::Running;
                share.message = causes::message(&format!("pending {why}"));
                share.error = String::new();
            }
            Outcome::Failed(error) => {
                share.status = status_of(&error.severity);
                share.message = message(error);
                share.error = causes::message(&error.debug_message);
            }
        }
    }
}

fn status_of(severity: &Severity) -> DriverStatus {
    match severity {
        Severity::Fatal => DriverStatus::Error,
        Severity::Major => DriverStatus::TransientCondition,
        Severity::Minor | Severity::Other(_) => DriverStatus::Running,
    }
}

fn message(error: &ResourceError) -> String {
    let text = error.user_message.as_ref().unwrap_or(&error.debug_message);
    let kind = match &error.error_type {
        ErrorType::Other(_) => &ErrorType::Internal,
        known => known,
    };
    causes::message(&format!("{kind} error: {text}"))
}

/// The state as a whole: reached when all drivers completed their shares of it, and ours has nothing left to do, whatever a client
/// wrote into the shares.
fn finish_state(
    status: &mut WorkflowStatus,
    state: &WorkflowState,
    (is_done, forced): (bool, bool),
    now: Timestamp,
) {
    if status.ready {
        return;
    }
    let shares: Vec<_> = status.drivers.iter().filter(|one| one.watch_state == *state).collect();
    let ready = forced || is_done && shares.iter().all(|one| one.completed);
    let (kind, message) = if forced {
        (WorkflowStatusKind::Completed, "Forced Ready".to_owned())
    } else {
        match overall(&shares) {
            (WorkflowStatusKind::Completed, message) if !ready => {
                (WorkflowStatusKind::DriverWait, message)
            }
            told => told,
        }
    };
    (status.status, status.message) = (Some(kind), message);
    if ready {
        status.ready = true;
        status.ready_change = Some(micro(now));
        let begun = status.desired_state_change.map_or(now, |at| at.0);
        status.elapsed_time_last_state =
            go_duration(micro(now).0.duration_since(begun).as_micros().max(0));
    }
}

/// The worst share, and what it says.
fn overall(shares: &[&WorkflowDriverStatus]) -> (WorkflowStatusKind, String) {
    let rank = |share: &WorkflowDriverStatus| match share.status {
        DriverStatus::Error => 4,
        DriverStatus::TransientCondition => 3,
        DriverStatus::Completed => 1,
        DriverStatus::Pending
        | DriverStatus::Queued
        | DriverStatus::Running
        | DriverStatus::DriverWait
        | DriverStatus::Other(_) => 2,
    };
    let highest = shares.iter().map(|share| rank(share)).max().unwrap_or(1);
    // Of equals the one that says something.
    let of = shares.iter().filter(|share| rank(share) == highest);
    let speaking = of.clone().find(|share| !share.message.is_empty());
    let message =
        speaking.map(|share| format!("DW Directive {}: {}", share.dwd_index, share.message));
    let kind = match highest {
        4 => WorkflowStatusKind::Error,
        3 => WorkflowStatusKind::TransientCondition,
        2 => WorkflowStatusKind::DriverWait,
        _ => WorkflowStatusKind::Completed,
    };
    (kind, message.unwrap_or_default())
}

/// Whether our share of a state is done for a directive.
pub fn is_completed(view: &View<'_>, index: usize, state: &str) -> bool {
    shares(view, index, state).any(|one| one.completed)
}

/// Whether the status says that our share of a state failed for a directive.
pub fn is_failed(view: &View<'_>, index: usize, state: &str) -> bool {
    shares(view, index, state).any(|one| one.status == DriverStatus::Error)
}

/// Our shares of a state for a directive.
fn shares<'a>(
    view: &'a View<'_>,
    index: usize,
    state: &'a str,
) -> impl Iterator<Item = &'a WorkflowDriverStatus> {
    let shares = view.workflow.status.iter().flat_map(|status| &status.drivers);
    shares.filter(move |one| {
        one.driver_id == DRIVER
            && one.watch_state.as_str() == state
            && usize::try_from(one.dwd_index) == Ok(index)
    })
}

/// A time as the API stores it, in microseconds.
pub fn micro(now: Timestamp) -> MicroTime {
    MicroTime(now.round(Unit::Microsecond).unwrap_or(now))
}

/// A duration as Go writes it: `10.543ms`, `1m2.5s`.
fn go_duration(micros: i128) -> String {
    let fraction = |whole: i128, part: i128, digits: usize| {
        let part = format!("{part:0digits$}");
        let part = part.trim_end_matches('0');
        if part.is_empty() { whole.to_string() } else { format!("{whole}.{part}") }
    };
    match micros {
        0 => "0s".to_owned(),
        1..1_000 => format!("{micros}µs"),
        1_000..1_000_000 => format!("{}ms", fraction(micros / 1_000, micros % 1_000, 3)),
        _ => {
            let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
            let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
            let rest = format!("{}s", fraction(seconds % 60, part, 6));
            match (hours, minutes) {
                (0, 0) => rest,
                (0, minutes) => format!("{minutes}m{rest}"),
                (hours, minutes) => format!("{hours}h{minutes}m{rest}"),
            }
        }
    }
}
