//! The store's file in its directory: opening, locking and replacing the file.

use super::acknowledged::Acknowledged;
use super::disk::DiskError;
use redb::{Builder, Database};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes the contents of a new file, and syncs it.
pub(super) type Fill<'a> = &'a dyn Fn(Database) -> Result<(), redb::Error>;

/// The place of one store's file.
pub(super) trait StoreFile: Send {
    fn open(&self, builder: &Builder) -> Result<Database, DiskError>;

    /// Copies the file before redb changes it: an administrator may need the copy to find the cause of the damage.
    fn keep_copy(&self);

    fn remove_copy(&self);

    /// Replaces the file by a new file, or creates it; after an error the old file is still in place, unchanged.
    fn renew(&self, fill: Fill<'_>) -> Result<(), DiskError>;

    /// Returns the latest acknowledged revision; `None` when it is unknown.
    fn acknowledged(&self) -> Option<u64>;

    /// Records that all changes up to `revision` are on stable storage.
    fn acknowledge(&self, revision: u64);
}

/// Returns the path of the store's file in its directory.
pub(crate) fn file(directory: &Path) -> PathBuf {
    directory.join("objects.redb")
}

/// A directory that belongs to this process while this value lives.
pub(super) struct Directory {
    path: PathBuf,
    /// The locked directory (flock(2)). The lock is not on the store's file, because the file may be replaced.
    handle: File,
    acknowledged: Acknowledged,
}

impl Directory {
    pub(super) fn claim(path: &Path) -> Result<Self, DiskError> {
        let handle = File::open(path).map_err(DiskError::Create)?;
        handle.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => DiskError::InUse,
            std::fs::TryLockError::Error(error) => DiskError::Create(error),
        })?;
        Ok(Self { path: path.to_owned(), handle, acknowledged: Acknowledged::in_directory(path) })
    }

    pub(super) fn file(&self) -> PathBuf {
        file(&self.path)
    }

    fn copy_path(&self) -> PathBuf {
        self.path.join("objects.redb.before")
    }

    fn write(draft: &Path, fill: Fill<'_>) -> Result<(), DiskError> {
        // Mode 0600, because the store will contain Secrets.
        let open =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft);
        drop(open.map_err(DiskError::Create)?);
        let database =
            Builder::new().create(draft).map_err(|error| DiskError::Open(error.into()))?;
        fill(database).map_err(DiskError::Commit)
    }
}

impl StoreFile for Directory {
    fn open(&self, builder: &Builder) -> Result<Database, DiskError> {
        let database = builder.open(self.file());
        database.map_err(|error| DiskError::of_content(error.into(), DiskError::Open))
    }

    fn keep_copy(&self) {
        // The copy gets the mode of the original: it contains the same Secrets.
        let copy = self.copy_path();
        if let Err(error) = std::fs::copy(self.file(), &copy) {
            log::warn!(path:% = copy.display(), error:% = error; "the store file cannot be copied before its last commit is undone");
            drop(std::fs::remove_file(&copy));
        }
    }

    fn remove_copy(&self) {
        drop(std::fs::remove_file(self.copy_path()));
    }

    fn renew(&self, fill: Fill<'_>) -> Result<(), DiskError> {
        let draft = self.path.join("objects.redb.new");
        if let Err(error) = Self::write(&draft, fill) {
            // Removes the unfinished draft: on a full disk the next attempt may need its space. If the removal fails,
            // the next attempt overwrites the draft.
            drop(std::fs::remove_file(&draft));
            return Err(error);
        }
        std::fs::rename(&draft, self.file()).map_err(DiskError::Create)?;
        // Syncs the directory too, so that the new file's name survives a power cut.
        self.handle.sync_all().map_err(DiskError::Create)
    }

    fn acknowledged(&self) -> Option<u64> {
        self.acknowledged.read()
    }

    fn acknowledge(&self, revision: u64) {
        self.acknowledged.write(revision);
    }
}
