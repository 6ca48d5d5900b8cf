//! Receives a file in pieces: writes, counts and digests them, and refuses the file once it exceeds its size.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use containers::JobPackage;
use ring::digest::{Context, SHA256};

use crate::error::FetchError;

/// A file that is being received.
pub(crate) struct Download<'a> {
    package: &'a JobPackage,
    path: PathBuf,
    file: File,
    digest: Context,
    has: u64,
}

impl<'a> Download<'a> {
    /// Creates a new file.
    pub(crate) fn begin(package: &'a JobPackage, path: &Path) -> Result<Self, FetchError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(write_error(path))?;
        Ok(Self { package, path: path.to_owned(), file, digest: Context::new(&SHA256), has: 0 })
    }

    /// Checks the size that a source announces, before any byte is received.
    pub(crate) fn check_announced(&self, has: u64) -> Result<(), FetchError> {
        let size = self.package.size;
        if has > size { Err(FetchError::TooLong { has, size }) } else { Ok(()) }
    }

    /// Writes the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<(), FetchError> {
        self.has += piece.len() as u64;
        if self.has > self.package.size {
            return Err(FetchError::Endless { size: self.package.size });
        }
        self.digest.update(piece);
        self.file.write_all(piece).map_err(write_error(&self.path))
    }

    /// Checks size and digest of the whole file, and returns once it is on disk.
    pub(crate) fn finish(self) -> Result<(), FetchError> {
        let (has, size) = (self.has, self.package.size);
        if has < size {
            return Err(FetchError::TooShort { has, size });
        }
        let digest = self.digest.finish();
        let found = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let (found, expected) = (found.collect::<String>(), self.package.sha256.clone());
        if found != expected {
            return Err(FetchError::Digest { found, expected });
        }
        self.file.sync_all().map_err(write_error(&self.path))
    }
}

fn write_error(path: &Path) -> impl Fn(io::Error) -> FetchError {
    move |source| FetchError::Write { path: path.to_owned(), source }
}
