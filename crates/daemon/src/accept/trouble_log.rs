//! Logs problems with connections: once when a problem begins, and once when it is over.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Limits;

/// Delay after a failed accept, which fails for example when no file descriptor is free.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Time without a failed accept after which accepting counts as working again. One success is not enough: when few file
/// descriptors are free, some accepts fail and others succeed.
const WORKING_AFTER: Duration = Duration::from_secs(60);

/// The problems that were logged and are not over.
#[derive(Debug)]
pub(super) struct TroubleLog {
    limits: Limits,
    /// Time of the last failed accept; `None` once accepting is logged as working.
    failed: Option<Instant>,
    /// Whether the log says that no slot is left.
    full: bool,
    /// Whether the log says that too many connections are pending.
    too_many_pending: bool,
}

/// Returns the number of connections at which the log says that a problem is over. It is lower than the limit at which
/// the problem begins: if both were equal, a number that varies around the limit would fill the log.
fn well_under(limit: usize) -> usize {
    limit / 4 * 3
}

impl TroubleLog {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, failed: None, full: false, too_many_pending: false }
    }

    /// Logs a failed accept, and waits before the next attempt.
    pub(super) async fn accept_failed(&mut self, error: &io::Error) {
        // Only this connection failed, because its peer has closed it already (accept(2)): no delay is needed.
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
            return;
        }
        if self.failed.replace(Instant::now()).is_none() {
            log::warn!(error:%; "no connection can be accepted: the server tries again until it can");
        }
        sleep(RETRY_DELAY).await;
    }

    /// Logs that accepting works again, if the log says that it fails.
    pub(super) fn accept_succeeded(&mut self) {
        if self.failed.take_if(|last| last.elapsed() >= WORKING_AFTER).is_some() {
            log::info!("connections can be accepted again");
        }
    }

    /// Logs that no slot is left.
    pub(super) fn limit_reached(&mut self) {
        let Limits { connections, remedy, .. } = self.limits;
        if !std::mem::replace(&mut self.full, true) {
            log::warn!(connections; "the limit of open connections is reached: for each new connection the server closes a connection without a request, or else refuses the new connection: {remedy}");
        }
    }

    /// Logs that slots are free again. `open` is the number of open connections.
    pub(super) fn slot_taken(&mut self, open: usize) {
        let limit = self.limits.connections;
        if open <= well_under(limit) && std::mem::take(&mut self.full) {
            log::info!(connections = open, limit; "the server accepts more connections again");
        }
    }

    /// Logs that the oldest pending connection is closed to make room.
    pub(super) fn too_many_pending(&mut self) {
        let pending = self.limits.pending;
        if !std::mem::replace(&mut self.too_many_pending, true) {
            log::warn!(pending; "too many connections make no request: the server closes the oldest of them for each new connection");
        }
    }

    /// Logs that the server no longer closes pending connections. `pending` is their number, which is below the limit.
    pub(super) fn few_pending(&mut self, pending: usize) {
        let limit = self.limits.pending;
        if pending <= well_under(limit) && std::mem::take(&mut self.too_many_pending) {
            log::info!(pending, limit; "the server no longer closes connections without a request to make room for new ones");
        }
    }
}
