//! Plans the next step for one movement. Pure.

mod turns;

use std::{fmt, time::Duration};

use movement::{
    order::Task,
    report::{Ended, Outcome},
};
pub use turns::{Waiting, turns};

/// Number of times `datamover` may end without a verdict before the movement has failed.
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
    /// How long ago the agent sent a cancellation; `None` if it has not.
    pub cancelled: Option<Duration>,
    /// How long ago the agent killed the process; `None` if it has not.
    pub killed: Option<Duration>,
}

/// How a copy ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With a verdict: the final report of `datamover`.
    Verdict(Ended),
    /// Without a verdict: the exit status, and the last output.
    Lost(String),
}

/// The state of a movement on this rabbit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MovementState {
    pub process: Option<Process>,
    /// How the last copy ended.
    pub end: Option<End>,
    /// Number of copies that this agent process started and that ended without a verdict.
    pub losses: u32,
    /// Whether a copy was ever started.
    pub has_begun: bool,
    /// Whether the agent has tried to remove temporary files.
    pub is_clean: bool,
}

/// Time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a cancelled copy may take to end before the agent kills it.
    pub grace: Duration,
    /// How long the removal of temporary files may take.
    pub clean: Duration,
}

impl fmt::Display for MovementStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start the copy"),
            Self::Follow => f.write_str("report its progress"),
            Self::Cancel => f.write_str("cancel it"),
            Self::Kill => f.write_str("kill its processes"),
            Self::Wait(time) => write!(f, "wait {} s", time.as_secs_f32()),
            Self::Stuck => f.write_str("report processes that do not end"),
            Self::Clean => f.write_str("remove its temporary files"),
            Self::Finish(_) => f.write_str("report its end"),
            Self::Fail(why) => write!(f, "report its failure: {why}"),
            Self::FinishCancelled => f.write_str("report that it was cancelled"),
            Self::Release => f.write_str("remove its records"),
        }
    }
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MovementStep {
    /// Starts a copy if this movement has its turn.
    Start,
    /// Reports the progress of a running copy.
    Follow,
    /// Sends a cancellation to `datamover`.
    Cancel,
    /// Kills the process group.
    Kill,
    /// Plans again after this time, or earlier when something changes.
    Wait(Duration),
    /// Reports a process that has not ended although the agent killed it.
    Stuck,
    /// Removes temporary files.
    Clean,
    /// Reports the verdict of `datamover`.
    Finish(Ended),
    /// Reports that `datamover` ended without a verdict too often, with the last reason.
    Fail(String),
    /// Reports that the movement was cancelled before it had ended.
    FinishCancelled,
    /// Removes the state directory and the finalizer.
    Release,
}

/// Returns the next step.
#[must_use]
pub fn plan(want: Want, state: &MovementState, limits: Limits) -> MovementStep {
    match (want, &state.process) {
        (Want::Copy, Some(process)) if process.task == Task::Copy => MovementStep::Follow,
        (_, Some(process)) => end_process(process, limits),
        (Want::Copy, None) => copy(state),
        (Want::Cancelled, None) => match &state.end {
            // The copy ended before it received the cancellation.
            Some(End::Verdict(ended)) => MovementStep::Finish(ended.clone()),
            _ if needs_cleaning(state) => MovementStep::Clean,
            _ => MovementStep::FinishCancelled,
        },
        (Want::Gone, None) if needs_cleaning(state) => MovementStep::Clean,
        (Want::Gone, None) => MovementStep::Release,
    }
}

fn copy(state: &MovementState) -> MovementStep {
    match &state.end {
        Some(End::Verdict(ended)) => MovementStep::Finish(ended.clone()),
        Some(End::Lost(why)) if state.losses >= MOST_LOSSES => MovementStep::Fail(why.clone()),
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

/// Whether temporary files may be left. A copy that ends with a verdict other than `Stopped` has removed its own.
fn needs_cleaning(state: &MovementState) -> bool {
    let has_cleaned = |end: &End| matches!(end, End::Verdict(ended) if matches!(ended.outcome, Outcome::Done | Outcome::Cancelled));
    state.has_begun && !state.is_clean && !state.end.as_ref().is_some_and(has_cleaned)
}

#[cfg(test)]
mod tests;
