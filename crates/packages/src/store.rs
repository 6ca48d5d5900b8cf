//! The directory with packages.
//!
//! | where | what |
//! |---|---|
//! | `ready/KEY/content` | the file, or the directory with what is in the archive |
//! | `ready/KEY/package.json` | what it was checked against |
//! | `fetching/KEY` | what is not complete; whoever comes next begins anew |
//! | `uses/KEY.UID` | the object that uses it |
//!
//! KEY is the digest, or `DIGEST-unpacked`.

use std::{
    fmt, fs,
    fs::{DirBuilder, File},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use containers::Package;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

const READY: &str = "ready";
const FETCHING: &str = "fetching";
const USES: &str = "uses";
const CONTENT: &str = "content";
const MARKER: &str = "package.json";

/// The directory cannot be used.
#[derive(Debug, Error)]
#[error("{}", .path.display())]
pub struct StoreError {
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

/// A package's name on the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn of(package: &Package) -> Self {
        let form = if package.unpacked.is_some() { "-unpacked" } else { "" };
        Self(format!("{}{form}", package.sha256))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a complete package was checked against.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    sha256: String,
    size: u64,
    is_unpacked: bool,
}

/// Where containers find a package that is in place.
#[must_use]
pub fn content(directory: &Path, package: &Package) -> PathBuf {
    directory.join(READY).join(Key::of(package).0).join(CONTENT)
}

/// The directory.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    /// Held while something gets or loses its name.
    names: Mutex<()>,
}

impl Store {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), names: Mutex::new(()) }
    }

    /// Where a package is once it is complete.
    pub(crate) fn content(&self, package: &Package) -> PathBuf {
        content(&self.directory, package)
    }

    /// Marks a package as used. Returns when the mark is on disk.
    pub(crate) fn take(&self, key: &Key, uid: Uuid) -> Result<(), StoreError> {
        let _names = self.names.lock();
        let uses = self.ensure(USES)?;
        let path = uses.join(mark(key, uid));
        at(&path, File::create(&path))?;
        sync(&uses)
    }

    /// Whether an object is marked as using a package.
    pub(crate) fn is_used_by(&self, key: &Key, uid: Uuid) -> bool {
        self.directory.join(USES).join(mark(key, uid)).exists()
    }

    /// Whether a package is complete.
    pub(crate) fn is_ready(&self, package: &Package) -> bool {
        let path = self.place(READY, &Key::of(package)).join(MARKER);
        let marker = fs::read(path).ok();
        let marker: Option<Marker> = marker.and_then(|text| serde_json::from_slice(&text).ok());
        marker.is_some_and(|one| one.sha256 == package.sha256 && one.size == package.size)
    }

    /// An empty directory for a package that is about to come.
    pub(crate) fn begin(&self, key: &Key) -> Result<PathBuf, StoreError> {
        self.ensure(FETCHING)?;
        let path = self.place(FETCHING, key);
        removed(&path)?;
        at(&path, DirBuilder::new().mode(0o755).create(&path))?;
        Ok(path)
    }

    /// Gives a package that came completely its place, if anybody uses it still. Returns when it has it on disk.
    pub(crate) fn complete(&self, package: &Package) -> Result<(), StoreError> {
        let key = Key::of(package);
        let from = self.place(FETCHING, &key);
        let marker = Marker {
            sha256: package.sha256.clone(),
            size: package.size,
            is_unpacked: package.unpacked.is_some(),
        };
        let marker = serde_json::to_vec(&marker).expect("texts and numbers are JSON");
        let path = from.join(MARKER);
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(&marker)?;
            file.sync_all()
        };
        at(&path, write())?;
        sync(&from)?;
        let _names = self.names.lock();
        if self.users(&key)?.is_empty() {
            return removed(&from);
        }
        let ready = self.ensure(READY)?;
        let to = self.place(READY, &key);
        // One whose marker is not as it should be.
        removed(&to)?;
        at(&to, fs::rename(&from, &to))?;
        sync(&ready)
    }

    /// Removes what did not come completely.
    pub(crate) fn discard(&self, key: &Key) -> Result<(), StoreError> {
        removed(&self.place(FETCHING, key))
    }

    /// Takes an object's marks away, and removes the packages that it was the last to use. What `is_fetched` names is left to whoever
    /// fetches it.
    pub(crate) fn release(
        &self,
        uid: Uuid,
        is_fetched: impl Fn(&Key) -> bool,
    ) -> Result<(), StoreError> {
        let _names = self.names.lock();
        for (key, _) in self.marks()?.into_iter().filter(|(_, of)| *of == uid) {
            let is_last = self.users(&key)?.iter().all(|of| *of == uid);
            if is_last && !is_fetched(&key) {
                self.remove(&key)?;
            }
            // The mark goes last: an agent that dies before comes here again.
            let path = self.directory.join(USES).join(mark(&key, uid));
            at(&path, fs::remove_file(&path))?;
        }
        Ok(())
    }

    /// Removes a package that nobody uses.
    pub(crate) fn remove_unused(&self, key: &Key) -> Result<(), StoreError> {
        let _names = self.names.lock();
        if self.users(key)?.is_empty() { self.remove(key) } else { Ok(()) }
    }

    /// Removes a package. It loses its name first: what is left of it by a crash is not taken for a package.
    fn remove(&self, key: &Key) -> Result<(), StoreError> {
        let (ready, fetching) = (self.place(READY, key), self.place(FETCHING, key));
        removed(&fetching)?;
        if ready.exists() {
            self.ensure(FETCHING)?;
            at(&ready, fs::rename(&ready, &fetching))?;
            removed(&fetching)?;
        }
        Ok(())
    }

    fn users(&self, key: &Key) -> Result<Vec<Uuid>, StoreError> {
        let marks = self.marks()?.into_iter().filter(|(of, _)| of == key);
        Ok(marks.map(|(_, uid)| uid).collect())
    }

    fn marks(&self) -> Result<Vec<(Key, Uuid)>, StoreError> {
        let path = self.directory.join(USES);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => at(&path, entries)?,
        };
        let mut marks = Vec::new();
        for entry in entries {
            let name = at(&path, entry)?.file_name();
            let parts = name.to_str().and_then(|name| name.split_once('.'));
            let mark = parts.and_then(|(key, uid)| Some((Key(key.to_owned()), uid.parse().ok()?)));
            marks.extend(mark);
        }
        Ok(marks)
    }

    fn place(&self, which: &str, key: &Key) -> PathBuf {
        self.directory.join(which).join(&key.0)
    }

    /// Makes one of the directories, which root alone may enter: containers of other users run on this node too.
    fn ensure(&self, which: &str) -> Result<PathBuf, StoreError> {
        let path = self.directory.join(which);
        let mut builder = DirBuilder::new();
        at(&path, builder.recursive(true).mode(0o700).create(&path))?;
        let own = fs::Permissions::from_mode(0o700);
        at(&self.directory, fs::set_permissions(&self.directory, own))?;
        Ok(path)
    }
}

fn mark(key: &Key, uid: Uuid) -> String {
    format!("{key}.{uid}")
}

fn removed(path: &Path) -> Result<(), StoreError> {
    match trees::remove(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => at(path, done),
    }
}

fn sync(directory: &Path) -> Result<(), StoreError> {
    at(directory, File::open(directory).and_then(|file| file.sync_all()))
}

fn at<T>(path: &Path, done: io::Result<T>) -> Result<T, StoreError> {
    done.map_err(|source| StoreError { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
