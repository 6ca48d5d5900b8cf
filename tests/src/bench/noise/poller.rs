//! A stand-in for a daemon that polls. It wakes as often as the sites' Go agent did when its wake-ups were recorded,
//! and then does nothing: any daemon that wakes so often costs at least as much.

use std::time::Duration;

use super::rank::pin;
use crate::program::pause;

/// Wake-ups per minute: the number of the Go agent's context switches in `docs/develop/performance.md`.
const WAKES_A_MINUTE: u32 = 730;

/// Polls on one core until it is killed.
///
/// # Errors
/// When the process cannot be pinned.
pub fn run(words: &[String]) -> anyhow::Result<()> {
    pin(0, words.first().map_or(Ok(0), |word| word.parse())?)?;
    loop {
        pause(Duration::from_secs(60) / WAKES_A_MINUTE);
    }
}
