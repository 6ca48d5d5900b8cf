//! The store on a disk that fails.

use super::disk::Disk;
use super::{Job, Outcome, Store};
use crate::object::{Key, Object};
use crate::status::Status;
use redb::backends::InMemoryBackend;
use redb::{Builder, StorageBackend};
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::oneshot;

/// A disk that keeps what was written, and refuses to sync or to grow while `full`.
#[derive(Debug, Clone)]
struct Flaky {
    inner: Arc<InMemoryBackend>,
    full: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
}

impl Flaky {
    fn new() -> Self {
        Self {
            inner: Arc::new(InMemoryBackend::new()),
            full: Arc::default(),
            refused: Arc::default(),
        }
    }

    fn check(&self) -> io::Result<()> {
        if !self.full.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::SeqCst);
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
}

impl StorageBackend for Flaky {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }
}

fn open(backend: &Flaky) -> Store {
    let backend = backend.clone();
    let disk =
        Disk::with(Box::new(move || Builder::new().create_with_backend(backend.clone()))).unwrap();
    let state = disk.load(100).unwrap();
    Store::start(disk, state).unwrap()
}

/// Puts a ConfigMap that holds `value`, past all admission.
fn put(store: &Store, name: &str, value: &str) -> Result<Outcome, Status> {
    let key = key(name);
    let object = Object::from_value(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}),
    );
    let object = object.unwrap();
    let (reply, answer) = oneshot::channel();
    let apply = Box::new(move |batch: &mut super::Batch<'_>| {
        let definition = Arc::clone(batch.registry().get("configmaps").unwrap());
        let stored = batch.put(&definition, key, object)?;
        Ok(Outcome::Stored { code: 200, stored, warnings: Vec::new() })
    });
    store.submit(Job { apply, dry_run: false, reply }).unwrap();
    futures::executor::block_on(answer).unwrap()
}

fn key(name: &str) -> Key {
    Key { resource: "configmaps".into(), namespace: "default".to_owned(), name: name.to_owned() }
}

fn value(store: &Store, name: &str) -> Option<String> {
    let stored = store.shared.read().objects.get(&key(name)).cloned()?;
    Some(stored.decode().unwrap().body["data"]["v"].as_str().unwrap().to_owned())
}

#[test]
fn a_full_disk_refuses_the_write_and_nothing_else() {
    let disk = Flaky::new();
    let store = open(&disk);
    put(&store, "a", "1").unwrap();
    let revision = store.shared.read().revision;
    disk.full.store(true, Ordering::SeqCst);
    assert_eq!(put(&store, "a", "2").unwrap_err().code, 507);
    put(&store, "b", "1").unwrap_err();
    assert!(disk.refused.load(Ordering::SeqCst) > 0);
    assert_eq!((value(&store, "a").as_deref(), value(&store, "b")), (Some("1"), None));
    assert_eq!(store.shared.read().revision, revision);

    disk.full.store(false, Ordering::SeqCst);
    put(&store, "c", "1").unwrap();
    store.close();
    // What reached the disk of the refused writes was undone with the next write.
    let store = open(&disk);
    assert_eq!((value(&store, "a").as_deref(), value(&store, "b")), (Some("1"), None));
    assert_eq!(value(&store, "c").as_deref(), Some("1"));
    let events = store.shared.read().log.since("configmaps", 0, usize::MAX).unwrap();
    let names: Vec<&str> = events.iter().map(|event| event.key.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn the_log_is_trimmed_on_disk_as_in_memory() {
    let disk = Flaky::new();
    let store = open(&disk);
    for round in 0..250 {
        put(&store, "a", &round.to_string()).unwrap();
    }
    let horizon = store.shared.read().log.horizon();
    assert_eq!(horizon, 150);
    store.close();
    let store = open(&disk);
    assert_eq!(store.shared.read().log.horizon(), horizon);
    let state = store.shared.read();
    assert_eq!(state.log.since("configmaps", horizon, usize::MAX).unwrap().len(), 100);
    assert!(state.log.since("configmaps", horizon - 1, usize::MAX).is_err());
}
