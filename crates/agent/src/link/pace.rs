//! Decides how soon the link tries again after it lost the coordinator. Pure.

use std::time::Duration;

use controller::{Delays, delays};
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(200);
/// With the spread of [`delays`] a coordinator that is back is found within 3 s.
const QUICK: Duration = Duration::from_millis(1500);
const SLOW: Duration = Duration::from_secs(15);
/// How long a link tries quickly: a coordinator that restarts is back by then.
const QUICK_FOR: Duration = Duration::from_secs(120);

/// The delays since a connection was lost.
pub(super) struct Pace {
    since: Instant,
    quick: Delays,
    slow: Delays,
}

impl Pace {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, quick: delays(FIRST, QUICK), slow: delays(QUICK, SLOW) }
    }

    /// The delay before the next attempt: short while the coordinator may only be restarting, or while a script on this node waits
    /// for a job; else longer, so that a coordinator that is away for a night disturbs no job.
    pub(super) fn delay(&mut self, now: Instant, is_waited_for: bool) -> Duration {
        let is_quick = is_waited_for || now.duration_since(self.since) < QUICK_FOR;
        let delays = if is_quick { &mut self.quick } else { &mut self.slow };
        delays.next().unwrap_or(SLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_link_tries_within_three_seconds_while_a_restart_or_a_script_is_waited_for() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        for seconds in 0..120 {
            let delay = pace.delay(begun + Duration::from_secs(seconds), false);
            assert!(delay <= 2 * QUICK, "after {seconds} s: {delay:?}");
        }
        let late = begun + Duration::from_secs(600);
        let slow: Vec<Duration> = (0..10).map(|_| pace.delay(late, false)).collect();
        assert!(slow[9] >= SLOW, "{slow:?}");
        assert!(pace.delay(late, true) <= 2 * QUICK, "a script waits");
    }
}
