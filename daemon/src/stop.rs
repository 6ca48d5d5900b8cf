//! Stopping on SIGTERM or SIGINT, and the words systemd wants to hear (sd_notify(3)).

use std::io;

use sd_notify::NotifyState;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

/// Signal handlers could not be installed.
#[derive(Debug, Error)]
#[error("install signal handlers")]
pub struct StopError(#[source] io::Error);

/// Returns when the daemon should stop, with the signal's name.
///
/// # Errors
/// When the handlers cannot be installed.
pub async fn stopped() -> Result<&'static str, StopError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StopError)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StopError)?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
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
