//! The delays after which a controller retries failed work.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Delays that grow with every failure.
pub type Delays = ExponentialBackoff;

/// Longest delay; jitter adds up to 100 %.
const LONGEST: Duration = Duration::from_secs(30);

/// The event after which a controller retries failed work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// The failure may end by itself at any moment: first retry after 0.7 to 1.4 s.
    Soon,
    /// A person has to mend the cause on the node: first retry after 3 to 6 s.
    Later,
    /// The failure does not end by itself: retry only when the object, or an object that it refers to, changes.
    #[default]
    OnChange,
}

impl Retry {
    /// Returns the delays after consecutive failures; `None` for [`Retry::OnChange`].
    #[must_use]
    pub fn delays(self) -> Option<Delays> {
        match self {
            Self::Soon => Some(delays(Duration::from_millis(700), LONGEST)),
            Self::Later => Some(delays(Duration::from_secs(3), LONGEST)),
            Self::OnChange => None,
        }
    }
}

/// Returns an endless sequence of delays: `first`, doubled each time up to `longest`. Jitter adds up to 100 % to each
/// delay, so that a thousand nodes do not retry at the same moment.
#[must_use]
pub fn delays(first: Duration, longest: Duration) -> Delays {
    let builder = ExponentialBuilder::new().with_factor(2.0).with_jitter().without_max_times();
    builder.with_min_delay(first).with_max_delay(longest).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_differ_between_two_sequences() {
        let shortest = [700, 1400, 2800, 5600, 11_200, 22_400, 30_000, 30_000];
        let drawn: Vec<_> = Retry::Soon.delays().unwrap().take(shortest.len()).collect();
        for (delay, shortest) in drawn.iter().zip(shortest.map(Duration::from_millis)) {
            assert!((shortest..=shortest * 2).contains(delay), "{drawn:?}");
        }
        let again: Vec<_> = Retry::Soon.delays().unwrap().take(shortest.len()).collect();
        assert_ne!(drawn, again);
        assert!(Retry::OnChange.delays().is_none());
        assert_eq!(Retry::Later.delays().unwrap().take(100).count(), 100);
    }
}
