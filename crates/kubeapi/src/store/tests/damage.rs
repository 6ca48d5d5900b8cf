//! Tests of stores whose files are damaged.

use super::{Store, key, put, value};
use crate::store::load::{self, key_text};
use crate::store::rows::{EventRow, OBJECTS, Rows, transact};
use crate::store::{DiskError, file::file};
use crate::{Api, Config, Identity};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tower::ServiceExt;

/// Size of a page of redb, in bytes.
pub(super) const PAGE: usize = 4096;

fn crd() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn row(resource: &str, name: &str, object: &Value) -> (String, Vec<u8>) {
    (format!("{resource}\0n\0{name}"), object.to_string().into_bytes())
}

fn object(version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "n", "resourceVersion": "5"}})
}

#[test]
fn only_the_object_of_an_unreadable_row_is_missing() {
    let map = object("v1", "ConfigMap", "a");
    let thing = object("x.io/v1", "Thing", "t");
    let stored_crd = |crd: &Value| {
        (
            "customresourcedefinitions.apiextensions.k8s.io\0\0things.x.io".to_owned(),
            crd.to_string().into_bytes(),
        )
    };
    let mut broken = crd();
    broken["spec"]["versions"] = json!([]);
    let bad = [
        stored_crd(&broken),
        row("configmaps", "half", &map),
        ("no key".to_owned(), b"{}".to_vec()),
        row("others.y.io", "o", &thing),
        row("configmaps", "timeless", &json!({"apiVersion": "v1", "kind": "ConfigMap"})),
    ];
    let mut objects = bad.to_vec();
    objects[1].1.truncate(20);
    let unreadable: Vec<String> = objects.iter().map(|(key, _)| key.clone()).collect();
    objects.push(row("configmaps", "a", &map));
    objects.push(row("configmaps", "a\0b\0", &map));
    objects.push(row("things.x.io", "t", &thing));
    let event = EventRow {
        revision: 9,
        verb: 0,
        key: "configmaps\0n\0a".to_owned(),
        json: map.to_string().into_bytes(),
        previous: Vec::new(),
    };
    let rows = Rows { revision: 9, horizon: 3, objects, events: vec![event] };
    let (state, unread) = load::state(rows, 10, &[crd()]);
    let mut named: Vec<String> = unread.into_iter().map(|row| row.key).collect();
    let mut expected = unreadable;
    named.sort();
    expected.sort();
    assert_eq!(named, expected);
    let read: Vec<String> = state.objects.keys().map(key_text).collect();
    assert_eq!(read, ["configmaps\0n\0a", "configmaps\0n\0a\0b\0", "things.x.io\0n\0t"]);
    // No watch can resume from an earlier revision: every client lists again, and learns what is missing.
    assert_eq!((state.revision, state.log.horizon()), (10, 10));
    assert!(state.log.since("configmaps", 9, usize::MAX).is_err());
}

#[test]
fn if_a_row_of_the_log_cannot_be_read_all_objects_stay_and_no_watch_can_resume() {
    let map = object("v1", "ConfigMap", "a");
    let event = |revision: u64, json: &[u8]| EventRow {
        revision,
        verb: 1,
        key: "configmaps\0n\0a".to_owned(),
        json: json.to_vec(),
        previous: Vec::new(),
    };
    let objects = vec![row("configmaps", "a", &map)];
    let events = vec![event(8, b"{"), event(9, map.to_string().as_bytes())];
    let (state, unread) = load::state(Rows { revision: 9, horizon: 3, objects, events }, 10, &[]);
    assert_eq!((unread.len(), state.objects.len()), (0, 1));
    assert!(state.log.since("configmaps", 9, usize::MAX).is_err());
}

/// Sends a request to the API, and returns the code and body of its answer.
async fn call(api: &Api, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(
        "content-type",
        match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        },
    );
    let service = api.service(Identity { user: "test".to_owned() });
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let answer = service.oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

/// Replaces a stored object by `json`.
fn spoil(directory: &Path, key: &str, json: &[u8]) {
    let database = redb::Database::open(file(directory)).unwrap();
    let change = |transaction: &redb::WriteTransaction| {
        transaction.open_table(OBJECTS)?.insert(key, json)?;
        Ok(())
    };
    transact(&database, change).unwrap();
}

#[tokio::test]
async fn an_object_whose_owner_cannot_be_read_is_not_deleted() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let directory = tempfile::tempdir().unwrap();
    let open = || Api::open(Config::new(directory.path())).unwrap();
    let api = open();
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (_, owner) = call(&api, "POST", MAPS, &map("owner")).await;
    let mut dependent = map("dependent");
    let uid = &owner["metadata"]["uid"];
    dependent["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    assert_eq!(call(&api, "POST", MAPS, &dependent).await.0, 201);
    api.close();
    drop(api);
    spoil(directory.path(), "configmaps\0default\0owner", b"{\"half");
    let api = open();
    assert_eq!(call(&api, "GET", &format!("{MAPS}/owner"), &Value::Null).await.0, 404);
    let change = json!({"data": {"touched": "yes"}});
    let path = format!("{MAPS}/dependent");
    assert_eq!(call(&api, "PATCH", &path, &change).await.0, 200);
    assert_eq!(call(&api, "GET", &path, &Value::Null).await.0, 200);
    // A new object replaces the unreadable object, which does not come back at the next start.
    assert_eq!(call(&api, "POST", MAPS, &map("owner")).await.0, 201);
    api.close();
    drop(api);
    assert_eq!(call(&open(), "GET", &format!("{MAPS}/owner"), &Value::Null).await.0, 200);
}

/// The contents of a store's files.
struct Files {
    store: Vec<u8>,
    acknowledged: Vec<u8>,
}

impl Files {
    fn read(directory: &Path) -> Self {
        let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
        Self { store: read("objects.redb"), acknowledged: read("objects.acknowledged") }
    }

    /// Opens the store with `bytes` at `offset`, and returns its contents or the reason why it does not open.
    fn with(&self, offset: usize, bytes: &[u8]) -> Result<Vec<Option<String>>, DiskError> {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path());
        std::fs::write(&path, &self.store).unwrap();
        std::fs::write(directory.path().join("objects.acknowledged"), &self.acknowledged).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(bytes, offset as u64).unwrap();
        let store = Store::open(directory.path(), 10, &[], super::rules())?;
        Ok(contents(&store))
    }
}

/// Returns the values of the ten ConfigMaps of [`filled`], and the number of all objects.
pub(super) fn contents(store: &Store) -> Vec<Option<String>> {
    let count = store.shared.read().objects.len();
    let values = (0..10).map(|index| value(store, &format!("m{index}")));
    values.chain([Some(count.to_string())]).collect()
}

pub(super) fn filled(directory: &Path) -> Store {
    let store = Store::open(directory, 10, &[], super::rules()).unwrap();
    for round in 0..30 {
        let text = format!("value {round} {}", "x".repeat(round % 10 * 300));
        put(&store, &format!("m{}", round % 10), &text).unwrap();
    }
    store
}

/// Damages a store in many places, one place at a time. Checks that the damaged store is either refused, or opens with
/// unchanged contents; returns the number of refusals.
fn sweep(files: &Files, expected: &[Option<String>], damages: &[(usize, Vec<u8>)]) -> usize {
    let mut refused = 0;
    for (offset, bytes) in damages {
        match files.with(*offset, bytes) {
            Ok(found) => assert_eq!(found, expected, "{} bytes at {offset}", bytes.len()),
            Err(error) if error.is_damage() => refused += 1,
            Err(error) => panic!("{} bytes at {offset}: {error:?}", bytes.len()),
        }
    }
    refused
}

/// Returns flips of single bits: one in every third byte of redb's header, and two in each page that is in use.
pub(super) fn flips(store: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let header = (0..320).step_by(3);
    let pages = (PAGE..store.len()).step_by(PAGE).filter(|at| used(store, *at));
    let places = header.chain(pages.flat_map(|at| [at + 60, at + PAGE / 2]));
    places.map(|at| (at, vec![store[at] ^ (1 << (at % 8))])).collect()
}

fn used(store: &[u8], page: usize) -> bool {
    store[page..page + PAGE].iter().any(|byte| *byte != 0)
}

#[test]
fn a_closed_store_with_a_flipped_bit_is_refused_or_opens_with_unchanged_contents() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let expected = contents(&store);
    store.close();
    drop(store);
    let files = Files::read(directory.path());
    let damages = flips(&files.store);
    assert!(sweep(&files, &expected, &damages) > 10);
}

#[test]
fn a_killed_store_with_a_flipped_bit_is_refused_or_opens_with_unchanged_contents() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let expected = contents(&store);
    // Reads the files while the store is open: a kill would leave the files in this state.
    let files = Files::read(directory.path());
    let damages = flips(&files.store);
    assert!(sweep(&files, &expected, &damages) > 10);
}

#[test]
fn a_store_with_an_overwritten_page_is_refused_or_opens_with_unchanged_contents() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let expected = contents(&store);
    let killed = Files::read(directory.path());
    store.close();
    drop(store);
    let closed = Files::read(directory.path());
    for files in [killed, closed] {
        let used = (0..files.store.len()).step_by(PAGE).filter(|at| used(&files.store, *at));
        let damages: Vec<(usize, Vec<u8>)> =
            used.flat_map(|at| [0, 0xff, 1].map(|byte| (at, vec![byte; PAGE]))).collect();
        assert!(sweep(&files, &expected, &damages) > 10);
    }
}

#[test]
fn a_store_that_is_cut_short_or_empty_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    let path = file(directory.path());
    let length = std::fs::metadata(&path).unwrap().len();
    for length in [length / 2, 5000, 100, 0] {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        let error = Store::open(directory.path(), 10, &[], super::rules()).unwrap_err();
        assert!(error.is_damage(), "{length}: {error:?}");
    }
    std::fs::remove_file(&path).unwrap();
    let error = Store::open(directory.path(), 10, &[], super::rules()).unwrap_err();
    assert!(matches!(error, DiskError::Gone { acknowledged: 30 }), "{error:?}");
}

#[test]
fn an_older_copy_of_the_store_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    store.close();
    drop(store);
    let older = Files::read(directory.path());
    let store = Store::open(directory.path(), 10, &[], super::rules()).unwrap();
    put(&store, "m0", "newer").unwrap();
    store.close();
    drop(store);
    std::fs::write(file(directory.path()), older.store).unwrap();
    let error = Store::open(directory.path(), 10, &[], super::rules()).unwrap_err();
    assert!(
        matches!(error, DiskError::Behind { found: 30, written: 31 }),
        "{error:?} for {}",
        key("m0")
    );
}
