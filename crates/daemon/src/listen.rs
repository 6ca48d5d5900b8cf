//! Unix sockets to which, by default, only root and the daemon's own user may connect.

mod inherited;

use std::{
    fs::{self, Permissions},
    io::{self, ErrorKind},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use thiserror::Error;
use tokio::net::UnixListener;

/// The reason why the daemon cannot listen on a socket.
#[derive(Debug, Error)]
pub enum ListenError {
    /// A running process listens on the socket.
    #[error("listen on {}: another process listens there; stop that process, or choose another path", .0.display())]
    InUse(PathBuf),
    /// At the path is a file or directory, which must not be replaced.
    #[error("listen on {}: the path is a file or directory and not a socket; move it away, or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// systemd passed a descriptor that is not a unix socket.
    #[error("take the socket from systemd: set ListenStream= of the socket unit to a path")]
    Inherited(#[source] io::Error),
    /// A system call failed.
    #[error("listen on {}", path.display())]
    System {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A socket on which the daemon listens.
#[derive(Debug)]
pub struct Listening {
    pub listener: UnixListener,
    /// True if systemd passed the socket. systemd keeps the socket open when this process ends, so the daemon must not
    /// remove the path.
    pub is_inherited: bool,
}

/// Takes the socket that systemd passes, or else listens on `path`.
///
/// # Errors
/// If systemd passes a descriptor that is not a unix socket; also the errors of [`listen`].
pub fn inherit_or_listen(path: &Path) -> Result<Listening, ListenError> {
    match inherited::inherited().map_err(ListenError::Inherited)? {
        Some(listener) => Ok(Listening { listener, is_inherited: true }),
        None => Ok(Listening { listener: listen(path)?, is_inherited: false }),
    }
}

/// Listens on `path` with mode 0600. Replaces the socket of a process that has died.
///
/// # Errors
/// If a running process listens on `path`, if `path` is not a socket, or if a system call fails. In these cases
/// the existing file stays.
pub fn listen(path: &Path) -> Result<UnixListener, ListenError> {
    listen_with(path, 0o600)
}

/// Like [`listen`], but with mode 0666, so that every user of this host may connect.
pub fn listen_open(path: &Path) -> Result<UnixListener, ListenError> {
    listen_with(path, 0o666)
}

fn listen_with(path: &Path, mode: u32) -> Result<UnixListener, ListenError> {
    let failed = |source| ListenError::System { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    check_free(path)?;
    bind(path, mode).map_err(failed)
}

fn check_free(path: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::System { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(ListenError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ListenError::InUse(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn bind(path: &Path, mode: u32) -> io::Result<UnixListener> {
    // Renames the socket to its final name only after it has its mode.
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(mode))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_without_a_listener_is_replaced_and_a_socket_with_a_listener_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/s.sock");
        let listening = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(ListenError::InUse(_))));
        drop(listening);
        assert!(path.exists(), "the socket's file stays, as after kill -9");
        listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        fs::write(&path, "x").unwrap();
        assert!(matches!(listen(&path), Err(ListenError::NotASocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }
}
