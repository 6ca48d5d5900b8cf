//! Stores the job packages of a node in a directory.
//!
//! | path | content |
//! |---|---|
//! | `ready/KEY/content` | the file, or the directory with the unpacked archive |
//! | `ready/KEY/package.json` | size and digest that were checked |
//! | `fetching/KEY` | incomplete files; the next fetch starts anew |
//! | `uses/KEY.UID` | mark: the object with this UID uses KEY |
//!
//! KEY is the digest, or `DIGEST-unpacked`.

use std::{
    fmt, fs,
    fs::{DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use containers::JobPackage;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

const READY: &str = "ready";
const FETCHING: &str = "fetching";
const USES: &str = "uses";
const CONTENT: &str = "content";
const MARKER: &str = "package.json";

/// Why the directory of job packages cannot be used.
#[derive(Debug, Error)]
#[error("{}", .path.display())]
pub struct StoreError {
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

/// Name of a job package's directory on the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn new(package: &JobPackage) -> Self {
        let form = if package.unpacked.is_some() { "-unpacked" } else { "" };
        Self(format!("{}{form}", package.sha256))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Size and digest that a complete job package was found to have.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    sha256: String,
    size: u64,
    is_unpacked: bool,
}

/// Returns the path at which containers find a job package once it is in place.
#[must_use]
pub fn content(directory: &Path, package: &JobPackage) -> PathBuf {
    directory.join(READY).join(Key::new(package).0).join(CONTENT)
}

/// The directory with job packages.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    /// Locked while a name in `ready` is created or removed.
    names: Mutex<()>,
}

impl Store {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), names: Mutex::new(()) }
    }

    /// Returns the path of a job package's content, once the job package is complete.
    pub(crate) fn content(&self, package: &JobPackage) -> PathBuf {
        content(&self.directory, package)
    }

    /// Marks a job package as used by an object. Returns once the mark is on disk.
    pub(crate) fn mark_used(&self, key: &Key, uid: Uuid) -> Result<(), StoreError> {
        let _names = self.names.lock();
        let uses = self.ensure(USES)?;
        let path = uses.join(mark_name(key, uid));
        name_path(&path, File::create(&path))?;
        sync(&uses)
    }

    /// Returns whether an object is marked as using a job package.
    pub(crate) fn is_used_by(&self, key: &Key, uid: Uuid) -> bool {
        self.directory.join(USES).join(mark_name(key, uid)).exists()
    }

    /// Returns whether a job package is complete.
    pub(crate) fn is_ready(&self, package: &JobPackage) -> bool {
        let path = self.place(READY, &Key::new(package)).join(MARKER);
        let marker = fs::read(path).ok();
        let marker: Option<Marker> = marker.and_then(|text| serde_json::from_slice(&text).ok());
        marker.is_some_and(|marker| marker.sha256 == package.sha256 && marker.size == package.size)
    }

    /// Creates an empty directory for a job package that is about to be fetched.
    pub(crate) fn begin(&self, key: &Key) -> Result<PathBuf, StoreError> {
        self.ensure(FETCHING)?;
        let path = self.place(FETCHING, key);
        remove_tree(&path)?;
        name_path(&path, DirBuilder::new().mode(0o755).create(&path))?;
        Ok(path)
    }

    /// Moves a complete job package to `ready`, unless no object uses the job package any more. Returns once the
    /// move is on disk.
    pub(crate) fn complete(&self, package: &JobPackage) -> Result<(), StoreError> {
        let key = Key::new(package);
        let from = self.place(FETCHING, &key);
        let marker = Marker {
            sha256: package.sha256.clone(),
            size: package.size,
            is_unpacked: package.unpacked.is_some(),
        };
        let marker = serde_json::to_vec(&marker).expect("texts and numbers are JSON");
        let path = from.join(MARKER);
        name_path(&path, files::write_durably(&path, &marker))?;
        let _names = self.names.lock();
        if self.users(&key)?.is_empty() {
            return remove_tree(&from);
        }
        let ready = self.ensure(READY)?;
        let to = self.place(READY, &key);
        // A directory that is already at this path has no valid `package.json`, so it is no complete job package.
        remove_tree(&to)?;
        name_path(&to, fs::rename(&from, &to))?;
        sync(&ready)
    }

    /// Removes the files of an incomplete fetch.
    pub(crate) fn discard(&self, key: &Key) -> Result<(), StoreError> {
        remove_tree(&self.place(FETCHING, key))
    }

    /// Removes an object's marks, and the job packages that only this object used. Keeps job packages for which
    /// `is_fetched` is true: their fetch removes them when it ends.
    pub(crate) fn release(
        &self,
        uid: Uuid,
        is_fetched: impl Fn(&Key) -> bool,
    ) -> Result<(), StoreError> {
        let _names = self.names.lock();
        for (key, _) in self.marks()?.into_iter().filter(|(_, user)| *user == uid) {
            let is_last = self.users(&key)?.iter().all(|user| *user == uid);
            if is_last && !is_fetched(&key) {
                self.remove(&key)?;
            }
            // The mark is removed last: if the agent is killed before that, the next agent finds the mark and releases
            // again.
            let path = self.directory.join(USES).join(mark_name(&key, uid));
            name_path(&path, fs::remove_file(&path))?;
        }
        Ok(())
    }

    /// Removes a job package that no object uses.
    pub(crate) fn remove_unused(&self, key: &Key) -> Result<(), StoreError> {
        let _names = self.names.lock();
        if self.users(key)?.is_empty() { self.remove(key) } else { Ok(()) }
    }

    /// Removes a job package. First moves it out of `ready`: so files that a crash leaves are not taken for
    /// a complete job package.
    fn remove(&self, key: &Key) -> Result<(), StoreError> {
        let (ready, fetching) = (self.place(READY, key), self.place(FETCHING, key));
        remove_tree(&fetching)?;
        if ready.exists() {
            self.ensure(FETCHING)?;
            name_path(&ready, fs::rename(&ready, &fetching))?;
            remove_tree(&fetching)?;
        }
        Ok(())
    }

    fn users(&self, key: &Key) -> Result<Vec<Uuid>, StoreError> {
        let marks = self.marks()?.into_iter().filter(|(marked, _)| marked == key);
        Ok(marks.map(|(_, uid)| uid).collect())
    }

    fn marks(&self) -> Result<Vec<(Key, Uuid)>, StoreError> {
        let path = self.directory.join(USES);
        let entries = name_path(&path, files::none_if_absent(fs::read_dir(&path)))?;
        let Some(entries) = entries else { return Ok(Vec::new()) };
        let mut marks = Vec::new();
        for entry in entries {
            let name = name_path(&path, entry)?.file_name();
            let parts = name.to_str().and_then(|name| name.split_once('.'));
            let mark = parts.and_then(|(key, uid)| Some((Key(key.to_owned()), uid.parse().ok()?)));
            marks.extend(mark);
        }
        Ok(marks)
    }

    fn place(&self, which: &str, key: &Key) -> PathBuf {
        self.directory.join(which).join(&key.0)
    }

    /// Creates a subdirectory that only root may enter, because containers of other users run on this node too.
    fn ensure(&self, which: &str) -> Result<PathBuf, StoreError> {
        let path = self.directory.join(which);
        let mut builder = DirBuilder::new();
        name_path(&path, builder.recursive(true).mode(0o700).create(&path))?;
        let own = fs::Permissions::from_mode(0o700);
        name_path(&self.directory, fs::set_permissions(&self.directory, own))?;
        Ok(path)
    }
}

fn mark_name(key: &Key, uid: Uuid) -> String {
    format!("{key}.{uid}")
}

fn remove_tree(path: &Path) -> Result<(), StoreError> {
    name_path(path, files::none_if_absent(files::remove_tree(path)).map(drop))
}

fn sync(directory: &Path) -> Result<(), StoreError> {
    name_path(directory, files::sync_directory(directory))
}

fn name_path<T>(path: &Path, done: io::Result<T>) -> Result<T, StoreError> {
    done.map_err(|source| StoreError { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
