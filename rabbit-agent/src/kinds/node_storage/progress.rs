//! Reports the progress of volumes that synchronise (RAID) or resilver (ZFS) by themselves. Does no I/O.
//!
//! Synchronisation is no error, so statuses do not report it. The log does, because a user who waits for hours wants
//! to know the reason.

use std::mem::{Discriminant, discriminant};

use storage::{ConvergeError, Rejection};

use super::{report::sync_progress, unit::Outcome};

/// Progress of one allocation, in tenths: with finer steps, each check would log a line.
#[derive(Debug, Clone)]
pub struct Progress {
    stage: (usize, Discriminant<Rejection>, u16),
    text: String,
}

/// Returns the progress of each allocation that is still synchronising.
pub fn progress(results: &[Outcome]) -> Vec<Progress> {
    let progress_of = |(place, result): (usize, &Outcome)| {
        let Some(Err(ConvergeError::Rejected(why))) = result else { return None };
        let stage = (place, discriminant(why), sync_progress(why)?.tenth());
        Some(Progress { stage, text: format!("file system {place}: {why}") })
    };
    results.iter().enumerate().filter_map(progress_of).collect()
}

/// Returns the lines to log now; `before` is the progress that was logged last.
pub fn changes(before: &[Progress], now: &[Progress]) -> Vec<String> {
    let is_logged = |progress: &&Progress| before.iter().any(|old| old.stage == progress.stage);
    let goes_on = |old: &&Progress| now.iter().any(|progress| progress.stage.0 == old.stage.0);
    let further =
        now.iter().filter(|progress| !is_logged(progress)).map(|progress| progress.text.clone());
    let over = before.iter().filter(|old| !goes_on(old));
    let over = over.map(|old| format!("file system {} no longer synchronises", old.stage.0));
    further.chain(over).collect()
}

#[cfg(test)]
mod tests {
    use storage::Converged;

    use super::*;

    fn at(percent: &str) -> Outcome {
        let (volume, percent) = ("vg/lv".to_owned(), percent.parse().unwrap());
        Some(Err(ConvergeError::Rejected(Rejection::Syncing { volume, percent })))
    }

    #[test]
    fn a_synchronising_raid_is_logged_by_tenths_and_at_its_end() {
        let mut before = Vec::new();
        for (percent, expected) in [
            ("0.00", Some("0.00 %")),
            ("4.20", None),
            ("9.99", None),
            ("10.00", Some("10.00 %")),
            ("37.50", Some("37.50 %")),
            ("38.00", None),
        ] {
            let now = progress(&[Some(Ok(Converged::default())), at(percent)]);
            let lines = changes(&before, &now);
            assert_eq!(lines.len(), usize::from(expected.is_some()), "{percent}: {lines:?}");
            if let (Some(expected), [line]) = (expected, &lines[..]) {
                assert!(line.contains(expected) && line.starts_with("file system 1: "), "{line}");
            }
            before = now;
        }
        let over = progress(&[Some(Ok(Converged::default())), Some(Ok(Converged::default()))]);
        assert_eq!(changes(&before, &over), ["file system 1 no longer synchronises"]);
        assert_eq!(changes(&over, &over), [""; 0]);
    }
}
