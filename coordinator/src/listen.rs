//! Unix sockets for root and our own user.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::UnixListener;

/// Why a socket cannot be listened on.
#[derive(Debug, Error)]
pub enum ListenError {
    #[error("listen on {path}: another process serves it; stop that one, or choose another path", path = .0.display())]
    InUse(PathBuf),
    #[error("listen on {path}: something that is no socket is there", path = .0.display())]
    NotASocket(PathBuf),
    #[error("listen on {path}", path = path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Listens on `path`, in the place of a socket that a dead process left behind.
///
/// # Errors
/// When a living process serves it, something else is there, or the system refuses.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, ListenError> {
    let failed = |source| ListenError::Io { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    remove_stale(path)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    // The peer's credentials decide; the mode only keeps others from trying.
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Io { path: path.to_owned(), source };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ListenError::InUse(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dead_socket_is_replaced_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/s.sock");
        let living = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(ListenError::InUse(_))));
        drop(living);
        let again = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(again);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "x").unwrap();
        assert!(matches!(listen(&path), Err(ListenError::NotASocket(_))));
    }
}
