//! Logs once when a trouble with connections begins, and once when it is over.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Limits;

/// Pause after accepting failed, as when no file descriptor is left.
const EXHAUSTED: Duration = Duration::from_millis(200);
/// Accepting counts as working again when it has not failed for so long: short of file descriptors it fails every other time.
const WORKS_AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct TroubleLog {
    limits: Limits,
    /// When accepting failed last; `None` while that trouble is not logged.
    failed: Option<Instant>,
    full: bool,
    too_many_pending: bool,
}

/// The number at which a trouble counts as over: at the limit itself connections come and go all the time.
fn well_under(limit: usize) -> usize {
    limit / 4 * 3
}

impl TroubleLog {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, failed: None, full: false, too_many_pending: false }
    }

    /// Accepting failed; returns when it may work again.
    pub(super) async fn failed(&mut self, error: &io::Error) {
        // The peer has hung up already, which says nothing of the next connection (accept(2)).
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

    /// No slot is left.
    pub(super) fn full(&mut self) {
        let Limits { connections, remedy, .. } = self.limits;
        if !std::mem::replace(&mut self.full, true) {
            log::warn!(connections; "as many connections are open as the server takes: for another it closes one without a request, or else refuses it: {remedy}");
        }
    }

    /// A connection got a slot; so many are open now.
    pub(super) fn admitted(&mut self, open: usize) {
        let limit = self.limits.connections;
        if open <= well_under(limit) && std::mem::take(&mut self.full) {
            log::info!(connections = open, limit; "the server takes more connections again");
        }
    }

    /// The oldest pending connection is closed to make room.
    pub(super) fn too_many_pending(&mut self) {
        let pending = self.limits.pending;
        if !std::mem::replace(&mut self.too_many_pending, true) {
            log::warn!(pending; "too many connections make no request: from now on the server closes the oldest of them for each that comes");
        }
    }

    /// So many connections are pending, which is under the limit.
    pub(super) fn few_pending(&mut self, pending: usize) {
        let limit = self.limits.pending;
        if pending <= well_under(limit) && std::mem::take(&mut self.too_many_pending) {
            log::info!(pending, limit; "the server closes no connections any more to make room for others");
        }
    }
}
