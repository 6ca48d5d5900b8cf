//! Opens the paths of an order, and nothing outside their roots.

use std::{fs::File, path::Path};

use movement::layout::Kind;
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2},
    io::{Errno, Result},
};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Mode of directories that a movement creates on the path of its destination.
const MODE: u32 = 0o755;

/// Opens the root of the source or of the destination. The root's path comes from the agent and not from a user, so it
/// may be resolved without restrictions.
pub(crate) fn root(path: &Path) -> Result<File> {
    openat(CWD, path, DIRECTORY, Mode::empty()).map(File::from)
}

/// Returns the type of the entry at a path beneath a root.
pub(crate) fn kind(root: &File, path: &str) -> Result<Kind> {
    match open_beneath(root, path, OFlags::PATH).and_then(fstat) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Ok(Kind::Directory),
            _ => Ok(Kind::File),
        },
        Err(Errno::NOENT) => Ok(Kind::Absent),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory beneath a root.
pub(crate) fn directory(root: &File, path: impl AsRef<[u8]>) -> Result<File> {
    open_beneath(root, path, DIRECTORY)
}

/// Opens a file beneath a root for reading. Does not block on a FIFO that has no writer.
pub(crate) fn file(root: &File, path: &str) -> Result<File> {
    open_beneath(root, path, OFlags::RDONLY | OFlags::NONBLOCK)
}

fn open_beneath(root: &File, path: impl AsRef<[u8]>, flags: OFlags) -> Result<File> {
    let mut path = path.as_ref();
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = path {
        path = rest;
    }
    let path = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).map(File::from)
}

/// Opens a directory beneath a root. If `creates` is true, creates the missing directories on its path.
pub(crate) fn open_or_create(root: &File, path: &str, creates: bool) -> Result<File> {
    match directory(root, path) {
        Err(Errno::NOENT) if creates => create(root, path.trim_matches('/')),
        opened => opened,
    }
}

fn create(root: &File, path: &str) -> Result<File> {
    let mut parent = directory(root, "")?;
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    for end in ends {
        let prefix = &path[..end];
        parent = match directory(root, prefix) {
            Err(Errno::NOENT) => {
                let name = prefix.rsplit('/').next().unwrap_or(prefix);
                match mkdirat(&parent, name, Mode::from_raw_mode(MODE)) {
                    Ok(()) | Err(Errno::EXIST) => directory(root, prefix)?,
                    Err(errno) => return Err(errno),
                }
            }
            opened => opened?,
        };
    }
    Ok(parent)
}
