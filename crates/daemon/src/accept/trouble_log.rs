//! Logs once when a problem with connections begins, and once when it is over.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Limits;

/// How long the server waits after accepting failed, as when no file descriptor is left.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Accepting counts as working again when it has not failed for so long: when file descriptors are short, it fails every other
/// time.
const WORKING_AFTER: Duration = Duration::from_secs(60);

/// The problems that are logged and not over yet.
#[derive(Debug)]
pub(super) struct TroubleLog {
    limits: Limits,
    /// When accepting failed last; `None` once it is logged as working again.
    failed: Option<Instant>,
    /// Whether it is logged that no slot is left.
    full: bool,
    /// Whether it is logged that too many connections are pending.
    too_many_pending: bool,
}

/// The number at which a problem counts as over: at the limit itself connections come and go all the time.
fn well_under(limit: usize) -> usize {
    limit / 4 * 3
}

impl TroubleLog {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, failed: None, full: false, too_many_pending: false }
    }

    /// Accepting failed; returns when it may work again.
    pub(super) async fn failed(&mut self, error: &io::Error) {
        // The peer has closed the connection already; the next one can be accepted (accept(2)).
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
            return;
        }
        if self.failed.replace(Instant::now()).is_none() {
            log::warn!(error:%; "no connection can be accepted: the server tries again until it can");
        }
        sleep(RETRY_DELAY).await;
    }

    pub(super) fn accepted(&mut self) {
        if self.failed.take_if(|last| last.elapsed() >= WORKING_AFTER).is_some() {
            log::info!("connections can be accepted again");
        }
    }

    /// No slot is left.
    pub(super) fn full(&mut self) {
        let Limits { connections, remedy, .. } = self.limits;
        if !std::mem::replace(&mut self.full, true) {
            log::warn!(connections; "the limit of open connections is reached: for each new one the server closes one without a request, or refuses the new one: {remedy}");
        }
    }

    /// A connection got a slot, and this many are open now.
    pub(super) fn admitted(&mut self, open: usize) {
        let limit = self.limits.connections;
        if open <= well_under(limit) && std::mem::take(&mut self.full) {
            log::info!(connections = open, limit; "the server accepts more connections again");
        }
    }

    /// The oldest pending connection is closed to make room.
    pub(super) fn too_many_pending(&mut self) {
        let pending = self.limits.pending;
        if !std::mem::replace(&mut self.too_many_pending, true) {
            log::warn!(pending; "too many connections make no request: the server closes the oldest of them for each new one");
        }
    }

    /// This many connections are pending, which is under the limit.
    pub(super) fn few_pending(&mut self, pending: usize) {
        let limit = self.limits.pending;
        if pending <= well_under(limit) && std::mem::take(&mut self.too_many_pending) {
            log::info!(pending, limit; "the server does not close connections without a request for new ones any more");
        }
    }
}
