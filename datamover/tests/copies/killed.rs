//! Copies that are killed at random moments, and go on.

use std::time::Duration;

use movement::report::{Ended, Outcome};

use crate::{site::Site, trees};

/// Kills in all. `LONG=1` asks for those of a whole campaign.
fn kills() -> usize {
    if std::env::var_os("LONG").is_some() { 200 } else { 25 }
}

/// Copies a tree, killing the copier again and again; returns the last report, and how often it was killed.
fn copy_killed(site: &Site, most: usize) -> (Ended, usize) {
    for killed in 0..most {
        let run = site.start(|order| order.rate = Some(64 << 20), "/", "/out");
        std::thread::park_timeout(Duration::from_micros(fastrand::u64(..60_000)));
        let ended = run.kill();
        trees::assert_whole(&site.source(), &site.target("out"));
        if let Some(ended) = ended {
            return (ended, killed);
        }
    }
    (site.copy("/", "/out", None), most)
}

#[test]
fn a_copy_that_is_killed_at_any_moment_goes_on_and_ends_whole() {
    let mut left = kills();
    while left > 0 {
        let Some(site) = Site::new(512 << 20) else { return };
        trees::plant(&site.source());
        let (ended, killed) = copy_killed(&site, left.min(12));
        assert_eq!(ended.outcome, Outcome::Done, "{}", site.failures());
        assert_eq!(ended.progress.failed, 0, "{}", site.failures());
        trees::assert_same(&site.source(), &site.target("out"));
        let total = ended.progress.total.unwrap();
        assert_eq!((ended.progress.files, ended.progress.bytes), (total.files, total.bytes));
        left = left.saturating_sub(killed.max(1));
    }
}

#[test]
fn a_copy_that_goes_on_copies_nothing_twice() {
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
fn a_source_that_changed_since_an_earlier_run_is_copied_again() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    site.copy("/", "/out", None);
    std::fs::write(site.source().join("new\nline"), "not 1").unwrap();
    let ended = site.copy("/", "/out", None);
    assert_eq!(ended.progress.bytes - ended.progress.kept, 5);
    trees::assert_same(&site.source(), &site.target("out"));
}
