//! A command from its work to its exit status.

use std::{io, process::ExitCode, time::Duration};

use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// For a verb that is interrupted to take away what it began, such as half a file.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Does the work until it ends or a signal ends it, and prints why it failed.
pub fn run_to_exit<F>(output: Output, work: impl FnOnce() -> F + Send + 'static) -> ExitCode
where
    F: Future<Output = Result<Exit, Failure>>,
{
    to_exit(output, interruptible(work))
}

/// Does the work until it ends, and prints why it failed. Work that makes what it has to remove takes signals itself.
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
            // A verb that was interrupted may stand in a read or a write for ever: the process ends without it.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(Failure::new(Exit::Failed, "start").because(&error)),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

/// A verb waits on a thread of its own for standard input, for files that are pipes and for whoever reads its output,
/// so that a signal ends it there too.
async fn interruptible<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<Exit, Failure>
where
    F: Future<Output = Result<Exit, Failure>>,
{
    let unheard =
        |error: io::Error| Failure::new(Exit::Failed, "listen for signals").because(&error);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(unheard)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(unheard)?;
    let (go_on, cancelled) = oneshot::channel::<()>();
    let mut verb = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(async {
            tokio::select! {
                ended = work() => Some(ended),
                _ = cancelled => None,
            }
        })
    });
    let why = tokio::select! {
        ended = &mut verb => return ended.unwrap_or_else(|panicked| {
            Some(Err(Failure::new(Exit::Failed, "a defect of this command").because(&panicked)))
        }).unwrap_or(Ok(Exit::Cancelled)),
        _ = interrupted.recv() => "interrupted",
        _ = terminated.recv() => "told to end by SIGTERM",
    };
    drop(go_on);
    // One that stands in a read or a write does not end.
    let _ = timeout(LAST_MOMENT, verb).await;
    Err(Failure::new(Exit::Cancelled, why))
}
