//! Reads a job package from a file system that the node mounts. This process runs as root, and reads the file only if
//! every user may read it.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, open, openat},
    sys::stat::{FileStat, Mode, SFlag, fstat},
};
use thiserror::Error;

use crate::{download::Download, error::FetchError};

/// Number of bytes that one read asks for.
const PIECE: usize = 1 << 20;
/// Permission bit: others may read the file.
const READ: u32 = 0o004;
/// Permission bit: others may search the directory.
const SEARCH: u32 = 0o001;

/// Why this process does not read a file for a user.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("open {}", .path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a directory, or is a symbolic link: name the file by a path without links", .0.display())]
    NoDirectory(PathBuf),
    #[error("{} is not a regular file: name a regular file, by a path without symbolic links", .0.display())]
    NoFile(PathBuf),
    #[error("{} is not readable by everybody: give others the right to read it, and to search its directories", .0.display())]
    NotPublic(PathBuf),
    #[error("read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Reads the whole file into `download`.
pub(crate) async fn read(path: &Path, download: &mut Download<'_>) -> Result<(), FetchError> {
    let (mut file, length) = open_public(path)?;
    download.check_announced(length)?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece);
        let read = read.map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        if read == 0 {
            return Ok(());
        }
        download.take(&piece[..read])?;
        // A fetch that was stopped ends at this point.
        tokio::task::yield_now().await;
    }
}

/// Opens a plain file that every user may read, and returns the file with its length. No component of the path may
/// be a symbolic link.
fn open_public(path: &Path) -> Result<(File, u64), FileError> {
    let failed = |path: &Path, errno: nix::Error| FileError::Open {
        path: path.to_owned(),
        source: errno.into(),
    };
    let place = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut at = PathBuf::from("/");
    let mut found: OwnedFd = open("/", place, Mode::empty()).map_err(|errno| failed(&at, errno))?;
    for part in path.components() {
        let Component::Normal(name) = part else { continue };
        let status = fstat(&found).map_err(|errno| failed(&at, errno))?;
        if kind(&status) != SFlag::S_IFDIR {
            return Err(FileError::NoDirectory(at));
        }
        if status.st_mode & SEARCH == 0 {
            return Err(FileError::NotPublic(at));
        }
        at.push(name);
        found = openat(&found, name, place, Mode::empty()).map_err(|errno| failed(&at, errno))?;
    }
    let status = fstat(&found).map_err(|errno| failed(&at, errno))?;
    if kind(&status) != SFlag::S_IFREG {
        return Err(FileError::NoFile(at));
    }
    if status.st_mode & READ == 0 {
        return Err(FileError::NotPublic(at));
    }
    let descriptor = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = File::open(descriptor).map_err(|source| FileError::Open { path: at, source })?;
    Ok((file, u64::try_from(status.st_size).unwrap_or(0)))
}

fn kind(status: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Creates a file that every user may read.
    fn file() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        mode(directory.path(), 0o755);
        fs::create_dir(directory.path().join("in")).unwrap();
        mode(&directory.path().join("in"), 0o755);
        let path = directory.path().join("in/data");
        fs::write(&path, "data").unwrap();
        mode(&path, 0o644);
        (directory, path)
    }

    #[test]
    fn a_file_that_every_user_may_read_is_opened() {
        let (_directory, path) = file();
        assert_eq!(open_public(&path).unwrap().1, 4);
    }

    /// The tests run as root, which may read every file.
    #[test]
    fn a_file_that_others_may_not_read_or_reach_is_refused() {
        let (_directory, path) = file();
        mode(&path, 0o640);
        assert!(matches!(open_public(&path), Err(FileError::NotPublic(at)) if at == path));
        mode(&path, 0o644);
        let parent = path.parent().unwrap();
        mode(parent, 0o750);
        assert!(matches!(open_public(&path), Err(FileError::NotPublic(at)) if at == parent));
    }

    #[test]
    fn only_regular_files_are_opened_and_no_link_is_followed() {
        let (directory, path) = file();
        let link = directory.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(open_public(&link), Err(FileError::NoFile(_))));
        let to_directory = directory.path().join("to");
        symlink(path.parent().unwrap(), &to_directory).unwrap();
        let through = open_public(&to_directory.join("data"));
        assert!(matches!(through, Err(FileError::NoDirectory(at)) if at == to_directory));
        assert!(matches!(open_public(path.parent().unwrap()), Err(FileError::NoFile(_))));
        let pipe = path.with_file_name("pipe");
        nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o644)).unwrap();
        assert!(
            matches!(open_public(&pipe), Err(FileError::NoFile(_))),
            "opening a pipe would wait for ever"
        );
        assert!(matches!(open_public(&path.join("more")), Err(FileError::NoDirectory(_))));
    }
}
