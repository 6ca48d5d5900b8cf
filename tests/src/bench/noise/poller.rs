//! A stand-in for a daemon that polls. It wakes as often as the Go agent was recorded to, and then does nothing: no daemon
//! that wakes so often costs less.

use std::time::Duration;

use super::rank::pin;
use crate::program::pause;

/// The Go agent's context switches a minute, as in `docs/develop/performance.md`; each is one time to wake.
const WAKES_A_MINUTE: u32 = 730;

/// Runs on one core until it is killed.
///
/// # Errors
/// When it cannot be pinned.
pub fn run(words: &[String]) -> anyhow::Result<()> {
    pin(0, words.first().map_or(Ok(0), |word| word.parse())?)?;
    loop {
        pause(Duration::from_secs(60) / WAKES_A_MINUTE);
    }
}
