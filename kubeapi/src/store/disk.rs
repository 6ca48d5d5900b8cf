//! The store on disk: one redb file. A commit returns when the change is on stable storage.
//!
//! A commit costs one fdatasync, however many writes are in it. redb never overwrites a page that the last commit uses; the
//! new pages, and in the file's header the new root with the checksums of its tree, go to the disk in any order. After a
//! power cut in between, the checksums of the new root do not hold and redb goes back to the root before it. That the
//! header is written before the sync and not in a second one after it (redb's two-phase commit) opens one door only: to
//! somebody who chooses the contents of pages and the order in which a dying disk stores them, so that the checksums hold.
//! Whoever could do that writes objects here anyway.
//!
//! After a commit that failed nobody knows what the file holds: a failed fdatasync lets the kernel forget pages that were
//! never stored, and reads them back from its cache as if they had been. Memory still has everything, so that the next
//! commit begins with a new file.

use super::log::{Event, Verb};
use super::place::{Directory, Place};
use super::{State, load};
use crate::object::Key;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// `resource NUL namespace NUL name` to the object's JSON.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// Revision to (verb, key, object, previous object or nothing).
const LOG: TableDefinition<'_, u64, LogRow<'_>> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) revision: u64,
    pub(super) horizon: u64,
    pub(super) objects: Vec<(String, Vec<u8>)>,
    pub(super) events: Vec<EventRow>,
}

#[derive(Debug)]
pub(super) struct EventRow {
    pub(super) revision: u64,
    pub(super) verb: u8,
    pub(super) key: String,
    pub(super) json: Vec<u8>,
    pub(super) previous: Vec<u8>,
}

type LogRow<'a> = (u8, &'a str, &'a [u8], &'a [u8]);

/// Of the tables above; another number is another layout.
const FORMAT: u64 = 1;
/// Bytes of redb's page cache. Reads come from memory, so that only the writer's tree descent uses it.
pub(super) const CACHE: usize = 8 << 20;

#[derive(Debug, Error)]
pub(crate) enum DiskError {
    #[error("the store file cannot be opened")]
    Open(#[source] redb::Error),
    #[error("the store file cannot be made")]
    Create(#[source] std::io::Error),
    #[error("another process has the store open")]
    InUse,
    #[error("the store file cannot be read")]
    Read(#[source] redb::Error),
    #[error("the store has format {found}, this program reads {FORMAT}")]
    Format { found: u64 },
    #[error("the store's row {key:?} is damaged: {problem}")]
    Damaged { key: String, problem: String },
    #[error("the store's writer thread cannot be started")]
    StartWriter(#[source] std::io::Error),
    #[error("the change cannot be written")]
    Commit(#[source] redb::Error),
}

impl DiskError {
    /// Whether the file system has no room left.
    pub(super) fn is_full(&self) -> bool {
        let (Self::Commit(redb::Error::Io(error))
        | Self::Open(redb::Error::Io(error))
        | Self::Create(error)) = self
        else {
            return false;
        };
        matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    }
}

pub(super) struct Disk {
    place: Box<dyn Place>,
    /// Absent after a failed commit.
    database: Option<Database>,
}

impl Disk {
    pub(super) fn open(directory: &Path) -> Result<Self, DiskError> {
        let place = Directory::claim(directory)?;
        if !place.file().try_exists().map_err(DiskError::Create)? {
            place.renew(&|database| transact(&database, make_tables))?;
        }
        Self::with(Box::new(place))
    }

    /// Opens the file in `place`, and refuses one of another format.
    pub(super) fn with(place: Box<dyn Place>) -> Result<Self, DiskError> {
        let disk = Self { database: Some(place.open()?), place };
        match disk.format().map_err(DiskError::Read)? {
            FORMAT => Ok(disk),
            found => Err(DiskError::Format { found }),
        }
    }

    /// Zero when the file says nothing of a format.
    fn format(&self) -> Result<u64, redb::Error> {
        let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        match database.begin_read()?.open_table(META) {
            Ok(meta) => Ok(meta.get("format")?.map_or(0, |row| row.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads everything into memory.
    pub(super) fn load(&self, history: usize) -> Result<State, DiskError> {
        load::state(&self.rows().map_err(DiskError::Read)?, history)
    }

    fn rows(&self) -> Result<Rows, redb::Error> {
        let transaction =
            self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?.begin_read()?;
        let meta = transaction.open_table(META)?;
        let number = |name: &str| -> Result<u64, redb::Error> {
            Ok(meta.get(name)?.map_or(0, |row| row.value()))
        };
        let mut rows =
            Rows { revision: number("revision")?, horizon: number("horizon")?, ..Rows::default() };
        for row in transaction.open_table(OBJECTS)?.iter()? {
            let (key, json) = row?;
            rows.objects.push((key.value().to_owned(), json.value().to_owned()));
        }
        for row in transaction.open_table(LOG)?.iter()? {
            let (revision, row) = row?;
            let (verb, key, json, previous) = row.value();
            let (key, json, previous) = (key.to_owned(), json.to_owned(), previous.to_owned());
            rows.events.push(EventRow { revision: revision.value(), verb, key, json, previous });
        }
        Ok(rows)
    }

    /// Writes a batch. `state` is what memory holds, the batch not yet in it.
    ///
    /// # Errors
    /// The batch is not stored; what of it may have reached the file goes with the file at the next commit.
    pub(super) fn commit(&mut self, state: &State, events: &[Arc<Event>]) -> Result<(), DiskError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => self.renewed(state)?,
        };
        transact(&database, |transaction| append(transaction, state, events))
            .map_err(DiskError::Commit)?;
        self.database = Some(database);
        Ok(())
    }

    /// A new file with what memory holds.
    fn renewed(&self, state: &State) -> Result<Database, DiskError> {
        self.place.renew(&|database| {
            transact(&database, |transaction| {
                make_tables(transaction)?;
                write_state(transaction, state)
            })
        })?;
        self.place.open()
    }
}

pub(super) fn transact(
    database: &Database,
    change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    change(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// What every file has.
pub(super) fn make_tables(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(OBJECTS)?;
    transaction.open_table(LOG)?;
    transaction.open_table(META)?.insert("format", FORMAT)?;
    Ok(())
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("open", &self.database.is_some()).finish_non_exhaustive()
    }
}

/// Adds a batch to what is there, and forgets what the log forgets.
fn append(
    transaction: &WriteTransaction,
    state: &State,
    events: &[Arc<Event>],
) -> Result<(), redb::Error> {
    let mut objects = transaction.open_table(OBJECTS)?;
    for event in events {
        let key = key_text(&event.key);
        match event.verb {
            Verb::Added | Verb::Modified => objects.insert(key.as_str(), &*event.object.json)?,
            Verb::Deleted => objects.remove(key.as_str())?,
        };
    }
    write_events(transaction, events)?;
    let horizon = state.log.horizon_after(events);
    if horizon > state.log.horizon() {
        transaction.open_table(LOG)?.retain_in(..=horizon, |_, _| false)?;
    }
    write_meta(transaction, events.last().map_or(state.revision, |event| event.revision), horizon)
}

/// Fills a new file.
fn write_state(transaction: &WriteTransaction, state: &State) -> Result<(), redb::Error> {
    let mut objects = transaction.open_table(OBJECTS)?;
    for (key, stored) in &state.objects {
        objects.insert(key_text(key).as_str(), &*stored.json)?;
    }
    write_events(transaction, state.log.events())?;
    write_meta(transaction, state.revision, state.log.horizon())
}

fn write_events<'a>(
    transaction: &WriteTransaction,
    events: impl IntoIterator<Item = &'a Arc<Event>>,
) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    for event in events {
        let key = key_text(&event.key);
        let previous: &[u8] = event.previous.as_ref().map_or(&[], |previous| &previous.json);
        let row = (verb_code(event.verb), key.as_str(), &*event.object.json, previous);
        log.insert(event.revision, row)?;
    }
    Ok(())
}

fn write_meta(
    transaction: &WriteTransaction,
    revision: u64,
    horizon: u64,
) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    meta.insert("horizon", horizon)?;
    meta.insert("revision", revision)?;
    Ok(())
}

fn verb_code(verb: Verb) -> u8 {
    match verb {
        Verb::Added => 0,
        Verb::Modified => 1,
        Verb::Deleted => 2,
    }
}

fn key_text(key: &Key) -> String {
    format!("{}\0{}\0{}", key.resource, key.namespace, key.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Object, Stored};
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_memory_holds_replaces_a_file_that_failed() {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = Disk::open(directory.path()).unwrap();
        assert!(matches!(Disk::open(directory.path()), Err(DiskError::InUse)));
        let mut state = disk.load(10).unwrap();
        let json = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}});
        let object = Object::from_value(json).unwrap();
        let stored = Stored::new(state.registry.get("configmaps").unwrap(), &object, 1);
        let stored = Arc::new(stored);
        let key =
            Key { resource: "configmaps".into(), namespace: String::new(), name: "a".to_owned() };
        let event = Event {
            revision: 1,
            key,
            verb: Verb::Added,
            object: Arc::clone(&stored),
            previous: None,
        };
        let event = Arc::new(event);
        disk.commit(&state, &[Arc::clone(&event)]).unwrap();
        state.set(&event.key, Some(&stored));
        state.revision = 1;
        state.log.push(Arc::clone(&event));

        drop(disk.database.take());
        let file = directory.path().join("objects.redb");
        std::fs::write(&file, b"what a failed sync left").unwrap();
        disk.commit(&state, &[]).unwrap();
        drop(disk);
        let found = Disk::open(directory.path()).unwrap().load(10).unwrap();
        assert_eq!((found.revision, &found.objects), (1, &state.objects));
        assert_eq!(found.log.events().collect::<Vec<_>>(), [&event]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
