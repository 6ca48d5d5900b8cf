//! The files of an authority's directory: `NAME.crt` and `NAME.key`, as PEM.

use std::{
    fs::{self, DirBuilder, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use cli::Exit;
use tempfile::NamedTempFile;

use crate::{
    ca::{AUTHORITY, Certified},
    failure::Failure,
};

/// Endings of file names.
pub(super) const CERTIFICATE: &str = "crt";
pub(super) const KEY: &str = "key";

pub(super) fn file(directory: &Path, name: &str, ending: &str) -> PathBuf {
    directory.join(format!("{name}.{ending}"))
}

pub(super) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Returns the names of all nodes that have a certificate in the directory, in order.
pub(super) fn issued_nodes(directory: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Exit::Failed, format!("list {}", directory.display())).because(&error)
    };
    let mut nodes = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_certificate = path.extension().is_some_and(|ending| ending == CERTIFICATE);
        let node = path.file_stem().and_then(|stem| stem.to_str());
        nodes.extend(node.filter(|node| is_certificate && *node != AUTHORITY).map(str::to_owned));
    }
    nodes.sort();
    Ok(nodes)
}

/// Writes a new certificate and its key; replaces no file. The key comes first: a certificate without a key is of no
/// use, and a key alone is refused at the next attempt.
pub(super) fn write_new(directory: &Path, name: &str, made: &Certified) -> Result<(), Failure> {
    let create = DirBuilder::new().recursive(true).mode(0o755).create(directory);
    create.map_err(|error| unwritten(directory, &error))?;
    for (ending, text) in [(KEY, &made.key), (CERTIFICATE, &made.certificate)] {
        let path = file(directory, name, ending);
        let written = draft(directory, ending, text).and_then(|draft| {
            draft.persist_noclobber(&path)?;
            files::sync_directory(directory)
        });
        written.map_err(|error| unwritten(&path, &error))?;
    }
    Ok(())
}

/// Replaces a file as a whole; the new file has the owner of the old one, such as the coordinator's user.
pub(super) fn replace(
    directory: &Path,
    name: &str,
    ending: &str,
    text: &str,
) -> Result<(), Failure> {
    let path = file(directory, name, ending);
    let written = draft(directory, ending, text).and_then(|draft| {
        if let Some(old) = files::none_if_absent(fs::metadata(&path))? {
            std::os::unix::fs::fchown(draft.as_file(), Some(old.uid()), Some(old.gid()))?;
        }
        draft.persist(&path)?;
        files::sync_directory(directory)
    });
    written.map_err(|error| unwritten(&path, &error))
}

/// Writes a temporary file: a key for its owner only, a certificate for all to read.
fn draft(directory: &Path, ending: &str, text: &str) -> io::Result<NamedTempFile> {
    // A temporary file has mode 0600.
    let mut draft = NamedTempFile::new_in(directory)?;
    draft.write_all(text.as_bytes())?;
    if ending == CERTIFICATE {
        draft.as_file().set_permissions(Permissions::from_mode(0o644))?;
    }
    draft.as_file().sync_all()?;
    Ok(draft)
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("write {}", path.display()))
        .because(error)
        .remedy("run the command as root, or name another directory with --directory")
}
