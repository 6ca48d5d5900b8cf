//! Signals of a command that makes what it has to remove.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use nodeclient::Exit;
use nodeclient::Output;

/// The signals that end a life but not its end: from a person, from a service manager, and from a terminal that goes away.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
}

impl Signals {
    /// # Errors
    /// When the kernel refuses.
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

    /// The next one, as a failure.
    pub(crate) async fn next(&mut self) -> Failure {
        let why = tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "told to end by SIGTERM",
            _ = self.hang_up.recv() => "told to end by SIGHUP: its terminal went away",
            _ = self.quit.recv() => "told to end by SIGQUIT",
        };
        Failure::new(Exit::Cancelled, why)
    }

    /// What `work` gives, unless a signal comes first.
    pub(crate) async fn or<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            failure = self.next() => Err(failure),
        }
    }

    /// Carries `work` to its end, and says so to whoever wants to interrupt it.
    pub(crate) async fn despite<T>(&mut self, output: Output, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = self.next() => output.note("removing the job's storage; this command ends when it is gone"),
            }
        }
    }
}
