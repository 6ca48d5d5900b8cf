//! Writes all objects of a coordinator's own API to a file, from which `coordinator restore` makes a new store.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::Client;
use serde::Deserialize;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use cli::Exit;
use cli::Output;

/// The first line of a backup.
#[derive(Debug, Deserialize)]
struct Header {
    objects: usize,
    /// Objects that the coordinator could not read.
    unread: Vec<String>,
}

pub(crate) async fn run(server: &ServerArgs, file: &Path, output: Output) -> Result<Exit, Failure> {
    refuse_other_than_files(file)?;
    let answer = request_backup(&server.client(output).await?).await?;
    // A backup contains Secrets: only the owner may read the draft, and an unfinished draft is removed.
    let draft = NamedTempFile::new_in(directory(file)).map_err(|error| unwritten(file, &error))?;
    let header = copy(answer, draft.as_file(), file).await?;
    finish(draft, file).map_err(|error| unwritten(file, &error))?;
    for object in &header.unread {
        output.note(&format!(
            "{object} is not in the backup: the coordinator cannot read it; see the coordinator's log"
        ));
    }
    if output.is_json() {
        output.json(&json!({"file": file, "objects": header.objects, "unread": header.unread}))?;
    } else {
        output.line(&format!("{} objects written to {}", header.objects, file.display()))?;
    }
    Ok(if header.unread.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Fails if the path exists and is not a regular file: the backup would replace a device or a link.
pub(super) fn refuse_other_than_files(file: &Path) -> Result<(), Failure> {
    match file.symlink_metadata() {
        Ok(there) if !there.is_file() => {
            let what = format!("{} is not a regular file", file.display());
            Err(Failure::new(Exit::Usage, what)
                .remedy("name a regular file, or a path that does not exist"))
        }
        _ => Ok(()),
    }
}

async fn request_backup(client: &Client) -> Result<impl AsyncBufRead + use<>, Failure> {
    let what = "read the backup from the API";
    let request = http::Request::get("/backup").body(Vec::new());
    let request = request.map_err(|error| Failure::new(Exit::Failed, what).because(&error))?;
    match client.request_stream(request).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
            Err(no_backup(client).await)
        }
        Err(error) => Err(failure::api(what, &error)),
    }
}

/// Explains why an API offers no backup: it is a cluster's API, or the coordinator is too old.
async fn no_backup(client: &Client) -> Failure {
    let version = client.apiserver_version().await.map(|version| version.git_version);
    match version.as_deref().ok().and_then(|version| version.split_once("+warren.")) {
        Some((_, version)) => {
            let what = format!("the coordinator (version {version}) is too old to offer a backup");
            Failure::new(Exit::Failed, what)
                .remedy("install the coordinator of this command's version there, then try again")
        }
        None => Failure::new(Exit::Usage, "this API offers no backup")
            .remedy("only a coordinator's own API does; back up the etcd of a cluster"),
    }
}

/// Copies an answer to its end: a header, the objects and a checksum, one per line.
async fn copy(answer: impl AsyncBufRead, draft: &File, file: &Path) -> Result<Header, Failure> {
    let broken = || {
        Failure::new(Exit::Retryable, "the backup is incomplete, and was not written")
            .remedy("try again; see the coordinator's log")
    };
    let mut answer = std::pin::pin!(answer);
    let mut draft = BufWriter::new(draft);
    let (mut header, mut line, mut lines) = (None, Vec::new(), 0);
    while answer.read_until(b'\n', &mut line).await.map_err(|error| broken().because(&error))? > 0 {
        if lines == 0 {
            let first = serde_json::from_slice::<Header>(&line);
            header = Some(first.map_err(|error| broken().because(&error))?);
        }
        draft.write_all(&line).map_err(|error| unwritten(file, &error))?;
        lines += 1;
        line.clear();
    }
    draft.flush().map_err(|error| unwritten(file, &error))?;
    header.filter(|header| lines == header.objects + 2).ok_or_else(broken)
}

/// Renames a finished draft to its final name, so that a power failure leaves either the old file or
/// the complete new file.
pub(super) fn finish(draft: NamedTempFile, file: &Path) -> io::Result<()> {
    draft.as_file().sync_all()?;
    draft.persist(file)?;
    File::open(directory(file))?.sync_all()
}

pub(super) fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("write {}", file.display())).because(error)
}
