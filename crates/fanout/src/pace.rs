//! How long what failed waits before its writer or reader tries again.

use std::time::Duration;

use controller::{Delays, Retry};

/// Shortest delay between tries of what needs somebody to do something.
pub(crate) const REST: Duration = Duration::from_secs(30);
/// An API server that took a request and answers nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Delays that begin anew with every success.
#[derive(Debug, Default)]
pub(crate) struct Pace(Option<Delays>);

impl Pace {
    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        if self.0.is_none() {
            self.0 = Retry::Soon.delays();
        }
        self.0.as_mut().and_then(Iterator::next).unwrap_or(REST)
    }
}
