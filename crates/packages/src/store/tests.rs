use containers::package::Source;

use super::*;

fn package() -> Package {
    Package {
        name: "data".to_owned(),
        source: Source::Server("http://server/data".to_owned()),
        sha256: "ab".repeat(32),
        size: 4,
        unpacked: None,
    }
}

const RUNS: [Uuid; 2] = [Uuid::from_u128(1), Uuid::from_u128(2)];

/// A store with a package that these use.
fn with_package(directory: &Path, uses: &[Uuid]) -> Store {
    let store = Store::new(directory);
    let key = Key::of(&package());
    uses.iter().for_each(|uid| store.take(&key, *uid).unwrap());
    let path = store.begin(&key).unwrap();
    fs::write(path.join(CONTENT), "data").unwrap();
    store.complete(&package()).unwrap();
    store
}

#[test]
fn a_package_stays_while_anybody_uses_it_and_goes_with_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let store = with_package(directory.path(), &RUNS);
    let path = content(directory.path(), &package());
    assert!(store.is_ready(&package()));
    store.release(RUNS[0], |_| false).unwrap();
    store.release(RUNS[0], |_| false).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"data");
    store.release(RUNS[1], |_| false).unwrap();
    assert!(!path.exists() && !store.is_ready(&package()));
    for which in [READY, FETCHING, USES] {
        let left = fs::read_dir(directory.path().join(which)).unwrap();
        assert_eq!(left.count(), 0, "{which}");
    }
}

#[test]
fn what_nobody_uses_any_more_when_it_is_complete_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let store = with_package(directory.path(), &[]);
    assert!(!store.is_ready(&package()));
    assert!(!directory.path().join(FETCHING).join("ab".repeat(32)).exists());
}

#[test]
fn only_a_marker_with_the_same_digest_and_size_says_that_a_package_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let store = with_package(directory.path(), &RUNS);
    assert!(!store.is_ready(&Package { size: 5, ..package() }));
    assert!(!store.is_ready(&Package { unpacked: Some(4), ..package() }), "another form of it");
    fs::write(store.place(READY, &Key::of(&package())).join(MARKER), "{").unwrap();
    assert!(!store.is_ready(&package()));
}

/// The steps of a removal, each with a crash after it.
#[test]
fn a_removal_that_was_cut_short_is_gone_on_with() {
    let directory = tempfile::tempdir().unwrap();
    let store = with_package(directory.path(), &RUNS[..1]);
    let key = Key::of(&package());
    fs::rename(store.place(READY, &key), store.place(FETCHING, &key)).unwrap();
    assert!(!store.is_ready(&package()));
    assert!(store.is_used_by(&key, RUNS[0]), "its removal is not forgotten");
    store.release(RUNS[0], |_| false).unwrap();
    assert!(!store.place(FETCHING, &key).exists() && !store.is_used_by(&key, RUNS[0]));
}

#[test]
fn nobody_but_root_enters_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let within = directory.path().join("packages");
    with_package(&within, &RUNS);
    assert_eq!(fs::metadata(within).unwrap().permissions().mode() & 0o777, 0o700);
}
