//! Applies steps in order, stops at the first that fails, and names it.

use std::time::Instant;

use log::info;
use thiserror::Error;

use crate::{Host, Step, host::StepError};

/// A step that failed; those before it stand.
#[derive(Debug, Error)]
#[error("{step}")]
pub struct ExecuteError {
    /// The step.
    pub step: Box<Step>,
    /// Why it failed.
    #[source]
    pub source: StepError,
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
    for step in steps {
        let started = Instant::now();
        if let Err(source) = host.apply(&step) {
            return Err(ExecuteError { step: Box::new(step), source });
        }
        info!(step:%, seconds = started.elapsed().as_secs_f64(); "{step}");
        done.push(step);
    }
    Ok(())
}
