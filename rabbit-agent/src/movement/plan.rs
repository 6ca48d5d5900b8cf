//! Plans the next step for one movement. Pure.

mod turns;

use std::time::Duration;

use movement::{
    order::Task,
    report::{Ended, Outcome},
};
pub use turns::{Waiting, turns};

/// How often a copier may end without a verdict before the movement has failed.
pub const MOST_LOSSES: u32 = 5;

/// How long a killed process may take to end before it counts as stuck in the kernel.
const REAP: Duration = Duration::from_secs(1);

/// The goal of a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    Copy,
    /// `spec.cancel` is true.
    Cancelled,
    /// The object is being deleted.
    Gone,
}

/// A process of `datamover` that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub task: Task,
    /// How long ago the process started.
    pub age: Duration,
    /// How long ago the agent told it to cancel; `None` before.
    pub cancelled: Option<Duration>,
    /// How long ago the agent killed it; `None` before.
    pub killed: Option<Duration>,
}

/// How a copy ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The copier's last line.
    Verdict(Ended),
    /// It ended without one: its exit status, and what it printed last.
    Lost(String),
}

/// The state of a movement on this rabbit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub process: Option<Process>,
    /// How the last copy ended.
    pub end: Option<End>,
    /// How many copies of this agent ended without a verdict.
    pub losses: u32,
    /// Whether a copy was ever started.
    pub has_begun: bool,
    /// Whether removing temporary files was tried.
    pub is_clean: bool,
}

/// Time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a cancelled copy may take before it is killed.
    pub grace: Duration,
    /// How long removing temporary files may take.
    pub clean: Duration,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MovementStep {
    /// Starts a copy if it is this movement's turn.
    Start,
    /// Reports a copy that runs.
    Follow,
    /// Tells the copier to cancel.
    Cancel,
    /// Kills the process group.
    Kill,
    /// Looks again after this time, if nothing happens before.
    Wait(Duration),
    /// Reports a process that was killed and has not ended.
    Stuck,
    /// Removes temporary files.
    Clean,
    /// Reports the end: the copier's verdict.
    Finish(Ended),
    /// Reports that the copier was lost too often, with the last reason.
    Fail(String),
    /// Reports a movement that was cancelled, and had not ended before.
    FinishCancelled,
    /// Removes the state directory and lets the object go.
    Release,
}

/// Returns the next step.
#[must_use]
pub fn plan(want: Want, seen: &Seen, limits: Limits) -> MovementStep {
    match (want, &seen.process) {
        (Want::Copy, Some(process)) if process.task == Task::Copy => MovementStep::Follow,
        (_, Some(process)) => end_process(process, limits),
        (Want::Copy, None) => copy(seen),
        (Want::Cancelled, None) => match &seen.end {
            // It ended before the cancellation reached it.
            Some(End::Verdict(ended)) => MovementStep::Finish(ended.clone()),
            _ if needs_cleaning(seen) => MovementStep::Clean,
            _ => MovementStep::FinishCancelled,
        },
        (Want::Gone, None) if needs_cleaning(seen) => MovementStep::Clean,
        (Want::Gone, None) => MovementStep::Release,
    }
}

fn copy(seen: &Seen) -> MovementStep {
    match &seen.end {
        Some(End::Verdict(ended)) => MovementStep::Finish(ended.clone()),
        Some(End::Lost(why)) if seen.losses >= MOST_LOSSES => MovementStep::Fail(why.clone()),
        Some(End::Lost(_)) | None => MovementStep::Start,
    }
}

fn end_process(process: &Process, limits: Limits) -> MovementStep {
    let left = |limit: Duration, since: Duration| {
        limit.checked_sub(since).filter(|left| !left.is_zero()).map(MovementStep::Wait)
    };
    if let Some(since) = process.killed {
        return left(REAP, since).unwrap_or(MovementStep::Stuck);
    }
    match (process.task, process.cancelled) {
        (Task::Copy, None) => MovementStep::Cancel,
        (Task::Copy, Some(since)) => left(limits.grace, since).unwrap_or(MovementStep::Kill),
        (Task::Clean, _) => left(limits.clean, process.age).unwrap_or(MovementStep::Kill),
    }
}

/// Whether temporary files may be left: a copy that comes to an end or is cancelled removes its own.
fn needs_cleaning(seen: &Seen) -> bool {
    let has_cleaned = |end: &End| matches!(end, End::Verdict(ended) if matches!(ended.outcome, Outcome::Done | Outcome::Cancelled));
    seen.has_begun && !seen.is_clean && !seen.end.as_ref().is_some_and(has_cleaned)
}

#[cfg(test)]
mod tests;
