//! Copies that are killed at random moments and then continued.

use std::time::Duration;

use movement::report::{Ended, Outcome};

use crate::{site::Site, trees};

/// Returns the number of kills in a test; more with the environment variable `LONG`.
fn kill_count() -> usize {
    if std::env::var_os("LONG").is_some() { 200 } else { 25 }
}

/// Copies a tree, and kills `datamover` up to `limit` times. Returns the final report, and the number of kills.
fn copy_with_kills(site: &Site, limit: usize) -> (Ended, usize) {
    for kills in 0..limit {
        let run = site.start(|order| order.rate = Some(64 << 20), "/", "/out");
        std::thread::park_timeout(Duration::from_micros(fastrand::u64(..60_000)));
        let ended = run.kill();
        trees::assert_files_complete(&site.source(), &site.target("out"));
        if let Some(ended) = ended {
            return (ended, kills);
        }
    }
    (site.copy("/", "/out", None), limit)
}

#[test]
fn a_copy_that_is_killed_at_random_moments_continues_and_ends_complete() {
    let mut left = kill_count();
    while left > 0 {
        let Some(site) = Site::new(512 << 20) else { return };
        trees::plant(&site.source());
        let (ended, kills) = copy_with_kills(&site, left.min(12));
        assert_eq!(ended.outcome, Outcome::Done, "{}", site.failures());
        assert_eq!(ended.progress.failed, 0, "{}", site.failures());
        trees::assert_same(&site.source(), &site.target("out"));
        let total = ended.progress.total.unwrap();
        assert_eq!((ended.progress.files, ended.progress.bytes), (total.files, total.bytes));
        left = left.saturating_sub(kills.max(1));
    }
}

#[test]
fn a_second_run_keeps_all_files_that_the_first_run_copied() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    let first = site.copy("/", "/out", None);
    let second = site.copy("/", "/out", None);
    assert_eq!(
        (second.progress.kept, second.progress.files),
        (first.progress.bytes, first.progress.files)
    );
}

#[test]
fn a_file_that_changed_since_an_earlier_run_is_copied_again() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    site.copy("/", "/out", None);
    std::fs::write(site.source().join("new\nline"), "not 1").unwrap();
    let ended = site.copy("/", "/out", None);
    assert_eq!(ended.progress.bytes - ended.progress.kept, 5);
    trees::assert_same(&site.source(), &site.target("out"));
}
