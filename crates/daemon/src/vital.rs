//! Tasks and threads whose panic ends the daemon.
//!
//! By default, a panic in a task or thread whose result is not awaited goes unnoticed, and the daemon seems to
//! work without that task. This module makes such a panic abort the process. systemd then starts the process
//! again; mounts stay meanwhile.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    process::abort,
};

/// Runs a task whose panic aborts the process. `what` names the task in the log.
pub async fn vital<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| vital_now(what, || work.as_mut().poll(context))).await
}

/// Runs work on the current thread; its panic aborts the process.
pub fn vital_now<T>(what: &str, work: impl FnOnce() -> T) -> T {
    // `AssertUnwindSafe` is correct here: after a panic the process ends, so no code uses state that the panic left
    // inconsistent.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        log::error!(
            "{what} panicked, which is a defect: the process ends, and systemd starts it again"
        );
        log::logger().flush();
        abort()
    })
}
