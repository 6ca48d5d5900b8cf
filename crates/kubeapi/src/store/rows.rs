//! The contents of the store's file: redb tables. A start reads all rows; each change writes only its own rows.

use super::State;
use super::load::{Unread, key_text};
use super::log::{Event, Verb};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::sync::Arc;

/// Table of objects: from `resource NUL namespace NUL name` to the object's JSON.
pub(super) const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// Table of the log: from revision to (verb, key, object, previous object if any).
const LOG: TableDefinition<'_, u64, LogRow<'_>> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Version of the format of these tables.
pub(super) const FORMAT: u64 = 1;
/// Number of revisions to skip when a store may have lost acknowledged writes. It is larger than the number of writes
/// in a coordinator's lifetime, so no client has seen a revision after the gap.
const GAP: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) revision: u64,
    pub(super) horizon: u64,
    pub(super) objects: Vec<(String, Vec<u8>)>,
    pub(super) events: Vec<EventRow>,
}

impl Rows {
    /// Raises the revision above all revisions that a client can have seen, and empties the log: clients that resume a
    /// watch get 410, and clients that update an object with an old resourceVersion get 409.
    pub(super) fn skip_revisions(&mut self) {
        self.revision += GAP;
        self.horizon = self.revision;
        self.events.clear();
    }
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

/// Returns the version of the tables' format in a file; zero if the file names no version.
pub(super) fn format(database: &Database) -> Result<u64, redb::Error> {
    match database.begin_read()?.open_table(META) {
        Ok(meta) => Ok(meta.get("format")?.map_or(0, |row| row.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn read(database: &Database) -> Result<Rows, redb::Error> {
    let transaction = database.begin_read()?;
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

pub(super) fn transact(
    database: &Database,
    change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    change(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// Creates the tables that every file has.
pub(super) fn make_tables(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(OBJECTS)?;
    transaction.open_table(LOG)?;
    transaction.open_table(META)?.insert("format", FORMAT)?;
    Ok(())
}

/// Adds a batch to the file, and removes the events that the log drops.
pub(super) fn append(
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

/// Fills a new file with the state in memory, and with the rows that cannot be decoded.
pub(super) fn fill(
    transaction: &WriteTransaction,
    state: &State,
    unread: &[Unread],
) -> Result<(), redb::Error> {
    make_tables(transaction)?;
    let mut objects = transaction.open_table(OBJECTS)?;
    for row in unread {
        objects.insert(row.key.as_str(), &*row.json)?;
    }
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

pub(super) fn write_meta(
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
