//! When a controller tries again what failed.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Delays that grow with every failure.
pub type Delays = ExponentialBackoff;

/// Without what chance adds.
const LONGEST: Duration = Duration::from_secs(30);

/// When a controller tries again what failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// It may pass any moment: after 0.7 to 1.4 s at first.
    Soon,
    /// Somebody has to do something on the node: after 3 to 6 s at first.
    Later,
    /// Only when the object or what it refers to changes.
    OnChange,
}

impl Retry {
    /// How long to wait after each failure in turn; `None` when time alone changes nothing.
    #[must_use]
    pub fn delays(self) -> Option<Delays> {
        match self {
            Self::Soon => Some(delays(Duration::from_millis(700), LONGEST)),
            Self::Later => Some(delays(Duration::from_secs(3), LONGEST)),
            Self::OnChange => None,
        }
    }
}

/// `first`, doubled every time up to `longest`, and each lengthened by chance, to twice itself at most, so that a thousand nodes do
/// not come back as one. It never ends.
#[must_use]
pub fn delays(first: Duration, longest: Duration) -> Delays {
    let builder = ExponentialBuilder::new().with_factor(2.0).with_jitter().without_max_times();
    builder.with_min_delay(first).with_max_delay(longest).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_spread() {
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
