//! Copies the program to a directory that the pod's containers share, because the images of the other
//! containers lack the program.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::AGENT;

/// Name of the program in the directory.
const NAME: &str = "podhelper";

#[derive(Debug, Error)]
pub(crate) enum InstallError {
    #[error("find the path of this program")]
    Own(#[source] io::Error),
    #[error("write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Copies the program into a directory. When a restarted container copies it again, nothing changes.
pub(crate) fn install(directory: &Path) -> Result<(), InstallError> {
    let own = std::env::current_exe().map_err(InstallError::Own)?;
    let (program, agent) = (directory.join(NAME), directory.join(AGENT));
    let new = directory.join(format!(".{NAME}"));
    fs::copy(own, &new)
        .and_then(|_| fs::set_permissions(&new, fs::Permissions::from_mode(0o555)))
        .and_then(|()| fs::rename(&new, &program))
        .map_err(|source| InstallError::Write { path: program, source })?;
    match symlink(NAME, &agent) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(InstallError::Write { path: agent, source: error })
        }
        _ => Ok(()),
    }
}
