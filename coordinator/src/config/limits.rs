//! Reads the site's limits file.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use thiserror::Error;
use workflow::limits::{Limits, LimitsFault, Name, parse};

/// The reason why the limits file cannot be used.
#[derive(Debug, Error)]
pub enum LimitsFileError {
    #[error("read the limits file {} (--limits)", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("limits file {} (--limits)", path.display())]
    Content {
        path: PathBuf,
        #[source]
        source: LimitsFault,
    },
}

/// Reads a limits file. Names are those of this host's users and groups.
pub(super) fn read(path: &Path) -> Result<Limits, LimitsFileError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| LimitsFileError::Read { path: path.to_owned(), source })?;
    parse(&text, &path.to_string_lossy(), &find)
        .map_err(|source| LimitsFileError::Content { path: path.to_owned(), source })
}

/// Returns the number of a user or group of this host.
fn find(name: Name<'_>) -> Option<u32> {
    match name {
        Name::User(name) => User::from_name(name).ok().flatten().map(|user| user.uid.as_raw()),
        Name::Group(name) => Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw()),
    }
}
