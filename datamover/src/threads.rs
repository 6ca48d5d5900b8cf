//! Counts the copying threads that have ended.

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

    /// Wakes all waiting threads, which then check `is_over` again.
    pub(crate) fn wake(&self) {
        // A thread holds the lock from the check of its condition until it waits. Taking the lock here makes sure that
        // the wake does not come in between, where the thread would miss it.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits until `number` threads have ended, `is_over` returns true, or `timeout` has passed. Returns true if
    /// `number` threads have ended.
    pub(crate) fn wait(
        &self,
        number: usize,
        timeout: Duration,
        is_over: impl Fn() -> bool,
    ) -> bool {
        let is_waiting = |ended: &mut usize| *ended < number && !is_over();
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, is_waiting);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= number
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
