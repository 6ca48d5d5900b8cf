//! Pending connections, which have made no request yet. A connection that makes its first request is not closed as pending any
//! more, and one that was closed as pending makes none.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

const NEW: u8 = 0;
const ACTIVE: u8 = 1;
const CLOSED: u8 = 2;

/// The handle with which a server notes that a connection made a request.
#[derive(Clone, Debug, Default)]
pub struct Caller(Arc<AtomicU8>);

impl Caller {
    /// Notes a request: the connection is not closed as pending any more.
    pub fn made_request(&self) {
        self.set_state(ACTIVE);
    }

    pub(super) fn has_made_request(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ACTIVE
    }

    /// Closes the connection unless it made a request before; returns whether it is closed.
    pub(super) fn close(&self) -> bool {
        self.set_state(CLOSED);
        self.0.load(Ordering::Relaxed) == CLOSED
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CLOSED
    }

    fn set_state(&self, state: u8) {
        // The first change of state wins.
        let _ = self.0.compare_exchange(NEW, state, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The slot of a connection, until the connection ends or is closed.
pub(super) type Slot = Mutex<Option<OwnedSemaphorePermit>>;

/// A connection that made no request when it was checked last.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) caller: Caller,
    /// Wakes the connection when it is dropped.
    pub(super) waker: oneshot::Sender<()>,
    /// The connection's slot; gone once the connection has ended.
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
