//! The store: objects in memory for readers, on disk before any answer, with a log of changes for watches.
//!
//! A single thread writes. Readers and watches share [`State`] under a lock that is held only briefly.

mod acknowledged;
pub(crate) mod backup;
mod batch;
mod disk;
mod file;
mod load;
mod log;
mod rows;
mod writer;

pub(crate) use batch::Batch;
pub(crate) use disk::DiskError;
pub(crate) use file::file;
pub(crate) use log::{Event, Expired, Log, Verb};
pub(crate) use writer::{Apply, Job, Outcome, Rules};

use crate::object::{Key, Object, Stored};
use crate::registry::{Definition, Registry};
use crate::status::Status;
use disk::Disk;
use rows::Rows;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, mpsc};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// All objects at one revision.
#[derive(Debug)]
pub(crate) struct State {
    /// Revision of the latest change; the `resourceVersion` of lists.
    pub(crate) revision: u64,
    pub(crate) objects: BTreeMap<Key, Arc<Stored>>,
    /// Dependents: the objects with an owner reference to this uid.
    pub(crate) dependents: HashMap<String, BTreeSet<Key>>,
    pub(crate) log: Log,
    pub(crate) registry: Arc<Registry>,
    /// Objects whose rows in the file cannot be read.
    pub(crate) unread: BTreeSet<Key>,
}

/// The part of the store that readers, watches and the writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: RwLock<State>,
    /// A channel for each resource, which carries the revision of the latest change.
    signals: Mutex<Signals>,
}

#[derive(Debug, Default)]
struct Signals {
    closed: bool,
    by_resource: HashMap<Arc<str>, watch::Sender<u64>>,
}

/// Handle that keeps the writer alive.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) shared: Arc<Shared>,
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in `directory`, which must exist, and starts its writer. `crds` replace stored definitions that
    /// cannot be read. The writer applies `rules` to each job.
    pub(crate) fn open(
        directory: &Path,
        history: usize,
        crds: &[Value],
        rules: Rules,
    ) -> Result<Self, DiskError> {
        let (disk, rows) = Disk::open(directory)?;
        Self::start(disk, rows, history, crds, rules)
    }

    fn start(
        mut disk: Disk,
        rows: Rows,
        history: usize,
        crds: &[Value],
        rules: Rules,
    ) -> Result<Self, DiskError> {
        let (mut state, unread) = load::state(rows, history, crds);
        for row in &unread {
            let key = row.key.replace('\0', "/");
            ::log::error!(
                row:% = key.escape_debug(), problem:% = row.problem;
                "an object cannot be read: it is missing in the API, and stays in the store's file until an object of that name takes its place"
            );
        }
        state.unread = unread.iter().filter_map(|row| load::parse_key(&row.key).ok()).collect();
        disk.keep(unread);
        let shared = Arc::new(Shared { state: RwLock::new(state), signals: Mutex::default() });
        let (queue, jobs) = mpsc::channel();
        let for_writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("kubeapi-writer".to_owned())
            .spawn(move || writer::run(&for_writer, disk, &jobs, &rules))
            .map_err(DiskError::StartWriter)?;
        Ok(Self { shared, queue: Mutex::new(Some(queue)), writer: Mutex::new(Some(writer)) })
    }

    /// Queues a job for the writer, which calls the job's `reply` once the change is on disk.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Status> {
        let stopped = || Status::unavailable("the API server is shutting down");
        let queue = lock(&self.queue);
        queue.as_ref().ok_or_else(stopped)?.send(job).map_err(|_| stopped())
    }

    /// Finishes the queued jobs, ends all watches and closes the files.
    pub(crate) fn close(&self) {
        drop(lock(&self.queue).take());
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer {
            // `join` fails only after a panic of the writer, and such a panic has ended the process.
            drop(writer.join());
        }
        self.shared.end_watches();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that is notified of every later change to `resource`; `None` once the store is closed.
    pub(crate) fn subscribe(&self, resource: &Arc<str>) -> Option<watch::Receiver<u64>> {
        let mut signals = lock(&self.signals);
        if signals.closed {
            return None;
        }
        let sender =
            signals.by_resource.entry(Arc::clone(resource)).or_insert_with(|| watch::channel(0).0);
        Some(sender.subscribe())
    }

    fn end_watches(&self) {
        let mut signals = lock(&self.signals);
        signals.closed = true;
        signals.by_resource.clear();
    }

    fn signal(&self, resource: &str, revision: u64) {
        if let Some(sender) = lock(&self.signals).by_resource.get(resource) {
            sender.send_replace(revision);
        }
    }

    /// Wakes all watches, so that they can send the latest revision to their clients.
    fn signal_all(&self, revision: u64) {
        for sender in lock(&self.signals).by_resource.values() {
            sender.send_replace(revision);
        }
    }
}

impl State {
    fn new(history: usize) -> Self {
        Self {
            revision: 0,
            objects: BTreeMap::new(),
            dependents: HashMap::new(),
            log: Log::new(history),
            registry: Arc::new(Registry::builtin()),
            unread: BTreeSet::new(),
        }
    }

    /// Returns the objects of one resource from `start` on, in list order: of one namespace, or of all namespaces.
    pub(crate) fn range<'a>(
        &'a self,
        resource: &Arc<str>,
        namespace: Option<&'a str>,
        start: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
        let first = Key {
            resource: Arc::clone(resource),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        };
        let first = start.filter(|start| **start > first).cloned().unwrap_or(first);
        let resource = Arc::clone(resource);
        self.objects.range(first..).take_while(move |(key, _)| {
            key.resource == resource && namespace.is_none_or(|namespace| key.namespace == namespace)
        })
    }

    /// Returns the objects of one resource in their state at an earlier revision.
    pub(crate) fn snapshot(
        &self,
        resource: &Arc<str>,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<BTreeMap<Key, Arc<Stored>>, Expired> {
        let mut objects: BTreeMap<Key, Arc<Stored>> = self
            .range(resource, namespace, None)
            .map(|(key, stored)| (key.clone(), Arc::clone(stored)))
            .collect();
        let later = self.log.since(resource, revision, usize::MAX)?;
        for event in later.iter().rev() {
            if namespace.is_some_and(|namespace| event.key.namespace != namespace) {
                continue;
            }
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), Arc::clone(previous)),
                None => objects.remove(&event.key),
            };
        }
        Ok(objects)
    }

    fn set(&mut self, key: &Key, stored: Option<&Arc<Stored>>) {
        let before = match stored {
            Some(stored) => self.objects.insert(key.clone(), Arc::clone(stored)),
            None => self.objects.remove(key),
        };
        for owner in before.iter().flat_map(|stored| &stored.owners) {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        for owner in stored.iter().flat_map(|stored| &stored.owners) {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
    }

    /// Replaces the registry, and converts the objects of changed kinds to their new schemas.
    fn adopt(&mut self, registry: Arc<Registry>) {
        let changed: Vec<Arc<Definition>> = registry
            .iter()
            .filter(|definition| definition.custom)
            .filter(|definition| {
                !self.registry.get(&definition.id).is_some_and(|old| Arc::ptr_eq(old, definition))
            })
            .cloned()
            .collect();
        self.registry = registry;
        for definition in changed {
            self.reload(&definition);
        }
    }

    fn reload(&mut self, definition: &Definition) {
        let objects: Vec<(Key, Arc<Stored>)> = self
            .range(&definition.id, None, None)
            .map(|(key, stored)| (key.clone(), Arc::clone(stored)))
            .collect();
        for (key, stored) in objects {
            match stored.decode() {
                Ok(object) => {
                    self.set(&key, Some(&Arc::new(converted(definition, object, stored.revision))));
                }
                Err(status) => {
                    ::log::error!(key:% = key, error:% = status; "a stored object cannot be decoded");
                }
            }
        }
    }
}

/// Converts a stored object to the current definition of its kind: to the storage version, with the defaults
/// of the current schema.
fn converted(definition: &Definition, mut object: Object, revision: u64) -> Stored {
    object.api_version.clone_from(&definition.storage_version);
    if definition.custom
        && let Some(version) = definition.storage()
    {
        version.schema.fill(&mut object.body);
    }
    definition.stored(&object, revision)
}

/// Locks a mutex, even if a panic poisoned it: no code that holds the lock can panic between two related changes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
