//! Patience with `EBUSY` that passes by itself.
//!
//! Other threads look at mounts, other programs try a free loop device a moment after it became ours, a mkfs whose agent
//! was killed is still ending: each keeps a mount or a device busy for an instant, and there is no event for its end.

use std::{io, time::Duration};

use nix::poll::{PollTimeout, poll};

use crate::host::StepError;

/// 0.4 s in all: what is busy for longer is worth telling.
const PAUSES_MS: [u16; 8] = [1, 2, 5, 10, 20, 50, 100, 200];

/// Tries again while the answer is `EBUSY`, a few times.
pub(super) fn retry_while_busy<T>(
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

/// Waits for what no event tells; waking early does no harm.
pub(super) fn pause_for(pause: Duration) {
    let _ = poll(&mut [], PollTimeout::try_from(pause).unwrap_or(PollTimeout::ZERO));
}

pub(super) fn is_busy(error: &io::Error) -> bool {
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
    fn only_busy_is_tried_again_and_not_for_ever() {
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
