//! Stopping on SIGTERM or SIGINT, and the words systemd wants to hear (sd_notify(3)).

use std::io;

use sd_notify::NotifyState;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signal handlers could not be installed.
#[derive(Debug, Error)]
#[error("install signal handlers")]
pub struct StopError(#[source] io::Error);

/// The signals that stop a daemon. Listen first, then start: as the first process of a container, a daemon is not stopped by
/// a signal that nobody listens to.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Keeps every signal from now on.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn listen() -> Result<Self, StopError> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(StopError)?,
            interrupt: signal(SignalKind::interrupt()).map_err(StopError)?,
        })
    }

    /// Returns when the daemon should stop, with the signal's name.
    pub async fn stopped(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Tells systemd (`Type=notify`) that the daemon serves; without systemd it does nothing.
pub fn tell_ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells systemd that the daemon is on its way out.
pub fn tell_stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warn!(error:% = error; "tell systemd");
    }
}
