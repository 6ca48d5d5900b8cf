//! Writes files so that each exists completely or not at all, even after a power failure.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Writes `path` by way of a temporary file beside it; returns when both the data and the name are on disk.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_parent(path)
}

/// Syncs a directory: returns when the names in it are on disk.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Syncs the parent directory: returns when `path`'s own name is on disk.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync)
}
