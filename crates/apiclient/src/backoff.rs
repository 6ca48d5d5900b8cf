//! Delays before a client retries a failed watch.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// Delays that double up to 15 s; jitter adds up to 100 % to each delay. The delays restart from the shortest delay
/// only when the watch has not failed for two minutes. kube's own backoff restarts whenever a watch yields an event,
/// and a watch yields an event before and after each list. So if the API refused all lists or watches, a client with
/// kube's backoff would retry every second.
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
    /// Does nothing: kube calls this method for each event, but a watch that yields an event may fail
    /// in the next moment.
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
            // kube calls `reset` when the list succeeds; then the watch fails, and kube asks for the next delay.
            backoff.reset();
            advance(backoff.next().unwrap()).await;
            tries += 1;
        }
        assert!((120..=260).contains(&tries), "{tries}");
        advance(Duration::from_secs(121)).await;
        assert!(
            backoff.next().unwrap() < Duration::from_secs(2),
            "the delays start again after a watch that worked for a while"
        );
    }
}
