//! Pending connections: those that have made no request yet. The server may decide to close a pending connection at the
//! same moment at which a request arrives on it. Whichever event is recorded first wins.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

const NEW: u8 = 0;
const ACTIVE: u8 = 1;
const CLOSED: u8 = 2;

/// Handle with which a server records that a connection made a request.
#[derive(Clone, Debug, Default)]
pub struct Caller(Arc<AtomicU8>);

impl Caller {
    /// Records a request: from now on the connection is not closed as pending.
    pub fn record_request(&self) {
        self.set_state(ACTIVE);
    }

    pub(super) fn has_made_request(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ACTIVE
    }

    /// Closes the connection unless it has made a request. Returns whether the connection is closed.
    pub(super) fn close(&self) -> bool {
        self.set_state(CLOSED);
        self.0.load(Ordering::Relaxed) == CLOSED
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CLOSED
    }

    fn set_state(&self, state: u8) {
        // Changes only the state `NEW`: of two changes at the same moment, the later one has no effect.
        let _ = self.0.compare_exchange(NEW, state, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Slot of a connection; `None` once the connection has ended or is closed.
pub(super) type Slot = Mutex<Option<OwnedSemaphorePermit>>;

/// A connection that had made no request at the last check.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) caller: Caller,
    /// Wakes the connection's task when dropped.
    pub(super) waker: oneshot::Sender<()>,
    /// Slot of the connection; dropped when the connection ends.
    pub(super) slot: Weak<Slot>,
}

impl Pending {
    pub(super) fn is_pending(&self) -> bool {
        !self.caller.has_made_request() && !self.waker.is_closed()
    }

    pub(super) fn close(self) {
        if self.caller.close()
            && let Some(slot) = self.slot.upgrade()
        {
            slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}
