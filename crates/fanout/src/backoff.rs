//! Delays between attempts of requests that fail.

use std::time::Duration;

use controller::{Delays, Retry};

/// Shortest delay before a refused write is tried again, which somebody has to make possible.
pub(crate) const REFUSED_DELAY: Duration = Duration::from_secs(30);
/// How long the API may take to answer a request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Growing delays; a new value begins with the shortest.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Option<Delays>);

impl Backoff {
    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        if self.0.is_none() {
            self.0 = Retry::Soon.delays();
        }
        self.0.as_mut().and_then(Iterator::next).unwrap_or(REFUSED_DELAY)
    }
}
