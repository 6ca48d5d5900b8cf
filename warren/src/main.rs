//! The operators' and prolog scripts' command.
//!
//! One file per verb under `verbs/`. A verb talks to the API, the coordinator or an agent through `client`, prints
//! through `output`, and ends with an `exit` status that scripts may rely on.

mod args;
mod client;
mod exit;
mod failure;
mod kinds;
mod manifest;
mod output;
mod verbs;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use args::CommandLine;
use exit::Exit;
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let line = CommandLine::try_parse().unwrap_or_else(|error| args::refuse(&error));
    let output = Output::new(line.global.json);
    let result = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let result = runtime.block_on(interruptible(line, output));
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

/// For a verb that is interrupted to take away what it began, such as half a file.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// A verb waits on a thread of its own for standard input, for files that are pipes and for whoever reads its output,
/// so that a signal ends it there too.
async fn interruptible(line: CommandLine, output: Output) -> Result<Exit, Failure> {
    let unheard =
        |error: std::io::Error| Failure::new(Exit::Failed, "listen for signals").because(&error);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(unheard)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(unheard)?;
    let (go_on, cancelled) = oneshot::channel::<()>();
    let mut verb = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(async {
            tokio::select! {
                ended = verbs::run(line, output) => Some(ended),
                _ = cancelled => None,
            }
        })
    });
    let why = tokio::select! {
        ended = &mut verb => return ended.unwrap_or_else(|panicked| {
            Some(Err(Failure::new(Exit::Failed, "a defect of warren").because(&panicked)))
        }).unwrap_or(Ok(Exit::Cancelled)),
        _ = interrupted.recv() => "interrupted",
        _ = terminated.recv() => "told to end by SIGTERM",
    };
    drop(go_on);
    // One that stands in a read or a write does not end.
    let _ = timeout(LAST_MOMENT, verb).await;
    Err(Failure::new(Exit::Cancelled, why))
}
