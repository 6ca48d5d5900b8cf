//! Delays before a client repeats a request that failed.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

/// Delays that double up to a longest one, without end. Jitter adds up to 100 % to each delay, so that a thousand nodes
/// do not retry at the same moment.
#[derive(Debug, Clone)]
pub struct Delays {
    next: Duration,
    longest: Duration,
}

impl Delays {
    /// Returns delays that begin with `first`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Returns the next delay.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.longest);
        delay.mul_f64(1.0 + fastrand::f64())
    }
}

impl Default for Delays {
    /// Returns the delays after failures that may end by themselves at any moment.
    fn default() -> Self {
        Self::new(Duration::from_millis(700), Duration::from_secs(30))
    }
}

/// First and longest delay of a watch: half of client-go's delays, so that nodes notice within half a minute that the
/// API answers again.
const WATCH_DELAYS: Delays = Delays::new(Duration::from_millis(400), Duration::from_secs(15));

/// Time without a failure after which the delays of a watch restart from the shortest one.
const STEADY: Duration = Duration::from_secs(120);

/// Delays of a failing watch. They restart from the shortest delay only when the watch has not failed for two minutes.
/// kube's own backoff restarts whenever a watch yields an event, and a watch yields an event before and after each list.
/// So if the API refused all lists or watches, a client with kube's backoff would retry every second.
#[derive(Debug, Default)]
pub struct WatchBackoff(Option<(Delays, Instant)>);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let known = self.0.take().filter(|(_, failed)| now.duration_since(*failed) < STEADY);
        let mut delays = known.map_or(WATCH_DELAYS, |(delays, _)| delays);
        let delay = delays.next_delay();
        self.0 = Some((delays, now));
        Some(delay)
    }
}

impl Backoff for WatchBackoff {
    /// Does nothing: kube calls this method for each event, but a watch that yields an event may fail
    /// in the next moment.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_differ_between_two_sequences() {
        let shortest = [700, 1400, 2800, 5600, 11_200, 22_400, 30_000, 30_000];
        let draw = || {
            let mut delays = Delays::default();
            shortest.map(|_| delays.next_delay())
        };
        let drawn = draw();
        for (delay, shortest) in drawn.iter().zip(shortest.map(Duration::from_millis)) {
            assert!((shortest..=shortest * 2).contains(delay), "{drawn:?}");
        }
        assert_ne!(drawn, draw());
    }

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
