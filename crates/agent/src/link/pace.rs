//! Decides how soon the link tries again after it lost the coordinator. This module does no I/O.

use std::time::Duration;

use apiclient::Delays;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(200);
/// Delay between quick attempts. Jitter (see [`Delays`]) at most doubles it, so the link finds a restarted
/// coordinator within 3 s.
const QUICK: Duration = Duration::from_millis(1500);
const SLOW: Duration = Duration::from_secs(15);
/// Time after a loss during which the link uses quick attempts: a coordinator that only restarts is back by then.
const QUICK_FOR: Duration = Duration::from_secs(120);

/// State of the delays since the connection was lost.
pub(super) struct Pace {
    since: Instant,
    quick: Delays,
    slow: Delays,
}

impl Pace {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, quick: Delays::new(FIRST, QUICK), slow: Delays::new(QUICK, SLOW) }
    }

    /// Returns the delay before the next attempt. The delay is short for a while after the loss, because the
    /// coordinator may only be restarting, and while a script on this node waits for a job's mounts (`is_waited_for`).
    /// Otherwise the delay grows, so that the attempts disturb no job while a coordinator is down for a night.
    pub(super) fn delay(&mut self, now: Instant, is_waited_for: bool) -> Duration {
        let is_quick = is_waited_for || now.duration_since(self.since) < QUICK_FOR;
        let delays = if is_quick { &mut self.quick } else { &mut self.slow };
        delays.next_delay()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn delays_are_at_most_three_seconds_soon_after_a_loss_and_while_a_script_waits() {
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
