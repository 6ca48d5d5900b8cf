//! The two spool directories: requests come in, answers are written whole, and requests are deleted last.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use daemon::chain;
use storage::desired::NodeName;
use thiserror::Error;

use super::{
    request::{FileName, LARGEST, Named, Request},
    response::{Response, is_marker},
};

#[derive(Debug, Error)]
pub(super) enum SpoolError {
    #[error("open {}: see that its parent directory is there and keeps its files over a reboot, or name another with --fence-requests and --fence-responses", .path.display())]
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
    /// The request would be answered again.
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
    /// Nodes whose answer says, or may say, that they are fenced.
    pub(super) fenced: BTreeSet<NodeName>,
    /// Requests without an answer.
    pub(super) asked: BTreeMap<FileName, Request>,
    /// Requests with an answer, each with whether it is one of success: a crash came before their deletion.
    pub(super) answered: BTreeMap<FileName, bool>,
    /// Files that are not valid, each with the reason.
    pub(super) troubles: BTreeSet<String>,
}

impl Spool {
    /// Opens both directories. With `to_make` it creates missing ones whose parent exists.
    pub(super) fn open(
        requests: PathBuf,
        responses: PathBuf,
        to_make: bool,
    ) -> Result<Self, SpoolError> {
        for path in [&requests, &responses] {
            let made = if to_make { make(path) } else { Ok(()) };
            let opened = made.and_then(|()| fs::read_dir(path).map(drop));
            opened.map_err(|source| SpoolError::Open { path: path.clone(), source })?;
        }
        Ok(Self { requests, responses })
    }

    /// Reads both directories, requests first: if one is answered meanwhile, the scan has the request, the answer or
    /// both.
    pub(super) fn scan(&self) -> Result<Scan, SpoolError> {
        let mut scan = Scan::default();
        let requests = self.files(&self.requests, &mut scan.troubles)?;
        let responses = self.files(&self.responses, &mut scan.troubles)?;
        for (name, bytes) in &responses {
            let path = self.responses.join(name.to_string());
            let marks = bytes
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|bytes| is_marker(bytes).map_err(|error| error.to_string()));
            let marks = marks.unwrap_or_else(|why| {
                scan.troubles.insert(format!(
                    "{} cannot be read, and {} counts as fenced until it is deleted: {why}",
                    path.display(),
                    name.node()
                ));
                true
            });
            if marks {
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
                Ok(request) => drop(scan.asked.insert(name, request)),
                Err(why) => {
                    let path = self.requests.join(name.to_string());
                    scan.troubles
                        .insert(format!("fence request {} is left alone: {why}", path.display()));
                }
            }
        }
        Ok(scan)
    }

    /// Files of a directory by name, with their contents or why those cannot be read. Files that disappear meanwhile
    /// are left out.
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
            match name.to_str().map_or(Named::Nameless, FileName::read) {
                Named::Other => {}
                Named::Nameless => {
                    let path = path.display();
                    troubles.insert(format!("{path} is left alone: call it <node>-<uuid>.json"));
                }
                Named::File(name) => match read(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    bytes => drop(files.insert(name, bytes)),
                },
            }
        }
        Ok(files)
    }

    /// Writes an answer, whole or not at all, and returns when it is on disk.
    pub(super) fn answer(
        &self,
        name: &FileName,
        response: &Response<'_>,
    ) -> Result<(), SpoolError> {
        self.put(name, response, |_| true)
    }

    /// Rewrites an answer that still exists: whoever deleted it has re-admitted the node.
    pub(super) fn amend(&self, name: &FileName, response: &Response<'_>) -> Result<(), SpoolError> {
        self.put(name, response, Path::exists)
    }

    fn put(
        &self,
        name: &FileName,
        response: &Response<'_>,
        is_due: fn(&Path) -> bool,
    ) -> Result<(), SpoolError> {
        let path = self.responses.join(name.to_string());
        let temporary = self.responses.join(format!(".{name}"));
        let write = || {
            let mut bytes = serde_json::to_vec_pretty(response).map_err(io::Error::other)?;
            bytes.push(b'\n');
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            if !is_due(&path) {
                return fs::remove_file(&temporary);
            }
            fs::rename(&temporary, &path)?;
            sync(&self.responses)
        };
        write().map_err(|source| SpoolError::Write { path: path.clone(), source })
    }

    /// Deletes a request. It may be gone already: the requester deletes it too.
    pub(super) fn delete(&self, name: &FileName) -> Result<(), SpoolError> {
        let path = self.requests.join(name.to_string());
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.and_then(|()| sync(&self.requests)),
        };
        removed.map_err(|source| SpoolError::Delete { path, source })
    }
}

fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.and_then(|()| path.parent().map_or(Ok(()), sync)),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it has more than {LARGEST} bytes")));
    }
    Ok(bytes)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::fence::{
        request::tests::{body, name},
        response::Verdict,
    };

    fn spool() -> (tempfile::TempDir, Spool) {
        let directory = tempfile::tempdir().unwrap();
        let [requests, responses] =
            ["requests", "responses"].map(|name| directory.path().join(name));
        let spool = Spool::open(requests, responses, true).unwrap();
        (directory, spool)
    }

    fn ask(spool: &Spool, node: &str) -> FileName {
        let name = name(node);
        fs::write(spool.requests.join(name.to_string()), body(node).to_string()).unwrap();
        name
    }

    fn answer(spool: &Spool, name: &FileName, verdict: &Verdict) {
        let bytes = body(name.node().as_str()).to_string();
        let request = Request::read(name, bytes.as_bytes()).unwrap();
        spool.answer(name, &Response::new(&request, verdict, Timestamp::UNIX_EPOCH)).unwrap();
    }

    fn nodes<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> Vec<&'a str> {
        names.into_iter().map(NodeName::as_str).collect()
    }

    #[test]
    fn directories_are_made_in_a_parent_that_is_there_and_nowhere_else() {
        let (directory, spool) = spool();
        Spool::open(spool.requests, spool.responses, false).unwrap();
        let missing = directory.path().join("not-mounted/requests");
        let error =
            Spool::open(missing.clone(), directory.path().join("responses"), true).unwrap_err();
        assert!(error.to_string().contains("--fence-requests"), "{error}");
        assert!(!missing.parent().unwrap().exists(), "a disk that is mounted later would hide it");
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Spool::open(file, directory.path().join("responses"), true).is_err());
        let gone = directory.path().join("gone");
        assert!(Spool::open(gone.clone(), directory.path().join("responses"), false).is_err());
        assert!(!gone.exists());
    }

    #[test]
    fn a_request_is_there_until_it_is_answered_and_its_node_marked_after_that() {
        let (_directory, spool) = spool();
        assert_eq!(spool.scan().unwrap(), Scan::default());
        let name = ask(&spool, "compute-01");
        let scan = spool.scan().unwrap();
        assert!(scan.asked.contains_key(&name) && scan.fenced.is_empty());

        // As after a crash between the answer and the deletion of the request.
        answer(&spool, &name, &Verdict::Detached(String::new()));
        let scan = spool.scan().unwrap();
        assert_eq!((nodes(&scan.fenced), scan.asked.len()), (vec!["compute-01"], 0));
        assert_eq!(scan.answered, [(name.clone(), true)].into());
        spool.delete(&name).unwrap();
        spool.delete(&name).unwrap();
        let scan = spool.scan().unwrap();
        assert_eq!((nodes(&scan.fenced), scan.answered.len()), (vec!["compute-01"], 0));

        fs::remove_file(spool.responses.join(name.to_string())).unwrap();
        assert_eq!(spool.scan().unwrap(), Scan::default());
        let bytes = body("compute-01").to_string();
        let request = Request::read(&name, bytes.as_bytes()).unwrap();
        let verdict = Verdict::Detached(String::new());
        spool.amend(&name, &Response::new(&request, &verdict, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(spool.scan().unwrap(), Scan::default(), "it is not fenced anew");
    }

    #[test]
    fn a_refusal_marks_nobody_and_one_success_is_enough() {
        let (_directory, spool) = spool();
        let name = ask(&spool, "compute-01");
        answer(&spool, &name, &Verdict::NotProved(String::new()));
        let scan = spool.scan().unwrap();
        assert!(scan.fenced.is_empty());
        assert_eq!(scan.answered, [(name.clone(), false)].into());
        let other = name.to_string().replace("0b9b", "1b9b");
        fs::write(spool.responses.join(other), r#"{"status": "success"}"#).unwrap();
        assert_eq!(nodes(&spool.scan().unwrap().fenced), ["compute-01"]);
    }

    #[test]
    fn what_is_torn_is_told_and_left_and_a_torn_answer_keeps_its_node_out() {
        let (_directory, spool) = spool();
        let name = ask(&spool, "compute-01");
        let request = spool.requests.join(name.to_string());
        fs::write(&request, &body("compute-01").to_string()[..40]).unwrap();
        fs::write(spool.requests.join(".half.json"), "{").unwrap();
        fs::write(spool.requests.join("notes.txt"), "x").unwrap();
        fs::write(spool.requests.join("x.json"), "{}").unwrap();
        fs::create_dir(spool.requests.join(name.to_string().replace("01-", "03-"))).unwrap();
        let torn = name.to_string().replace("01-", "02-");
        fs::write(spool.responses.join(&torn), r#"{"success": tr"#).unwrap();
        let scan = spool.scan().unwrap();
        assert!(scan.asked.is_empty() && scan.answered.is_empty());
        assert_eq!(nodes(&scan.fenced), ["compute-02"]);
        assert_eq!(scan.troubles.len(), 4, "{:#?}", scan.troubles);
        assert!(request.exists());

        // The writer closes the file: the request is whole.
        ask(&spool, "compute-01");
        assert_eq!(spool.scan().unwrap().asked.len(), 1);
    }

    #[test]
    fn a_torn_answer_does_not_count_as_one() {
        let (_directory, spool) = spool();
        let name = ask(&spool, "compute-01");
        let path = spool.responses.join(name.to_string());
        fs::write(&path, r#"{"success": tr"#).unwrap();
        let scan = spool.scan().unwrap();
        assert!(scan.asked.contains_key(&name) && scan.answered.is_empty());
        answer(&spool, &name, &Verdict::NotProved("x".into()));
        assert!(spool.scan().unwrap().fenced.is_empty(), "it was replaced as a whole");
    }

    #[test]
    fn what_a_crash_left_half_written_is_no_answer() {
        let (_directory, spool) = spool();
        let name = ask(&spool, "compute-01");
        fs::write(spool.responses.join(format!(".{name}")), r#"{"success": true}"#).unwrap();
        let scan = spool.scan().unwrap();
        assert!(scan.fenced.is_empty() && scan.asked.contains_key(&name));
        answer(&spool, &name, &Verdict::Detached(String::new()));
        assert!(!spool.responses.join(format!(".{name}")).exists());
    }

    #[test]
    fn a_directory_that_went_is_an_error_and_no_empty_one() {
        let (_directory, spool) = spool();
        fs::remove_dir(&spool.responses).unwrap();
        assert!(spool.scan().is_err());
        let name = ask(&spool, "compute-01");
        let request = Request::read(&name, body("compute-01").to_string().as_bytes()).unwrap();
        let verdict = Verdict::Detached(String::new());
        let response = Response::new(&request, &verdict, Timestamp::UNIX_EPOCH);
        assert!(spool.answer(&name, &response).is_err());
    }
}
