//! How long what failed waits before it is tried again.

use std::time::Duration;

const FIRST_DELAY: Duration = Duration::from_secs(1);
/// What needs somebody to do something is tried again no more often.
pub(crate) const LAST_DELAY: Duration = Duration::from_secs(60);
/// An API server that took a request and answers nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Delays that double from one second to a minute.
#[derive(Debug)]
pub(crate) struct Pace(Duration);

impl Pace {
    pub(crate) fn new() -> Self {
        Self(FIRST_DELAY)
    }

    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        let delay = jittered(self.0);
        self.0 = (self.0 * 2).min(LAST_DELAY);
        delay
    }
}

/// Between half the delay and the whole, so that writers which failed together do not return together.
pub(crate) fn jittered(delay: Duration) -> Duration {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    delay.mul_f64(0.5 + f64::from(nanos % 1000) / 2000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_minute() {
        let mut pace = Pace::new();
        let seconds: Vec<f64> = (0..8).map(|_| pace.next().as_secs_f64()).collect();
        for (delay, longest) in seconds.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]) {
            assert!((longest / 2.0..=longest).contains(delay), "{seconds:?}");
        }
    }
}
