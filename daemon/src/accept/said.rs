//! What the log is told of connections that cannot be had: when a trouble begins, and when it is over, once each.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Limits;

/// Pause when no connection can be accepted, as with no file descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(200);
/// Accepting works again when it has not failed for so long: short of file descriptors it fails every other time.
const WORKS_AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Said {
    limits: Limits,
    /// When accepting failed last, since it was told.
    failed: Option<Instant>,
    full: bool,
    crowded: bool,
}

/// How many are well under a limit: at the limit itself one goes and one comes all the time.
fn well_under(limit: usize) -> usize {
    limit / 4 * 3
}

impl Said {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, failed: None, full: false, crowded: false }
    }

    /// Accepting failed; returns when it may work again.
    pub(super) async fn failed(&mut self, error: &io::Error) {
        // Of a peer that has hung up already: it says nothing of the next one (accept(2)).
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
            return;
        }
        if self.failed.replace(Instant::now()).is_none() {
            log::warn!(error:%; "no connection can be accepted: the server tries again until it can");
        }
        sleep(EXHAUSTED).await;
    }

    pub(super) fn accepted(&mut self) {
        if self.failed.take_if(|last| last.elapsed() >= WORKS_AGAIN).is_some() {
            log::info!("connections can be accepted again");
        }
    }

    /// There is no place left.
    pub(super) fn full(&mut self) {
        let Limits { connections, remedy, .. } = self.limits;
        if !std::mem::replace(&mut self.full, true) {
            log::warn!(connections; "as many connections are open as the server takes: for another it closes one without a request, or else refuses it: {remedy}");
        }
    }

    /// There was a place; so many are open.
    pub(super) fn admitted(&mut self, open: usize) {
        let limit = self.limits.connections;
        if open <= well_under(limit) && std::mem::take(&mut self.full) {
            log::info!(connections = open, limit; "the server takes more connections again");
        }
    }

    /// The oldest newcomer was sent away.
    pub(super) fn crowded(&mut self) {
        let newcomers = self.limits.newcomers;
        if !std::mem::replace(&mut self.crowded, true) {
            log::warn!(newcomers; "too many connections make no request: from now on the server closes the oldest of them for each that comes");
        }
    }

    /// So many have made no request, and there may be more.
    pub(super) fn roomy(&mut self, newcomers: usize) {
        let limit = self.limits.newcomers;
        if newcomers <= well_under(limit) && std::mem::take(&mut self.crowded) {
            log::info!(newcomers, limit; "the server closes no connections any more to make room for others");
        }
    }
}
