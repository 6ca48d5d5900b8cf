//! Writes files so that each exists completely or not at all, even after a power failure.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Writes `path` by way of a temporary file beside it; returns when both the data and the name are on disk.
///
/// # Errors
/// When a file or directory cannot be written or synced.
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_parent(path)
}

/// Returns when the names in a directory are on disk.
///
/// # Errors
/// When the directory cannot be opened or synced.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Returns when `path`'s own name is on disk.
///
/// # Errors
/// When the parent directory cannot be opened or synced.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}
