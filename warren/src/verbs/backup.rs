//! Writes everything that a coordinator's own API holds to a file, from which `coordinator restore` makes a new store.

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
use nodeclient::Exit;
use nodeclient::Output;

/// What the first line of a backup says of it.
#[derive(Debug, Deserialize)]
struct Header {
    objects: usize,
    /// Objects that the coordinator could not read itself.
    unread: Vec<String>,
}

pub(crate) async fn run(server: &ServerArgs, file: &Path, output: Output) -> Result<Exit, Failure> {
    refuse_other_than_files(file)?;
    let answer = ask(&server.client(output).await?).await?;
    // A backup contains Secrets: only the owner may read the draft, and it is removed if it is not finished.
    let draft = NamedTempFile::new_in(directory(file)).map_err(|error| unwritten(file, &error))?;
    let header = copy(answer, draft.as_file(), file).await?;
    finish(draft, file).map_err(|error| unwritten(file, &error))?;
    for object in &header.unread {
        output.note(&format!(
            "{object} is not in the backup: the coordinator cannot read it, its log tells why"
        ));
    }
    if output.is_json() {
        output.json(&json!({"file": file, "objects": header.objects, "unread": header.unread}))?;
    } else {
        output.line(&format!("{} objects written to {}", header.objects, file.display()))?;
    }
    Ok(if header.unread.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Refuses a path at which something else than a file is: the backup would replace a device or a link.
fn refuse_other_than_files(file: &Path) -> Result<(), Failure> {
    match file.symlink_metadata() {
        Ok(there) if !there.is_file() => {
            let what = format!("{} is no file", file.display());
            Err(Failure::new(Exit::Usage, what).remedy("name one, or a place where there is none"))
        }
        _ => Ok(()),
    }
}

async fn ask(client: &Client) -> Result<impl AsyncBufRead + use<>, Failure> {
    let what = "read the backup from the API";
    let request = http::Request::get("/backup").body(Vec::new());
    let request = request.map_err(|error| Failure::new(Exit::Failed, what).because(&error))?;
    match client.request_stream(request).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
            Err(gives_none(client).await)
        }
        Err(error) => Err(failure::api(what, &error)),
    }
}

/// Why an API does not know of backups: it is a cluster's, or a coordinator's from before there were any.
async fn gives_none(client: &Client) -> Failure {
    let version = client.apiserver_version().await.map(|version| version.git_version);
    match version.as_deref().ok().and_then(|version| version.split_once("+warren.")) {
        Some((_, version)) => {
            let what = format!("the coordinator (version {version}) is too old to give a backup");
            Failure::new(Exit::Failed, what)
                .remedy("install the coordinator of this command's version there, then try again")
        }
        None => Failure::new(Exit::Usage, "this API gives no backup of itself")
            .remedy("only that of a coordinator does; of a cluster back up its etcd"),
    }
}

/// Copies an answer to its end: a header, the objects, a checksum, a line each.
async fn copy(answer: impl AsyncBufRead, draft: &File, file: &Path) -> Result<Header, Failure> {
    let broken = || {
        Failure::new(Exit::Retryable, "the backup broke off, and was not written")
            .remedy("try again; the coordinator's log tells more")
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

/// Moves a finished draft to its final name, so that after a power cut there is the old file or the whole new one.
fn finish(draft: NamedTempFile, file: &Path) -> io::Result<()> {
    draft.as_file().sync_all()?;
    draft.persist(file)?;
    File::open(directory(file))?.sync_all()
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("write {}", file.display())).because(error)
}
