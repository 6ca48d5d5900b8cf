//! Handles the signals of a command that must remove its workflow before it exits.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use cli::Exit;
use cli::Output;

/// The signals that interrupt a command's work but not its cleanup: from a user, a service manager, or a
/// terminal that is closed.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
}

impl Signals {
    /// Registers handlers for all four signals.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Exit::Failed, "listen for signals").because(&error))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
        })
    }

    /// Waits for the next signal, and returns it as a failure.
    pub(crate) async fn next(&mut self) -> Failure {
        let why = tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "ended by SIGTERM",
            _ = self.hang_up.recv() => "ended by SIGHUP: its terminal was closed",
            _ = self.quit.recv() => "ended by SIGQUIT",
        };
        Failure::new(Exit::Cancelled, why)
    }

    /// Returns the result of `work`, or a failure if a signal comes first.
    pub(crate) async fn until_signal<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            failure = self.next() => Err(failure),
        }
    }

    /// Completes `work` despite signals; each signal prints a note.
    pub(crate) async fn uninterrupted<T>(
        &mut self,
        output: Output,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = self.next() => output.note("removing the job's storage; this command ends once it is removed"),
            }
        }
    }
}
