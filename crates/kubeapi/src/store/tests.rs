//! Tests of the store on a disk whose writes fail.

mod damage;
mod power;
mod unread;
mod went_back;

use super::disk::Disk;
use super::file::{Fill, StoreFile};
use super::{DiskError, Job, Outcome, Store, rows};
use crate::object::{Key, Object};
use crate::status::Status;
use redb::backends::InMemoryBackend;
use redb::{Builder, Database, StorageBackend};
use serde_json::json;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// Returns the rules with which an API opens its store.
fn rules() -> super::Rules {
    super::Rules {
        collect_garbage: crate::garbage::collect_garbage,
        admission: crate::Admission::default(),
    }
}

/// A disk that keeps its contents, and refuses to sync or to grow while `full`.
#[derive(Debug, Clone)]
struct Flaky {
    inner: Arc<InMemoryBackend>,
    full: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
}

impl Flaky {
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

/// The directory of a store, kept in memory. Its current file and every later one are on disks that fail together.
#[derive(Debug, Clone)]
struct Shelf {
    file: Arc<Mutex<Flaky>>,
    acknowledged: Arc<Mutex<Option<u64>>>,
}

impl Shelf {
    fn new() -> Self {
        let inner = Arc::new(InMemoryBackend::new());
        let flaky = Flaky { inner, full: Arc::default(), refused: Arc::default() };
        let shelf = Self { file: Arc::new(Mutex::new(flaky)), acknowledged: Arc::default() };
        shelf.renew(&|database| rows::transact(&database, rows::make_tables)).unwrap();
        shelf
    }

    fn file(&self) -> Flaky {
        self.file.lock().unwrap().clone()
    }
}

impl StoreFile for Shelf {
    fn open(&self, builder: &Builder) -> Result<Database, DiskError> {
        let database = builder.create_with_backend(self.file());
        database.map_err(|error| DiskError::Open(error.into()))
    }

    fn renew(&self, fill: Fill<'_>) -> Result<(), DiskError> {
        let fresh = Flaky { inner: Arc::new(InMemoryBackend::new()), ..self.file() };
        let database = Builder::new().create_with_backend(fresh.clone());
        fill(database.map_err(|error| DiskError::Open(error.into()))?)
            .map_err(DiskError::Commit)?;
        *self.file.lock().unwrap() = fresh;
        Ok(())
    }

    fn keep_copy(&self) {}

    fn remove_copy(&self) {}

    fn acknowledged(&self) -> Option<u64> {
        *self.acknowledged.lock().unwrap()
    }

    fn acknowledge(&self, revision: u64) {
        *self.acknowledged.lock().unwrap() = Some(revision);
    }
}

fn open(shelf: &Shelf) -> Store {
    let (disk, rows) = Disk::with(Box::new(shelf.clone())).unwrap();
    Store::start(disk, rows, 100, &[], rules()).unwrap()
}

/// Stores a ConfigMap that contains `value`, without admission functions.
fn put(store: &Store, name: &str, value: &str) -> Result<Outcome, Status> {
    let (reply, answer) = mpsc::channel();
    submit(store, name, value, reply, || {});
    answer.recv().unwrap()
}

/// Queues a job that runs `first` and then stores a ConfigMap.
fn submit(
    store: &Store,
    name: &str,
    value: &str,
    reply: mpsc::Sender<Result<Outcome, Status>>,
    first: impl FnOnce() + Send + 'static,
) {
    let key = key(name);
    let object = Object::from_value(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}),
    );
    let object = object.unwrap();
    let reply = Box::new(move |result| drop(reply.send(result)));
    let apply = Box::new(move |batch: &mut super::Batch<'_>| {
        first();
        let definition = Arc::clone(batch.registry().get("configmaps").unwrap());
        let stored = batch.put(&definition, key, object)?;
        Ok(Outcome::Stored { code: 200, stored, warnings: Vec::new() })
    });
    store.submit(Job { apply, dry_run: false, reply }).unwrap();
}

fn key(name: &str) -> Key {
    Key { resource: "configmaps".into(), namespace: "default".to_owned(), name: name.to_owned() }
}

fn value(store: &Store, name: &str) -> Option<String> {
    let stored = store.shared.read().objects.get(&key(name)).cloned()?;
    Some(stored.decode().unwrap().body["data"]["v"].as_str().unwrap().to_owned())
}

#[test]
fn on_a_full_disk_writes_fail_with_507_reads_go_on_and_later_writes_succeed() {
    let shelf = Shelf::new();
    let disk = shelf.file();
    let store = open(&shelf);
    put(&store, "a", "1").unwrap();
    let revision = store.shared.read().revision;
    disk.full.store(true, Ordering::SeqCst);
    assert_eq!(put(&store, "a", "2").unwrap_err().code, 507);
    put(&store, "b", "1").unwrap_err();
    assert!(disk.refused.load(Ordering::SeqCst) > 0);
    assert_eq!((value(&store, "a").as_deref(), value(&store, "b")), (Some("1"), None));
    assert_eq!(store.shared.read().revision, revision);

    disk.full.store(false, Ordering::SeqCst);
    // Empties the old file: the store must not read the remains of the failed commits in it.
    disk.inner.set_len(0).unwrap();
    put(&store, "c", "1").unwrap();
    store.close();
    let store = open(&shelf);
    assert_eq!((value(&store, "a").as_deref(), value(&store, "b")), (Some("1"), None));
    assert_eq!(value(&store, "c").as_deref(), Some("1"));
    let events = store.shared.read().log.since("configmaps", 0, usize::MAX).unwrap();
    let names: Vec<&str> = events.iter().map(|event| event.key.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn a_name_may_contain_the_separator_of_row_keys() {
    let shelf = Shelf::new();
    let store = open(&shelf);
    put(&store, "a\0default\0b", "1").unwrap();
    store.close();
    let store = open(&shelf);
    assert_eq!(value(&store, "a\0default\0b").as_deref(), Some("1"));
}

#[test]
fn after_a_restart_the_log_has_the_same_events_as_before() {
    let shelf = Shelf::new();
    let store = open(&shelf);
    for round in 0..250 {
        put(&store, "a", &round.to_string()).unwrap();
    }
    let horizon = store.shared.read().log.horizon();
    assert_eq!(horizon, 150);
    store.close();
    let store = open(&shelf);
    assert_eq!(store.shared.read().log.horizon(), horizon);
    let state = store.shared.read();
    assert_eq!(state.log.since("configmaps", horizon, usize::MAX).unwrap().len(), 100);
    assert!(state.log.since("configmaps", horizon - 1, usize::MAX).is_err());
}

#[test]
fn a_store_whose_creation_was_cut_short_is_created_again() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("objects.redb.new"), [0; 5000]).unwrap();
    let store = Store::open(directory.path(), 10, &[], rules()).unwrap();
    put(&store, "a", "1").unwrap();
    store.close();
    let store = Store::open(directory.path(), 10, &[], rules()).unwrap();
    assert_eq!(value(&store, "a").as_deref(), Some("1"));
    let files = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["objects.acknowledged", "objects.redb"]);
}

#[test]
fn only_one_of_several_simultaneous_opens_gets_the_store() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let stores: Vec<_> = std::thread::scope(|scope| {
            let open = || Store::open(directory.path(), 10, &[], rules());
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let opened: Vec<&Store> = stores.iter().flatten().collect();
        assert_eq!(opened.len(), 1, "{stores:?}");
        put(opened[0], "a", "1").unwrap();
    }
}

const PANICS: &str = "KUBEAPI_WRITER_PANICS";

/// The process that the next test starts; not a test by itself.
#[test]
#[ignore = "the process that a test sees end, started by it"]
fn a_writer_with_a_bug() {
    if std::env::var_os(PANICS).is_none() {
        return;
    }
    let store = open(&Shelf::new());
    let (reply, answer) = mpsc::sync_channel(1);
    let reply = Box::new(move |result: Result<Outcome, Status>| drop(reply.send(result)));
    let apply = Box::new(|_: &mut super::Batch<'_>| panic!("a bug"));
    store.submit(Job { apply, dry_run: false, reply }).unwrap();
    drop(answer.recv());
    store.close();
}

#[test]
fn a_panic_of_the_writer_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    #[expect(clippy::disallowed_methods, reason = "a test harness that starts itself")]
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let arguments = ["--exact", "store::tests::a_writer_with_a_bug", "--ignored", "--nocapture"];
    let output = command.args(arguments).env(PANICS, "1").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(nix::libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("a bug"), "{stderr}");
}
