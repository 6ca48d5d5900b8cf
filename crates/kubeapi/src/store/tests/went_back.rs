//! Tests of stores that have lost acknowledged revisions, and continue above them.

use super::damage::{PAGE, contents, filled, flips};
use super::put;
use crate::store::{DiskError, Store, backup, file::file};
use futures::StreamExt;
use futures::executor::block_on;
use std::path::Path;
use tempfile::TempDir;

/// Number of revisions that a store skips at least if it may have lost acknowledged writes.
const FAR: u64 = 1_000_000;

fn open(directory: &Path) -> Result<Store, DiskError> {
    Store::open(directory, 10, &[], super::rules())
}

fn forget_acknowledged(directory: &Path) {
    std::fs::remove_file(directory.join("objects.acknowledged")).unwrap();
}

/// Returns whether a watch can resume from this revision.
fn resumes(store: &Store, revision: u64) -> bool {
    store.shared.read().log.since("configmaps", revision, usize::MAX).is_ok()
}

fn revision(store: &Store) -> u64 {
    store.shared.read().revision
}

/// Returns a store with revision 31, and the file of the same store with revision 30.
fn older_and_newer() -> (TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    let older = std::fs::read(file(directory.path())).unwrap();
    let store = open(directory.path()).unwrap();
    put(&store, "m0", "newer").unwrap();
    assert_eq!(revision(&store), 31);
    (directory, older)
}

#[test]
fn a_store_that_lost_a_revision_continues_far_above_it_so_that_no_revision_is_used_twice() {
    let (directory, older) = older_and_newer();
    let directory = directory.path();
    std::fs::write(file(directory), older).unwrap();
    let error = open(directory).unwrap_err();
    assert!(matches!(error, DiskError::Behind { found: 30, written: 31 }), "{error:?}");
    forget_acknowledged(directory);
    let store = open(directory).unwrap();
    let first = revision(&store);
    assert!(first > FAR, "{first}");
    assert!(!resumes(&store, 30) && !resumes(&store, 31) && resumes(&store, first));
    drop(store);
    // The store skips revisions only once, even if nothing was written since.
    let store = open(directory).unwrap();
    assert_eq!(revision(&store), first, "the store skips revisions only once");
    put(&store, "m0", "other").unwrap();
    drop(store);
    let store = open(directory).unwrap();
    assert!(!resumes(&store, 31) && resumes(&store, first));
}

#[test]
fn an_intact_store_keeps_its_revision_and_watches_can_resume() {
    let (directory, _) = older_and_newer();
    let store = open(directory.path()).unwrap();
    assert_eq!(revision(&store), 31);
    assert!(resumes(&store, 30));
}

#[test]
fn each_restored_store_begins_above_all_revisions_of_the_store_that_it_replaces() {
    let (directory, _) = older_and_newer();
    let directory = directory.path();
    let store = open(directory).unwrap();
    let text = block_on(backup::write(&store.shared).collect::<Vec<_>>()).concat();
    drop(store);
    let mut before = 31;
    for _ in 0..3 {
        std::fs::remove_file(file(directory)).unwrap();
        backup::restore(directory, text.as_slice()).unwrap();
        let store = open(directory).unwrap();
        assert!(revision(&store) > before + FAR && !resumes(&store, before));
        put(&store, "m0", "after").unwrap();
        before = revision(&store);
    }
}

/// Returns copies of a store whose process was killed; in each copy another page is damaged. `acknowledged` is the
/// content of the file with the acknowledged revision; with `None`, the copies have no such file.
fn damaged_copies(acknowledged: Option<&[u8]>) -> Vec<(TempDir, Vec<u8>)> {
    let killed = tempfile::tempdir().unwrap();
    let store = filled(killed.path());
    let whole = std::fs::read(file(killed.path())).unwrap();
    drop(store);
    let pages = flips(&whole).into_iter().filter(|(at, _)| *at >= PAGE);
    pages
        .map(|(at, bytes)| {
            let directory = tempfile::tempdir().unwrap();
            let mut image = whole.clone();
            image[at..at + bytes.len()].copy_from_slice(&bytes);
            std::fs::write(file(directory.path()), &image).unwrap();
            if let Some(number) = acknowledged {
                std::fs::write(directory.path().join("objects.acknowledged"), number).unwrap();
            }
            (directory, image)
        })
        .collect()
}

#[test]
fn a_store_in_which_redb_goes_back_is_refused_if_the_acknowledged_revision_is_unknown() {
    let whole = tempfile::tempdir().unwrap();
    let expected = contents(&filled(whole.path()));
    let mut went_back = 0;
    for (directory, image) in damaged_copies(None) {
        let directory = directory.path();
        match open(directory) {
            Ok(store) => assert_eq!(contents(&store), expected),
            Err(DiskError::Behind { found, written }) => {
                went_back += 1;
                assert_eq!((found, written), (29, 30));
                let copy = std::fs::read(directory.join("objects.redb.before")).unwrap();
                assert!(
                    copy[PAGE..] == image[PAGE..],
                    "the copy has the pages of the damaged file"
                );
                let again = open(directory).unwrap_err();
                assert!(matches!(again, DiskError::Behind { .. }), "{again:?}");
                forget_acknowledged(directory);
                assert!(revision(&open(directory).unwrap()) > FAR);
            }
            Err(error) => assert!(error.is_damage(), "{error:?}"),
        }
    }
    assert!(went_back > 5, "{went_back}");
}

#[test]
fn an_interrupted_commit_that_was_not_acknowledged_is_undone() {
    let acknowledged = format!("{0:020} {0:020}\n", 29);
    let mut went_back = 0;
    for (directory, _) in damaged_copies(Some(acknowledged.as_bytes())) {
        let Ok(store) = open(directory.path()) else { continue };
        went_back += usize::from(revision(&store) == 29);
        assert!([29, 30].contains(&revision(&store)));
        assert!(resumes(&store, 28), "the store has skipped no revision");
        assert!(!directory.path().join("objects.redb.before").exists());
    }
    assert!(went_back > 5, "{went_back}");
}
