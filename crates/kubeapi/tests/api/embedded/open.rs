//! Tests of opening an API inside an async task.

use crate::server::{SHARED, Server};
use futures::FutureExt;
use std::sync::mpsc;
use std::time::Duration;

/// Time that is long enough for any machine to open a store.
const HANGS: Duration = Duration::from_secs(120);

#[test]
fn an_async_task_that_has_used_up_its_tokio_budget_can_open_an_api() {
    let (done, opened) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // Uses up tokio's budget of this task, like a task that has received many messages without waiting.
            while tokio::task::coop::consume_budget().now_or_never().is_some() {}
            drop(Server::open(tempfile::tempdir().unwrap(), 10, SHARED));
        });
        done.send(())
    });
    opened.recv_timeout(HANGS).expect("the API opens");
}
