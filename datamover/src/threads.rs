//! How many copying threads have ended.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

#[derive(Debug, Default)]
pub(crate) struct Threads {
    ended: Mutex<usize>,
    changed: Condvar,
}

impl Threads {
    pub(crate) fn add_ended(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// Has all that wait look at their condition again.
    pub(crate) fn wake(&self) {
        // A thread that has read its condition and does not wait yet holds the lock.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits until `number` threads have ended, `is_over` says so, or this time has passed; returns true if they have ended.
    pub(crate) fn wait(&self, number: usize, most: Duration, is_over: impl Fn() -> bool) -> bool {
        let goes_on = |ended: &mut usize| *ended < number && !is_over();
        let waited = self.changed.wait_timeout_while(self.lock(), most, goes_on);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= number
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
