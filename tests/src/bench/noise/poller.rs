//! A stand-in for a daemon that polls. It wakes as often as the Go agent did when it was recorded, and then does
//! nothing: a daemon that wakes so often cannot cost less.

use std::time::Duration;

use super::rank::pin;
use crate::program::pause;

/// Wake-ups a minute: the Go agent's context switches, as in `docs/develop/performance.md`.
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
