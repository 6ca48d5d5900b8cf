//! Retries calls that return `EBUSY`, for a short time.
//!
//! A mount or a device may be busy for a moment: other threads observe mounts, other programs probe a loop device
//! just after the agent attached it, or a mkfs whose agent was killed is still exiting. No event reports the end
//! of such a use.

use std::{io, time::Duration};

use nix::poll::{PollTimeout, poll};
use storage::host::StepError;

/// Pauses between attempts, in milliseconds: 0.4 s in all. An `EBUSY` that lasts longer is reported.
const PAUSES_MS: [u16; 8] = [1, 2, 5, 10, 20, 50, 100, 200];

/// Calls again a few times while the call returns `EBUSY`.
pub fn retry_while_busy<T>(
    mut attempt: impl FnMut() -> Result<T, StepError>,
) -> Result<T, StepError> {
    for pause in PAUSES_MS {
        match attempt() {
            Err(StepError::System { source, .. }) if is_busy(&source) => {
                pause_for(Duration::from_millis(pause.into()));
            }
            other => return other,
        }
    }
    attempt()
}

/// Sleeps for `pause`. For callers that wait for a condition whose end no event reports.
pub fn pause_for(pause: Duration) {
    let _ = poll(&mut [], PollTimeout::try_from(pause).unwrap_or(PollTimeout::ZERO));
}

pub fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: i32) -> StepError {
        StepError::System {
            call: "test",
            target: String::new(),
            source: io::Error::from_raw_os_error(errno),
        }
    }

    #[test]
    fn only_ebusy_is_retried_and_only_a_few_times() {
        let count = |errno, succeed_at| {
            let mut tries = 0;
            let result = retry_while_busy(|| {
                tries += 1;
                if tries == succeed_at { Ok(()) } else { Err(refused(errno)) }
            });
            (tries, result.is_ok())
        };
        assert_eq!(count(libc::EBUSY, 3), (3, true));
        assert_eq!(count(libc::EBUSY, 0), (PAUSES_MS.len() + 1, false));
        assert_eq!(count(libc::EIO, 2), (1, false));
    }
}
