//! Writes a workflow's status from the outcomes of its directives. Pure.

mod initial;
mod variables;

use std::collections::BTreeMap;

use api::{
    ErrorType, MicroTime, ResourceError, Severity, WorkflowState, WorkflowStatus,
    workflow::{DriverStatus, WorkflowDriverStatus, WorkflowStatusKind},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp, Unit};

pub use self::initial::{begin_status, begin_workflow};
use self::{initial::start_state, variables::add_storage};
use crate::{change::Change, names::GO_FINALIZER, objects::view::View, progress::Outcome};

/// `driverID` of the entries in `status.drivers` that the engine completes.
const DRIVER: &str = "nnf";

/// Writes a message and TransientCondition into a Workflow with the finalizer of the Go controllers, and completes no
/// state and no driver. A Workflow that is ready in its desired state gets only the message.
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

/// Plans the status of a workflow from its outcomes; `None` when the status has them already. `container_variables`
/// returns the variables by which computes find the containers; they are written only together with the paths.
pub fn report(
    view: &View<'_>,
    state: &WorkflowState,
    outcomes: &[Outcome],
    container_variables: impl FnOnce() -> BTreeMap<String, String>,
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
    // Paths depend on no node: workload managers pass them to the job before any node is chosen.
    let is_done = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done));
    let is_agreed = *state == WorkflowState::Proposal && is_done;
    let with_paths = is_agreed || *state == WorkflowState::PreRun;
    add_storage(view, with_paths.then(container_variables), status);
    finish_state(status, state, (is_done, forced), now);
    Change::patch(before, &after)
}

/// While a state is younger than this, its waits are not written to the status: most of them end soon, and each would
/// cost a write. The time is less than the first delay of [`controller::Retry::Soon`].
const EARLY: SignedDuration = SignedDuration::from_millis(500);

fn is_early(status: &WorkflowStatus, now: Timestamp) -> bool {
    status.desired_state_change.is_some_and(|begun| now.duration_since(begun.0) < EARLY)
}

/// Returns true if the state was begun less than [`EARLY`] ago and is not ready.
pub fn is_new(view: &View<'_>, state: &WorkflowState, now: Timestamp) -> bool {
    view.workflow.status.as_ref().is_some_and(|status| {
        status.state.as_ref() == Some(state) && !status.ready && is_early(status, now)
    })
}

/// Returns true if a directive waits for something that is not in the status yet.
pub fn has_unwritten_wait(
    view: &View<'_>,
    state: &WorkflowState,
    outcomes: &[Outcome],
    now: Timestamp,
) -> bool {
    let waits = |outcome: &Outcome| matches!(outcome, Outcome::Wait(_) | Outcome::Queued(_));
    is_new(view, state, now) && outcomes.iter().any(waits)
}

/// Writes the outcome of one directive into its entry of `status.drivers`.
fn update_share(
    status: &mut WorkflowStatus,
    state: &WorkflowState,
    index: usize,
    outcome: &Outcome,
    is_early: bool,
    now: Timestamp,
) {
    let ours = status.drivers.iter_mut().filter(|entry| {
        entry.driver_id == DRIVER
            && entry.watch_state == *state
            && usize::try_from(entry.dwd_index) == Ok(index)
            && !entry.completed
    });
    for share in ours {
        match outcome {
            Outcome::Done => {
                share.completed = true;
                share.status = DriverStatus::Completed;
                (share.message, share.error) = (String::new(), String::new());
                share.complete_time = Some(micro_time(now));
            }
            // The plan after these changes decides for which reason the directive waits.
            Outcome::Working => {}
            Outcome::Wait(_) | Outcome::Queued(_) if is_early => {}
            Outcome::Wait(why) | Outcome::Queued(why) => {
                share.status = DriverStatus::Running;
                share.message = causes::message(&format!("pending {why}"));
                share.error = String::new();
            }
            Outcome::Failed(error) => {
                share.status = status_of(&error.severity);
                share.message = message_of(error);
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

fn message_of(error: &ResourceError) -> String {
    let text = error.user_message.as_ref().unwrap_or(&error.debug_message);
    let kind = match &error.error_type {
        ErrorType::Other(_) => &ErrorType::Internal,
        known => known,
    };
    causes::message(&format!("{kind} error: {text}"))
}

/// Writes the status of the whole state. The state is ready when all drivers have completed it and the engine has
/// nothing left to do, even if a client marked the engine's entries as completed.
fn finish_state(
    status: &mut WorkflowStatus,
    state: &WorkflowState,
    (is_done, forced): (bool, bool),
    now: Timestamp,
) {
    if status.ready {
        return;
    }
    let shares: Vec<_> =
        status.drivers.iter().filter(|share| share.watch_state == *state).collect();
    let ready = forced || is_done && shares.iter().all(|share| share.completed);
    let (kind, message) = if forced {
        (WorkflowStatusKind::Completed, "Forced Ready".to_owned())
    } else {
        match worst_status(&shares) {
            (WorkflowStatusKind::Completed, message) if !ready => {
                (WorkflowStatusKind::DriverWait, message)
            }
            worst => worst,
        }
    };
    (status.status, status.message) = (Some(kind), message);
    if ready {
        status.ready = true;
        status.ready_change = Some(micro_time(now));
        let begun = status.desired_state_change.map_or(now, |at| at.0);
        status.elapsed_time_last_state =
            go_duration(micro_time(now).0.duration_since(begun).as_micros().max(0));
    }
}

/// Returns the status and message of the worst driver entry.
fn worst_status(shares: &[&WorkflowDriverStatus]) -> (WorkflowStatusKind, String) {
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
    // Among equally bad entries, take the message of the first entry that has a message.
    let mut worst = shares.iter().filter(|share| rank(share) == highest);
    let with_message = worst.find(|share| !share.message.is_empty());
    let message =
        with_message.map(|share| format!("DW Directive {}: {}", share.dwd_index, share.message));
    let kind = match highest {
        4 => WorkflowStatusKind::Error,
        3 => WorkflowStatusKind::TransientCondition,
        2 => WorkflowStatusKind::DriverWait,
        _ => WorkflowStatusKind::Completed,
    };
    (kind, message.unwrap_or_default())
}

/// Returns true if the engine completed a state for a directive.
pub fn is_completed(view: &View<'_>, index: usize, state: &str) -> bool {
    shares(view, index, state).any(|share| share.completed)
}

/// Returns true if the status says that the engine failed in a state of a directive.
pub fn is_failed(view: &View<'_>, index: usize, state: &str) -> bool {
    shares(view, index, state).any(|share| share.status == DriverStatus::Error)
}

/// Returns the engine's entries in `status.drivers` for a state of a directive.
fn shares<'a>(
    view: &'a View<'_>,
    index: usize,
    state: &'a str,
) -> impl Iterator<Item = &'a WorkflowDriverStatus> {
    let shares = view.workflow.status.iter().flat_map(|status| &status.drivers);
    shares.filter(move |share| {
        share.driver_id == DRIVER
            && share.watch_state.as_str() == state
            && usize::try_from(share.dwd_index) == Ok(index)
    })
}

/// Rounds a time to microseconds, as the API stores it.
pub fn micro_time(now: Timestamp) -> MicroTime {
    MicroTime(now.round(Unit::Microsecond).unwrap_or(now))
}

/// Formats a duration as Go does: `10.543ms`, `1m2.5s`.
pub(crate) fn go_duration(micros: i128) -> String {
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
