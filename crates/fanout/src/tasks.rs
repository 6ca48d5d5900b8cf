//! Waits for the next thing to do while tasks run.

use std::panic::resume_unwind;

use tokio::task::JoinSet;

/// Awaits `next` while tasks run. A panic in a task becomes a panic of the caller, because nobody else awaits the tasks.
pub(crate) async fn next_while_running<T>(
    running: &mut JoinSet<()>,
    next: impl Future<Output = T>,
) -> T {
    tokio::pin!(next);
    loop {
        tokio::select! {
            next = &mut next => return next,
            Some(ended) = running.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    resume_unwind(error.into_panic());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    #[should_panic = "a bug"]
    async fn a_panic_is_missed_while_nothing_new_comes() {
        let mut running = JoinSet::new();
        running.spawn(async {});
        running.spawn(async { panic!("a bug") });
        let passed_on = next_while_running(&mut running, std::future::pending::<()>());
        let _ = tokio::time::timeout(Duration::from_secs(60), passed_on).await;
    }
}
