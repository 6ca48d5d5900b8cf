//! Reads and writes the spool, which has two directories. Pacemaker's agent writes requests into one directory. The
//! rabbit's agent writes each answer whole into the other directory, and deletes the request last.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use daemon::chain;
use files::{sync_directory, sync_parent};
use storage::desired::NodeName;
use thiserror::Error;

use super::{
    request::{FileName, MAX_BYTES, ParsedName, Request},
    response::{Response, is_marker},
};

#[derive(Debug, Error)]
pub(super) enum SpoolError {
    #[error("open {}: check that its parent directory exists and keeps its files over a reboot, or name another directory with --fence-requests and --fence-responses", .path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The request stays on disk, so the agent would answer it again.
    #[error("delete {}", .path.display())]
    Delete {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Spool {
    pub(super) requests: PathBuf,
    pub(super) responses: PathBuf,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Nodes that have an answer which says, or may say, that they are fenced.
    pub(super) fenced: BTreeSet<NodeName>,
    /// Requests without an answer.
    pub(super) requested: BTreeMap<FileName, Request>,
    /// Requests that have an answer, because a crash came before their deletion. The value says whether the
    /// answer is a success.
    pub(super) answered: BTreeMap<FileName, bool>,
    /// Descriptions of the invalid files, with the reasons.
    pub(super) troubles: BTreeSet<String>,
}

impl Spool {
    /// Opens both directories. With `to_make`, creates a missing directory if its parent exists.
    pub(super) fn open(
        requests: PathBuf,
        responses: PathBuf,
        to_make: bool,
    ) -> Result<Self, SpoolError> {
        for path in [&requests, &responses] {
            let created = if to_make { create(path) } else { Ok(()) };
            let opened = created.and_then(|()| fs::read_dir(path).map(drop));
            opened.map_err(|source| SpoolError::Open { path: path.clone(), source })?;
        }
        Ok(Self { requests, responses })
    }

    /// Reads both directories, requests first: if a request is answered meanwhile, the scan has the request,
    /// the answer or both.
    pub(super) fn scan(&self) -> Result<Scan, SpoolError> {
        let mut scan = Scan::default();
        let requests = self.files(&self.requests, &mut scan.troubles)?;
        let responses = self.files(&self.responses, &mut scan.troubles)?;
        for (name, bytes) in &responses {
            let path = self.responses.join(name.to_string());
            let is_fenced = bytes
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|bytes| is_marker(bytes).map_err(|error| error.to_string()));
            let is_fenced = is_fenced.unwrap_or_else(|why| {
                scan.troubles.insert(format!(
                    "{} cannot be read, and {} counts as fenced until it is deleted: {why}",
                    path.display(),
                    name.node()
                ));
                true
            });
            if is_fenced {
                scan.fenced.insert(name.node().clone());
            }
        }
        for (name, bytes) in requests {
            let answer = responses.get(&name).and_then(|bytes| bytes.as_ref().ok());
            if let Some(Ok(success)) = answer.map(|bytes| is_marker(bytes)) {
                scan.answered.insert(name, success);
                continue;
            }
            let read = bytes
                .map_err(|error| error.to_string())
                .and_then(|bytes| Request::read(&name, &bytes).map_err(|error| chain(&error)));
            match read {
                Ok(request) => drop(scan.requested.insert(name, request)),
                Err(why) => {
                    let path = self.requests.join(name.to_string());
                    scan.troubles
                        .insert(format!("fence request {} is ignored: {why}", path.display()));
                }
            }
        }
        Ok(scan)
    }

    /// Returns the files of a directory by name, each with its content or the reason why it cannot be read. Leaves out
    /// files that disappear meanwhile.
    fn files(
        &self,
        directory: &Path,
        troubles: &mut BTreeSet<String>,
    ) -> Result<BTreeMap<FileName, io::Result<Vec<u8>>>, SpoolError> {
        let broken = |source| SpoolError::Read { path: directory.to_owned(), source };
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(broken)? {
            let name: OsString = entry.map_err(broken)?.file_name();
            let path = directory.join(&name);
            match name.to_str().map_or(ParsedName::Invalid, FileName::read) {
                ParsedName::Other => {}
                ParsedName::Invalid => {
                    let path = path.display();
                    troubles.insert(format!("{path} is ignored: call it <node>-<uuid>.json"));
                }
                ParsedName::File(name) => match read(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    bytes => drop(files.insert(name, bytes)),
                },
            }
        }
        Ok(files)
    }

    /// Writes an answer, whole or not at all. Returns once the answer is on disk.
    pub(super) fn answer(
        &self,
        name: &FileName,
        response: &Response<'_>,
    ) -> Result<(), SpoolError> {
        self.write(name, response, |_| true)
    }

    /// Rewrites an answer if it still exists: a deleted answer means that an administrator re-admitted the node.
    pub(super) fn amend(&self, name: &FileName, response: &Response<'_>) -> Result<(), SpoolError> {
        self.write(name, response, Path::exists)
    }

    fn write(
        &self,
        name: &FileName,
        response: &Response<'_>,
        is_due: fn(&Path) -> bool,
    ) -> Result<(), SpoolError> {
        let path = self.responses.join(name.to_string());
        let temporary = self.responses.join(format!(".{name}"));
        let write_file = || {
            let mut bytes = serde_json::to_vec_pretty(response).map_err(io::Error::other)?;
            bytes.push(b'\n');
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            if !is_due(&path) {
                return fs::remove_file(&temporary);
            }
            fs::rename(&temporary, &path)?;
            sync_directory(&self.responses)
        };
        write_file().map_err(|source| SpoolError::Write { path: path.clone(), source })
    }

    /// Deletes a request. The request may be gone already, because the requester deletes it too.
    pub(super) fn delete(&self, name: &FileName) -> Result<(), SpoolError> {
        let path = self.requests.join(name.to_string());
        let removed = files::none_if_absent(fs::remove_file(&path))
            .and_then(|removed| removed.map_or(Ok(()), |()| sync_directory(&self.requests)));
        removed.map_err(|source| SpoolError::Delete { path, source })
    }
}

fn create(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.and_then(|()| sync_parent(path)),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
