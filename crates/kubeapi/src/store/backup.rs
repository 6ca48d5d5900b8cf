//! Backup: writes all objects of a store as text, and restores a new store from this text.
//!
//! ```text
//! {"backup":1,"revision":…,"taken":"…","objects":…,"unread":[…]}
//! {"key":["resource","namespace","name"],"object":{…}}            one line for each object, as it is stored
//! {"sha256":"…"}                                                  of all lines above
//! ```
//!
//! A restored store begins at a revision that no client of the old store can have seen, with an empty log: a client
//! that resumes a watch gets 410, and a client that updates an object with the old resourceVersion gets 409. The
//! objects keep their uids, finalizers and status.

use super::file::{Directory, StoreFile};
use super::load::{self, key_text};
use super::rows::{self, Rows};
use super::{DiskError, Shared};
use crate::object::{Key, Stored};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::Stream;
use hyper::body::Bytes;
use ring::digest::{Context, SHA256};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Version of the format above.
const FORMAT: u64 = 1;
/// Number of bytes that are encoded at a time.
const CHUNK: usize = 64 << 10;

#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("the backup cannot be read")]
    Read(#[source] io::Error),
    #[error("line {line} of the backup is no valid {expected}: nothing was restored")]
    Parse { line: usize, expected: &'static str, source: serde_json::Error },
    #[error(
        "the backup has format {found}, but this program reads only format {FORMAT}: nothing was restored"
    )]
    Format { found: u64 },
    #[error("the backup is cut off after line {lines}: nothing was restored")]
    Short { lines: usize },
    #[error("the backup's checksum does not match its content: nothing was restored")]
    Checksum,
    #[error("{object} of the backup cannot be read, {problem}: nothing was restored")]
    Object { object: String, problem: String },
    #[error("{} exists already: move it away first", file.display())]
    Exists { file: PathBuf },
    #[error("the store cannot be created")]
    Make(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Restored {
    pub objects: usize,
    /// Time at which the backup was taken (RFC 3339).
    pub taken: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    backup: u64,
    revision: u64,
    taken: String,
    objects: usize,
    /// Objects that are missing in the backup, because the server could not read them.
    unread: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Line {
    key: (String, String, String),
    object: Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct Footer {
    sha256: String,
}

pub(crate) fn write(shared: &Shared) -> impl Stream<Item = Bytes> + Send + use<> {
    let (header, objects) = {
        let state = shared.read();
        let objects: Vec<(Key, Arc<Stored>)> =
            state.objects.iter().map(|(key, stored)| (key.clone(), Arc::clone(stored))).collect();
        let header = Header {
            backup: FORMAT,
            revision: state.revision,
            taken: jiff::Timestamp::now().strftime("%FT%TZ").to_string(),
            objects: objects.len(),
            unread: state.unread.iter().map(Key::to_string).collect(),
        };
        (header, objects)
    };
    let lines = std::iter::once(format!("{}\n", json!(header)).into_bytes())
        .chain(objects.into_iter().map(|(key, stored)| line(&key, &stored)));
    futures::stream::iter(Chunks { lines, digest: Some(Context::new(&SHA256)) })
}

fn line(key: &Key, stored: &Stored) -> Vec<u8> {
    let key = json!([&*key.resource, key.namespace, key.name]);
    let mut line = format!("{{\"key\":{key},\"object\":").into_bytes();
    line.extend_from_slice(&stored.json);
    line.extend_from_slice(b"}\n");
    line
}

/// Joins the backup's lines into larger pieces, and adds the checksum of the lines at the end.
struct Chunks<I> {
    lines: I,
    /// `None` once the checksum has been written.
    digest: Option<Context>,
}

impl<I: Iterator<Item = Vec<u8>>> Iterator for Chunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut digest = self.digest.take()?;
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let Some(line) = self.lines.next() else {
                digest.update(&chunk);
                let footer = Footer { sha256: STANDARD.encode(digest.finish()) };
                chunk.extend_from_slice(format!("{}\n", json!(footer)).as_bytes());
                return Some(chunk.into());
            };
            chunk.extend_from_slice(&line);
        }
        digest.update(&chunk);
        self.digest = Some(digest);
        Some(chunk.into())
    }
}

/// Creates a store in `directory` from a backup. The directory must not contain a store.
///
/// # Errors
/// [`RestoreError`]; in this case no store was created.
pub fn restore(directory: &Path, backup: impl BufRead) -> Result<Restored, RestoreError> {
    let (header, mut rows) = read(backup)?;
    let failed = |error: DiskError| RestoreError::Make(Box::new(error));
    crate::make_directory(directory).map_err(|error| RestoreError::Make(Box::new(error)))?;
    let directory = Directory::claim(directory).map_err(failed)?;
    let file = directory.file();
    if file.try_exists().map_err(|error| failed(DiskError::Create(error)))? {
        return Err(RestoreError::Exists { file });
    }
    // The old store may have acknowledged writes after the backup. The new revisions must begin above the revisions of
    // these writes too.
    rows.revision = header.revision.max(directory.acknowledged().unwrap_or_default());
    rows.skip_revisions();
    let revision = rows.revision;
    let (state, unread) = load::state(rows, 1, &[]);
    if let Some(row) = unread.into_iter().next() {
        return Err(RestoreError::Object {
            object: row.key.replace('\0', "/"),
            problem: row.problem,
        });
    }
    directory
        .renew(&|database| rows::transact(&database, |change| rows::fill(change, &state, &[])))
        .map_err(failed)?;
    directory.acknowledge(revision);
    Ok(Restored { objects: header.objects, taken: header.taken })
}

fn read(backup: impl BufRead) -> Result<(Header, Rows), RestoreError> {
    let mut lines = Lines { lines: backup.split(b'\n'), number: 0, digest: Context::new(&SHA256) };
    let header: Header = lines.next("header of a backup")?;
    if header.backup != FORMAT {
        return Err(RestoreError::Format { found: header.backup });
    }
    let mut rows = Rows::default();
    for _ in 0..header.objects {
        let Line { key: (resource, namespace, name), object } = lines.next("object")?;
        let key = Key { resource: resource.into(), namespace, name };
        rows.objects.push((key_text(&key), object.to_string().into_bytes()));
    }
    let sum = STANDARD.encode(lines.digest.clone().finish());
    let Footer { sha256 } = lines.next("checksum")?;
    if sha256 == sum { Ok((header, rows)) } else { Err(RestoreError::Checksum) }
}

/// The lines of a backup, and the checksum of the lines read so far.
struct Lines<R> {
    lines: io::Split<R>,
    number: usize,
    digest: Context,
}

impl<R: BufRead> Lines<R> {
    fn next<T: DeserializeOwned>(&mut self, expected: &'static str) -> Result<T, RestoreError> {
        let text = self.lines.next().ok_or(RestoreError::Short { lines: self.number })?;
        let text = text.map_err(RestoreError::Read)?;
        self.number += 1;
        self.digest.update(&text);
        self.digest.update(b"\n");
        let line = self.number;
        serde_json::from_slice(&text).map_err(|source| RestoreError::Parse {
            line,
            expected,
            source,
        })
    }
}
