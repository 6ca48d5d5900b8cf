//! Connections without a request: each is heard, or sent away, and never both.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

const NEW: u8 = 0;
const HEARD: u8 = 1;
const GONE: u8 = 2;

/// Which connection a request came on.
#[derive(Clone, Debug, Default)]
pub struct Caller(Arc<AtomicU8>);

impl Caller {
    /// It made a request that is worth an answer: it is not closed any more for saying nothing.
    pub fn is_heard(&self) {
        self.becomes(HEARD);
    }

    pub(super) fn was_heard(&self) -> bool {
        self.0.load(Ordering::Relaxed) == HEARD
    }

    /// Whether it is to be closed, now that it has waited for too long.
    pub(super) fn is_sent_away(&self) -> bool {
        self.becomes(GONE);
        self.0.load(Ordering::Relaxed) == GONE
    }

    pub(super) fn was_sent_away(&self) -> bool {
        self.0.load(Ordering::Relaxed) == GONE
    }

    fn becomes(&self, state: u8) {
        // What it has become before, it stays.
        let _ = self.0.compare_exchange(NEW, state, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What a connection has of its server's until it ends or is sent away.
pub(super) type Place = Mutex<Option<OwnedSemaphorePermit>>;

/// One that made no request when it was looked at last.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) caller: Caller,
    /// Dropped to wake the connection.
    pub(super) waker: oneshot::Sender<()>,
    pub(super) place: Weak<Place>,
}

impl Newcomer {
    pub(super) fn is_one(&self) -> bool {
        !self.caller.was_heard() && !self.waker.is_closed()
    }

    pub(super) fn send_away(self) {
        if self.caller.is_sent_away()
            && let Some(place) = self.place.upgrade()
        {
            place.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}
