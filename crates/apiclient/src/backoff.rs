//! Delays before a client starts a failed watch again.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// Delays that double to 15 s, and to up to twice that by chance. They begin anew only when the watch has not failed for two
/// minutes. kube's own backoff begins anew whenever a watch yields something, which it does before and after each list: where
/// the API refuses lists, or grants them and refuses watches, kube would try every second.
#[derive(Default)]
pub struct WatchBackoff(DefaultBackoff);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // Half of client-go's delays, so that nodes notice within half a minute that the API is back.
        self.0.next().map(|delay| delay / 2)
    }
}

impl Backoff for WatchBackoff {
    /// Does nothing: that the watch yielded something does not mean that it works.
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
    async fn what_works_for_a_moment_begins_nothing_anew() {
        let mut backoff = WatchBackoff::default();
        let mut tries = 0;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3600) {
            // A list works, and the watch that follows does not.
            backoff.reset();
            advance(backoff.next().unwrap()).await;
            tries += 1;
        }
        assert!((120..=260).contains(&tries), "{tries}");
        advance(Duration::from_secs(121)).await;
        assert!(backoff.next().unwrap() < Duration::from_secs(2), "it had stood");
    }
}
