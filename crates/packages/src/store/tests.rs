use containers::package::Source;

use super::*;

fn package() -> JobPackage {
    JobPackage {
        name: "data".to_owned(),
        source: Source::Server("http://server/data".to_owned()),
        sha256: "ab".repeat(32),
        size: 4,
        unpacked: None,
    }
}

const RUNS: [Uuid; 2] = [Uuid::from_u128(1), Uuid::from_u128(2)];

/// Creates a store with a job package that these objects use.
fn with_package(directory: &Path, uses: &[Uuid]) -> Store {
    let store = Store::new(directory);
    let key = Key::new(&package());
    uses.iter().for_each(|uid| store.mark_used(&key, *uid).unwrap());
    let path = store.begin(&key).unwrap();
    fs::write(path.join(CONTENT), "data").unwrap();
    store.complete(&package()).unwrap();
    store
}

#[test]
fn a_job_package_is_removed_when_the_last_object_that_uses_it_is_released() {
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
fn a_job_package_that_no_object_uses_when_it_is_complete_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = with_package(directory.path(), &[]);
    assert!(!store.is_ready(&package()));
    assert!(!directory.path().join(FETCHING).join("ab".repeat(32)).exists());
}

#[test]
fn only_a_marker_with_the_same_digest_and_size_makes_a_job_package_complete() {
    let directory = tempfile::tempdir().unwrap();
    let store = with_package(directory.path(), &RUNS);
    assert!(!store.is_ready(&JobPackage { size: 5, ..package() }));
    assert!(
        !store.is_ready(&JobPackage { unpacked: Some(4), ..package() }),
        "the unpacked form is another job package"
    );
    fs::write(store.place(READY, &Key::new(&package())).join(MARKER), "{").unwrap();
    assert!(!store.is_ready(&package()));
}

/// A crash in the middle of a removal leaves this state.
#[test]
fn release_completes_an_interrupted_removal() {
    let directory = tempfile::tempdir().unwrap();
    let store = with_package(directory.path(), &RUNS[..1]);
    let key = Key::new(&package());
    fs::rename(store.place(READY, &key), store.place(FETCHING, &key)).unwrap();
    assert!(!store.is_ready(&package()));
    assert!(store.is_used_by(&key, RUNS[0]), "the mark is still there");
    store.release(RUNS[0], |_| false).unwrap();
    assert!(!store.place(FETCHING, &key).exists() && !store.is_used_by(&key, RUNS[0]));
}

#[test]
fn only_root_may_enter_the_directory_of_job_packages() {
    let directory = tempfile::tempdir().unwrap();
    let within = directory.path().join("packages");
    with_package(&within, &RUNS);
    assert_eq!(fs::metadata(within).unwrap().permissions().mode() & 0o777, 0o700);
}
