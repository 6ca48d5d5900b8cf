//! System calls of steps that may hang.

use std::{io, os::fd::RawFd, time::Duration};

use process::child::{self, CallError};
use storage::host::StepError;

/// Makes a call in a child process, and waits at most `deadline`. The child keeps only the descriptors in `keep`.
///
/// # Errors
/// `work`'s errno, or [`StepError::Hung`].
pub fn run(
    call: &'static str,
    target: &str,
    deadline: Duration,
    keep: &[RawFd],
    work: impl FnOnce() -> io::Result<()>,
) -> Result<(), StepError> {
    let target_of_error = || target.to_owned();
    child::run(call, target, deadline, keep, work).map_err(|error| match error {
        CallError::Failed(source) => StepError::System { call, target: target_of_error(), source },
        CallError::Hung(waits) => {
            StepError::Hung { call, target: target_of_error(), deadline, waits }
        }
    })
}
