//! Delays before a client retries a failed watch.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// Delays that double up to 15 s, lengthened at random to at most twice as much. They restart from the shortest
/// only when the watch has not failed for two minutes. kube's own backoff restarts whenever a watch yields an
/// event, which it does before and after each list: where the API refuses lists, or grants them and refuses
/// watches, kube would try every second.
#[derive(Default)]
pub struct WatchBackoff(DefaultBackoff);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // Half of client-go's delays, so that nodes notice within half a minute that the API answers again.
        self.0.next().map(|delay| delay / 2)
    }
}

impl Backoff for WatchBackoff {
    /// Does nothing: a watch that yields an event may still fail in the next moment.
    fn reset(&mut self) {}
}

impl std::fmt::Debug for WatchBackoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchBackoff").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_works_only_for_a_moment_does_not_restart_the_delays() {
        let mut backoff = WatchBackoff::default();
        let mut tries = 0;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3600) {
            // The list succeeds, and the watch that follows it fails.
            backoff.reset();
            advance(backoff.next().unwrap()).await;
            tries += 1;
        }
        assert!((120..=260).contains(&tries), "{tries}");
        advance(Duration::from_secs(121)).await;
        assert!(
            backoff.next().unwrap() < Duration::from_secs(2),
            "the watch had worked for a while"
        );
    }
}
