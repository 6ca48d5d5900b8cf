//! Runs the work of a command, and converts its result into an exit status.

use std::{io, process::ExitCode, time::Duration};

use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Time for an interrupted verb to clean up, for example to remove an incomplete file.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Runs work until it ends or a signal interrupts it, and prints a failure.
pub fn run_to_exit<F>(output: Output, work: impl FnOnce() -> F + Send + 'static) -> ExitCode
where
    F: Future<Output = Result<Exit, Failure>>,
{
    to_exit(output, interruptible(work))
}

/// Like [`run_to_exit`], but for work that handles signals by itself: no signal interrupts it.
pub fn run_to_end<F>(output: Output, work: impl FnOnce() -> F) -> ExitCode
where
    F: Future<Output = Result<Exit, Failure>>,
{
    to_exit(output, work())
}

fn to_exit(output: Output, work: impl Future<Output = Result<Exit, Failure>>) -> ExitCode {
    let result = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let result = runtime.block_on(work);
            // Does not wait for the verb's thread, which may block in a read or write for ever.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(Failure::new(Exit::Failed, "start the command").because(&error)),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Runs a verb on a separate thread, so that a signal can end the verb even while it blocks on standard input, a pipe
/// or its output.
async fn interruptible<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<Exit, Failure>
where
    F: Future<Output = Result<Exit, Failure>>,
{
    let failed =
        |error: io::Error| Failure::new(Exit::Failed, "listen for signals").because(&error);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let (keep_running, cancelled) = oneshot::channel::<()>();
    let mut verb = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(async {
            tokio::select! {
                result = work() => Some(result),
                _ = cancelled => None,
            }
        })
    });
    let why = tokio::select! {
        result = &mut verb => return result.unwrap_or_else(|panicked| {
            Some(Err(Failure::new(Exit::Failed, "this command panicked, which is a defect").because(&panicked)))
        }).unwrap_or(Ok(Exit::Cancelled)),
        _ = interrupted.recv() => "interrupted",
        _ = terminated.recv() => "ended by SIGTERM",
    };
    drop(keep_running);
    // A verb that blocks in a read or write does not end in this time; it is left behind when the process exits.
    let _ = timeout(LAST_MOMENT, verb).await;
    Err(Failure::new(Exit::Cancelled, why))
}
