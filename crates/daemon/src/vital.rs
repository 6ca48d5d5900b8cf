//! Tasks and threads whose panic ends the daemon.
//!
//! Nothing notices a panic of a task or thread whose result nobody awaits, and the daemon would seem to work without it. So such a
//! panic ends the process; systemd starts it again, and mounts stay meanwhile.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    process::abort,
};

/// Runs a task whose panic ends the process; `what` names the task in the log.
pub async fn vital<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| vital_now(what, || work.as_mut().poll(context))).await
}

/// Does work, on the current thread, whose panic ends the process.
pub fn vital_now<T>(what: &str, work: impl FnOnce() -> T) -> T {
    // The process ends, so nothing uses what the panic left half changed.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        log::error!("{what} panicked, which is a defect: the process ends, to be started again");
        log::logger().flush();
        abort()
    })
}
