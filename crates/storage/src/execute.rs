//! Applies steps: in order, or in parallel on several drives, up to a failure or past it.

use std::{
    collections::BTreeSet,
    panic::resume_unwind,
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

use log::{Level, log};
use thiserror::Error;

use crate::{
    Host, Step,
    desired::Nqn,
    host::{RoomRefused, StepError},
};

#[cfg(test)]
mod tests;

/// A step that failed; the steps before it stay done.
#[derive(Debug, Error)]
#[error("{}", description(.step, .source))]
pub struct ExecuteError {
    pub step: Box<Step>,
    #[source]
    pub source: StepError,
}

impl ExecuteError {
    /// Returns the drive's refusal, when the step failed because a drive has too little room.
    pub(crate) fn room_refused(&self) -> Option<&RoomRefused> {
        let first = match &self.source {
            StepError::Several { first, .. } => first,
            other => other,
        };
        match first {
            StepError::NoRoom(refused) => Some(refused),
            _ => None,
        }
    }
}

fn description(step: &Step, source: &StepError) -> String {
    match source {
        StepError::Command(_) => step.briefly(),
        _ => step.to_string(),
    }
}

/// Applies `steps` in order and adds the applied steps to `done`. Consecutive steps of the same kind that each change
/// only one drive ([`Step::drive`]) run in parallel; the steps of one drive run in order.
///
/// # Errors
/// The first step that fails, together with the failures of steps that ran in parallel; `done` then
/// holds all applied steps.
pub fn execute(
    host: &dyn Host,
    steps: Vec<Step>,
    done: &mut Vec<Step>,
) -> Result<(), ExecuteError> {
    runs(steps).into_iter().try_for_each(|run| combine(apply_per_drive(host, run, done)))
}

/// Applies `steps` like [`execute`], but skips after a failure only the later steps on the same drive: a drive that
/// cannot erase a namespace must not keep the bytes of the other drives.
///
/// # Errors
/// As [`execute_each`].
pub fn execute_per_drive(
    host: &dyn Host,
    steps: Vec<Step>,
    done: &mut Vec<Step>,
) -> Result<(), ExecuteError> {
    let (mut given_up, mut failures) = (BTreeSet::new(), Vec::new());
    for run in runs(steps) {
        let is_possible = |step: &Step| step.drive().is_none_or(|drive| !given_up.contains(drive));
        let run = run.into_iter().filter(is_possible).collect();
        let failed = apply_per_drive(host, run, done);
        given_up.extend(failed.iter().filter_map(|failure| failure.step.drive().cloned()));
        failures.extend(failed);
    }
    combine(failures)
}

/// Splits steps into runs of consecutive steps that may run in parallel.
fn runs(steps: Vec<Step>) -> Vec<Vec<Step>> {
    let mut runs: Vec<Vec<Step>> = Vec::new();
    for step in steps {
        match runs.last_mut() {
            Some(run) if are_alike(&run[0], &step) => run.push(step),
            _ => runs.push(vec![step]),
        }
    }
    runs
}

/// Applies steps that make drives ready: the drives in parallel, the steps of one drive in order up to the first
/// failure, whatever their kinds. Returns the failures.
pub(crate) fn prepare_each(
    host: &dyn Host,
    steps: Vec<Step>,
    done: &mut Vec<Step>,
) -> Vec<ExecuteError> {
    apply_per_drive(host, steps, done)
}

fn are_alike(step: &Step, other: &Step) -> bool {
    step.drive().is_some() && other.drive().is_some() && step.kind() == other.kind()
}

/// Applies steps of one kind on several drives. Each drive has a thread, which applies the drive's steps in order and
/// ends at the first failure.
fn apply_per_drive(host: &dyn Host, steps: Vec<Step>, done: &mut Vec<Step>) -> Vec<ExecuteError> {
    let mut drives: Vec<(Option<Nqn>, Vec<Step>)> = Vec::new();
    for step in steps {
        let drive = step.drive().cloned();
        match drives.iter_mut().find(|(known, _)| *known == drive) {
            Some((_, of_drive)) => of_drive.push(step),
            None => drives.push((drive, vec![step])),
        }
    }
    if let [(_, only)] = &mut drives[..] {
        let failed = in_order(host, std::mem::take(only), done).err();
        return failed.into_iter().collect();
    }
    let outcomes: Vec<_> = thread::scope(|scope| {
        let work = |(_, steps)| {
            scope.spawn(move || {
                let mut done = Vec::new();
                let outcome = in_order(host, steps, &mut done);
                (done, outcome)
            })
        };
        let working: Vec<_> = drives.into_iter().map(work).collect();
        let end = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        working.into_iter().map(end).collect()
    });
    let mut failures = Vec::new();
    for (applied, outcome) in outcomes {
        done.extend(applied);
        failures.extend(outcome.err());
    }
    failures
}

fn in_order(host: &dyn Host, steps: Vec<Step>, done: &mut Vec<Step>) -> Result<(), ExecuteError> {
    steps.into_iter().try_for_each(|step| apply(host, step, done))
}

/// Applies `steps` in order. When a step fails, skips only the later steps that change the same object ([`Step::on`]).
///
/// # Errors
/// The first failure, with the other failures as [`StepError::Several`]; `done` then holds all applied steps.
pub fn execute_each(
    host: &dyn Host,
    steps: Vec<Step>,
    done: &mut Vec<Step>,
) -> Result<(), ExecuteError> {
    let mut given_up = BTreeSet::new();
    let mut failures = Vec::new();
    for step in steps {
        let changed_object = step.on().to_string();
        if given_up.contains(&changed_object) {
            continue;
        }
        if let Err(failure) = apply(host, step, done) {
            given_up.insert(changed_object);
            failures.push(failure);
        }
    }
    combine(failures)
}

/// Combines failures into one error. As its first failure, the error gets one that is neither [`StepError::NoRoom`] nor
/// [`StepError::Changed`]; if there is none, one that is `NoRoom`; and only if all failures are `Changed`, one that is
/// `Changed`. The converger observes again only in the last case, because `Changed` means that another unit changed the
/// node first.
fn combine(mut failures: Vec<ExecuteError>) -> Result<(), ExecuteError> {
    failures.sort_by_key(|failure| match failure.source {
        StepError::Changed(_) => 2,
        StepError::NoRoom(_) => 1,
        _ => 0,
    });
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else { return Ok(()) };
    let others: Vec<_> = failures.collect();
    if others.is_empty() || matches!(first.source, StepError::Changed(_)) {
        return Err(first);
    }
    let source = StepError::Several { first: Box::new(first.source), others };
    Err(ExecuteError { source, ..first })
}

fn apply(host: &dyn Host, step: Step, done: &mut Vec<Step>) -> Result<(), ExecuteError> {
    let started = Instant::now();
    if let Err(source) = host.apply(&step) {
        return Err(ExecuteError { step: Box::new(step), source });
    }
    let seconds = started.elapsed().as_secs_f64();
    // A node rescans at each try of a mount whose namespace is missing, and the failure of the mount is logged once.
    let level = if matches!(step, Step::Rescan { .. }) { Level::Debug } else { Level::Info };
    log!(level, kind = step.kind(), on:% = step.on(), seconds; "{step}");
    done.push(step);
    Ok(())
}
