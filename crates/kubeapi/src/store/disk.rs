//! The store on disk: one redb file. A commit returns when the change is on stable storage.
//!
//! A commit costs one fdatasync, however many writes it contains. redb never overwrites a page that the last commit
//! uses. A commit writes new pages, and in the file's header a new root with the checksums of its tree; they reach the
//! disk in any order. If the power fails in between, the checksums of the new root do not match, and redb goes back to
//! the previous root. redb also has a two-phase commit, which syncs the pages first, and then the header. Warren does
//! not use it: it helps only against an attacker who chooses the contents of pages, and the order in which a failing
//! disk stores them, so that wrong pages have matching checksums. Such an attacker can write objects anyway.
//!
//! If no client got an answer for the interrupted commit, going back is correct. A separate file has the last
//! acknowledged revision, see [`super::acknowledged`]: a store that is behind this revision has lost acknowledged
//! writes, and is not opened. The separate file may be missing, because an older version of Warren wrote the store or
//! an administrator removed the file. Then a store in which redb goes back is not opened either; any other store
//! continues at a revision far above all revisions that may have been acknowledged.
//!
//! Opening a store verifies all checksums and reads all rows. redb goes back inside its `open`. Just before, redb calls
//! our repair callback, so that we can copy the file. In one case there is no callback, and so no copy: if a commit's
//! own entry in the header is damaged, redb skips the commit.
//!
//! redb may panic on pages that it did not write. Such a panic counts as damage of the file, not as a bug
//! that ends the process.
//!
//! After a failed commit the contents of the file are unknown: after a failed fdatasync the kernel may mark pages as
//! clean that never reached the disk, and return them from its cache until it drops them. The process's memory still
//! has all objects, so the next commit writes a new file.

use super::State;
use super::file::{Directory, StoreFile};
use super::load::{Unread, key_text};
use super::log::Event;
use super::rows::{self, FORMAT, Rows};
use redb::{Builder, Database};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Size of redb's page cache, in bytes. It is small, because reads are served from [`State`]: only the writer, which
/// descends redb's tree, uses the cache.
const CACHE: usize = 8 << 20;

#[derive(Debug, Error)]
pub(crate) enum DiskError {
    #[error("the store file cannot be opened")]
    Open(#[source] redb::Error),
    #[error("the store file cannot be created")]
    Create(#[source] std::io::Error),
    #[error("another process has the store open")]
    InUse,
    #[error("the store file cannot be read")]
    Read(#[source] redb::Error),
    #[error("the store has format {found}, but this program reads only format {FORMAT}")]
    Format { found: u64 },
    #[error("the pages of the file differ from the pages that were written: {0}")]
    Damaged(String),
    #[error(
        "the file ends with revision {found}, but revision {written} was written: its last commit is damaged, or it is an older copy of the store"
    )]
    Behind { found: u64, written: u64 },
    #[error("the file is gone, but revision {acknowledged} was acknowledged")]
    Gone { acknowledged: u64 },
    #[error("the store's writer thread cannot be started")]
    StartWriter(#[source] std::io::Error),
    #[error("the change cannot be written")]
    Commit(#[source] redb::Error),
}

impl DiskError {
    /// Returns whether the file system has no room left.
    pub(super) fn is_full(&self) -> bool {
        let (Self::Commit(redb::Error::Io(error))
        | Self::Open(redb::Error::Io(error))
        | Self::Create(error)) = self
        else {
            return false;
        };
        matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    }

    /// Returns whether the error says that the file is damaged: the contents are not those that this program wrote.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Behind { .. } | Self::Gone { .. })
    }

    /// Converts an error of redb to [`Self::Damaged`] if it reports damage of the file; converts any other error with
    /// `other`.
    pub(super) fn of_content(error: redb::Error, other: impl FnOnce(redb::Error) -> Self) -> Self {
        use std::io::ErrorKind::{InvalidData, UnexpectedEof};
        match error {
            redb::Error::Corrupted(problem) => Self::Damaged(problem),
            redb::Error::UpgradeRequired(version) => Self::Damaged(format!(
                "they have redb's format {version}, in which Warren never wrote a store"
            )),
            redb::Error::Io(error) if matches!(error.kind(), InvalidData | UnexpectedEof) => {
                Self::Damaged(error.to_string())
            }
            error => other(error),
        }
    }
}

pub(super) struct Disk {
    file: Box<dyn StoreFile>,
    /// `None` after a failed commit.
    database: Option<Database>,
    /// Rows that could not be read into memory.
    unread: Vec<Unread>,
}

impl Disk {
    pub(super) fn open(directory: &Path) -> Result<(Self, Rows), DiskError> {
        let directory = Directory::claim(directory)?;
        if !directory.file().try_exists().map_err(DiskError::Create)? {
            if let Some(acknowledged) = directory.acknowledged() {
                return Err(DiskError::Gone { acknowledged });
            }
            directory.renew(&|database| rows::transact(&database, rows::make_tables))?;
        }
        Self::with(Box::new(directory))
    }

    /// Opens `file` and reads it completely.
    pub(super) fn with(file: Box<dyn StoreFile>) -> Result<(Self, Rows), DiskError> {
        // `read` drops a database that it cannot read inside `catch_unwind` too, because closing a damaged file may
        // panic.
        let opened = catch_unwind(AssertUnwindSafe(|| read(&*file)));
        let (database, rows) =
            opened.unwrap_or_else(|panic| Err(DiskError::Damaged(text_of(&*panic))))?;
        Ok((Self { file, database: Some(database), unread: Vec::new() }, rows))
    }

    /// Keeps the rows that cannot be decoded, so that a new file gets these rows too.
    pub(super) fn keep(&mut self, unread: Vec<Unread>) {
        self.unread = unread;
    }

    /// Writes a batch. `state` is the state in memory before the batch. After an error the batch counts as not
    /// stored: a part of it may be in the file, but the next commit replaces the file.
    pub(super) fn commit(&mut self, state: &State, events: &[Arc<Event>]) -> Result<(), DiskError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => self.renew(state)?,
        };
        rows::transact(&database, |transaction| rows::append(transaction, state, events))
            .map_err(DiskError::Commit)?;
        self.database = Some(database);
        if !self.unread.is_empty() {
            let written: Vec<String> = events.iter().map(|event| key_text(&event.key)).collect();
            self.unread.retain(|row| !written.contains(&row.key));
        }
        self.file.acknowledge(events.last().map_or(state.revision, |event| event.revision));
        Ok(())
    }

    /// Replaces the file by a new file with the contents of `state`.
    fn renew(&self, state: &State) -> Result<Database, DiskError> {
        self.file.renew(&|database| {
            rows::transact(&database, |transaction| rows::fill(transaction, state, &self.unread))
        })?;
        self.file.open(&builder())
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

/// Opens a file, verifies all of its checksums, and reads it.
fn read(file: &dyn StoreFile) -> Result<(Database, Rows), DiskError> {
    let damaged = |error: redb::Error| DiskError::of_content(error, DiskError::Read);
    let (mut database, went_back) = open(file)?;
    if !database.check_integrity().map_err(|error| damaged(error.into()))? {
        log::warn!("the store file's page allocation tables were wrong, and were rebuilt");
    }
    match rows::format(&database).map_err(damaged)? {
        FORMAT => {}
        found => return Err(DiskError::Format { found }),
    }
    let mut rows = rows::read(&database).map_err(damaged)?;
    let found = rows.revision;
    match file.acknowledged() {
        Some(written) if written > found => return Err(DiskError::Behind { found, written }),
        Some(_) => {}
        None if went_back => {
            // At the next start redb will not go back again, but the store must still be refused. So this function
            // records an acknowledged revision that the store does not reach.
            let written = found + 1;
            file.acknowledge(written);
            return Err(DiskError::Behind { found, written });
        }
        None if found > 0 => begin_anew(&database, &mut rows)?,
        None => {}
    }
    if went_back {
        log::warn!(revision = found; "the store's last commit was interrupted and is undone: it was not acknowledged to any client");
        file.remove_copy();
    }
    file.acknowledge(rows.revision);
    Ok((database, rows))
}

/// Opens a file. Also returns whether redb went back from the last root to the previous root.
fn open(file: &dyn StoreFile) -> Result<(Database, bool), DiskError> {
    let goes_back = Arc::new(AtomicBool::new(false));
    let mut builder_without_repair = builder();
    let flag = Arc::clone(&goes_back);
    builder_without_repair.set_repair_callback(move |repair| {
        // redb calls this function with progress 0.0, 0.6 and 0.9 after every unclean end, and with 0.3 when the
        // checksums of the last root do not match.
        if (0.1..0.5).contains(&repair.progress()) {
            flag.store(true, Ordering::SeqCst);
            repair.abort();
        }
    });
    match file.open(&builder_without_repair) {
        Err(_) if goes_back.load(Ordering::SeqCst) => {
            file.keep_copy();
            Ok((file.open(&builder())?, true))
        }
        opened => Ok((opened?, false)),
    }
}

/// Raises the store's revision above all revisions that a client can have seen, because the
/// acknowledged revision is unknown.
fn begin_anew(database: &Database, rows: &mut Rows) -> Result<(), DiskError> {
    let found = rows.revision;
    rows.skip_revisions();
    rows::transact(database, |change| rows::write_meta(change, rows.revision, rows.horizon))
        .map_err(DiskError::Commit)?;
    log::warn!(found, revision = rows.revision; "the last acknowledged revision is unknown: the store continues at a far higher revision, and all clients list again");
    Ok(())
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("redb panicked").to_owned()
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("open", &self.database.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Key, Object};
    use crate::store::{Verb, load};
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_commit_after_a_failed_one_writes_a_new_file_with_all_objects_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let (mut disk, rows) = Disk::open(directory.path()).unwrap();
        assert!(matches!(Disk::open(directory.path()), Err(DiskError::InUse)));
        let (mut state, _) = load::state(rows, 10, &[]);
        let json = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}});
        let object = Object::from_value(json).unwrap();
        let stored = state.registry.get("configmaps").unwrap().stored(&object, 1);
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
        // A process that another test has just forked holds the directory's lock until its exec.
        let opened = (0..100_000).find_map(|_| {
            std::thread::yield_now();
            Disk::open(directory.path()).ok()
        });
        let (found, _) = load::state(opened.unwrap().1, 10, &[]);
        assert_eq!((found.revision, &found.objects), (1, &state.objects));
        assert_eq!(found.log.events().collect::<Vec<_>>(), [&event]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!directory.path().join("objects.redb.new").exists());
    }
}
