//! Limits the bytes that all threads together copy per second.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

#[derive(Debug)]
pub(crate) struct Throttle {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    rate: Option<u64>,
    /// Time at which all bytes granted so far will have been copied, at the present rate.
    used_until: Instant,
}

impl Throttle {
    pub(crate) fn new(rate: Option<u64>) -> Self {
        let state = State { rate, used_until: Instant::now() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn set(&self, rate: Option<u64>) {
        let mut state = self.lock();
        *state = State { rate, used_until: Instant::now() };
        self.changed.notify_all();
    }

    /// Wakes all waiting threads, which then check `is_over` again.
    pub(crate) fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits until `bytes` may be copied, or `is_over` returns true.
    pub(crate) fn take(&self, bytes: u64, is_over: impl Fn() -> bool) {
        let mut state = self.lock();
        let Some(rate) = state.rate else { return };
        let now = Instant::now();
        let from = state.used_until.max(now);
        state.used_until = from + Duration::from_secs_f64(as_f64(bytes) / as_f64(rate.max(1)));
        while state.rate.is_some() && !is_over() {
            let wait = from.min(state.used_until).saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
