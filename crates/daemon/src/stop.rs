//! Stops on SIGTERM or SIGINT, and notifies systemd (sd_notify(3)).

use std::io;

use sd_notify::NotifyState;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signal handlers could not be installed.
#[derive(Debug, Error)]
#[error("install signal handlers")]
pub struct StopError(#[source] io::Error);

/// The signals that stop a daemon. A daemon installs the handlers first: for the first process of a container the kernel ignores
/// signals without a handler.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers. From now on no signal is lost.
    pub fn listen() -> Result<Self, StopError> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(StopError)?,
            interrupt: signal(SignalKind::interrupt()).map_err(StopError)?,
        })
    }

    /// Waits for a signal to stop, and returns its name.
    pub async fn stopped(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Notifies systemd (`Type=notify`) that the daemon is ready; does nothing without systemd.
pub fn notify_ready() {
    notify(&[NotifyState::Ready]);
}

/// Notifies systemd that the daemon is stopping.
pub fn notify_stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warn!(error:% = error; "notify systemd");
    }
}
