//! The store on disk: one redb file. A commit returns when the change is on stable storage.

use super::log::{Event, Verb};
use super::{State, load};
use crate::object::Key;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
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
const CACHE: usize = 8 << 20;

#[derive(Debug, Error)]
pub(crate) enum DiskError {
    #[error("the store file cannot be opened")]
    Open(#[source] redb::Error),
    #[error("the directory of the store cannot be synced")]
    SyncDirectory(#[source] std::io::Error),
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
        match self {
            Self::Commit(redb::Error::Io(error)) | Self::Open(redb::Error::Io(error)) => {
                matches!(
                    error.kind(),
                    std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
                )
            }
            _ => false,
        }
    }
}

type Opener = Box<dyn Fn() -> Result<Database, redb::DatabaseError> + Send>;

pub(super) struct Disk {
    opener: Opener,
    /// Absent after a failed commit: redb refuses everything then until the file is opened anew.
    database: Option<Database>,
    /// Objects that a failed commit may have changed on disk although everybody was told that it failed.
    doubtful: Vec<Key>,
}

impl Disk {
    pub(super) fn open(directory: &Path) -> Result<Self, DiskError> {
        let file = directory.join("objects.redb");
        // Secrets are in there.
        let made = OpenOptions::new().create(true).append(true).mode(0o600).open(&file);
        made.map_err(|error| DiskError::Open(redb::Error::Io(error)))?;
        let disk =
            Self::with(Box::new(move || Builder::new().set_cache_size(CACHE).create(&file)))?;
        // The file's name must survive a power cut as surely as its contents do.
        let sync = std::fs::File::open(directory).and_then(|directory| directory.sync_all());
        sync.map_err(DiskError::SyncDirectory)?;
        Ok(disk)
    }

    pub(super) fn with(opener: Opener) -> Result<Self, DiskError> {
        let database = opener().map_err(|error| DiskError::Open(error.into()))?;
        let mut disk = Self { opener, database: Some(database), doubtful: Vec::new() };
        disk.prepare()?;
        Ok(disk)
    }

    /// Makes the tables of a new file, and refuses a file of another format.
    fn prepare(&mut self) -> Result<(), DiskError> {
        match self.format().map_err(DiskError::Read)? {
            Some(FORMAT) => Ok(()),
            Some(found) => Err(DiskError::Format { found }),
            None => self.transact(|transaction| {
                transaction.open_table(OBJECTS)?;
                transaction.open_table(LOG)?;
                transaction.open_table(META)?.insert("format", FORMAT)?;
                Ok(())
            }),
        }
    }

    fn format(&self) -> Result<Option<u64>, redb::Error> {
        let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        match database.begin_read()?.open_table(META) {
            Ok(meta) => Ok(meta.get("format")?.map(|row| row.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
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
    /// The batch is not stored; whatever of it reached the disk is undone by the next commit that succeeds.
    pub(super) fn commit(&mut self, state: &State, events: &[Arc<Event>]) -> Result<(), DiskError> {
        if self.database.is_none() {
            self.database = Some((self.opener)().map_err(|error| DiskError::Open(error.into()))?);
        }
        let horizon = state.log.horizon_after(events);
        let doubtful = std::mem::take(&mut self.doubtful);
        let result = self.transact(|transaction| {
            undo(transaction, state, &doubtful)?;
            write(transaction, events)?;
            if horizon > state.log.horizon() {
                transaction.open_table(LOG)?.retain_in(..=horizon, |_, _| false)?;
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert("horizon", horizon)?;
            meta.insert("revision", events.last().map_or(state.revision, |event| event.revision))?;
            Ok(())
        });
        self.doubtful = doubtful;
        match result {
            Ok(()) => self.doubtful.clear(),
            Err(_) => {
                self.database = None;
                self.doubtful.extend(events.iter().map(|event| event.key.clone()));
            }
        }
        result
    }

    fn transact<T>(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, DiskError> {
        let run = || -> Result<T, redb::Error> {
            let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
            let transaction = database.begin_write()?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(DiskError::Commit)
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("doubtful", &self.doubtful).finish_non_exhaustive()
    }
}

fn write(transaction: &WriteTransaction, events: &[Arc<Event>]) -> Result<(), redb::Error> {
    let mut objects = transaction.open_table(OBJECTS)?;
    let mut log = transaction.open_table(LOG)?;
    for event in events {
        let key = key_text(&event.key);
        let json: &[u8] = &event.object.json;
        match event.verb {
            Verb::Added | Verb::Modified => objects.insert(key.as_str(), json)?,
            Verb::Deleted => objects.remove(key.as_str())?,
        };
        let previous: &[u8] = event.previous.as_ref().map_or(&[], |previous| &previous.json);
        log.insert(event.revision, (verb_code(event.verb), key.as_str(), json, previous))?;
    }
    Ok(())
}

/// Puts back what memory holds for the objects of a failed commit, and drops its events.
fn undo(
    transaction: &WriteTransaction,
    state: &State,
    doubtful: &[Key],
) -> Result<(), redb::Error> {
    if doubtful.is_empty() {
        return Ok(());
    }
    let mut objects = transaction.open_table(OBJECTS)?;
    for key in doubtful {
        let text = key_text(key);
        match state.objects.get(key) {
            Some(stored) => objects.insert(text.as_str(), &*stored.json)?,
            None => objects.remove(text.as_str())?,
        };
    }
    transaction.open_table(LOG)?.retain_in(state.revision + 1.., |_, _| false)?;
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
