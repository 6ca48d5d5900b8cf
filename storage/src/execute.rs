//! Applies steps in order and names the first that fails.

use std::{collections::BTreeSet, time::Instant};

use log::info;
use thiserror::Error;

use crate::{Host, Step, host::StepError};

#[cfg(test)]
mod tests;

/// A step that failed; those before it stand.
#[derive(Debug, Error)]
#[error("{}", told(.step, .source))]
pub struct ExecuteError {
    /// The step.
    pub step: Box<Step>,
    /// Why it failed.
    #[source]
    pub source: StepError,
}

fn told(step: &Step, source: &StepError) -> String {
    match source {
        StepError::Command(_) => step.briefly(),
        _ => step.to_string(),
    }
}

/// Applies `steps` in order and adds those that were applied to `done`.
///
/// # Errors
/// At the first step that fails; `done` then holds those before it.
pub fn execute(
    host: &dyn Host,
    steps: Vec<Step>,
    done: &mut Vec<Step>,
) -> Result<(), ExecuteError> {
    steps.into_iter().try_for_each(|step| apply(host, step, done))
}

/// Applies `steps` in order, and when one fails leaves out only those that change the same thing ([`Step::on`]).
///
/// # Errors
/// The first failure, with the others as [`StepError::Several`]; `done` then holds all that were applied.
pub fn execute_each(
    host: &dyn Host,
    steps: Vec<Step>,
    done: &mut Vec<Step>,
) -> Result<(), ExecuteError> {
    let mut given_up = BTreeSet::new();
    let mut failures = Vec::new();
    for step in steps {
        let on = step.on().to_string();
        if given_up.contains(&on) {
            continue;
        }
        if let Err(failure) = apply(host, step, done) {
            given_up.insert(on);
            failures.push(failure);
        }
    }
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else { return Ok(()) };
    let others: Vec<_> = failures.collect();
    if others.is_empty() {
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
    info!(kind = step.kind(), on:% = step.on(), seconds; "{step}");
    done.push(step);
    Ok(())
}
