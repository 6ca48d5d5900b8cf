//! Defines the errors of an attempt to fetch a job package.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::{file::FileError, server::ServerError, unpack::UnpackError};

/// Why an attempt to fetch a job package failed.
#[derive(Debug, Error)]
pub enum FetchError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "the file has {has} bytes, but the field size is {size}: ask the administrator to correct size or the file"
    )]
    TooLong { has: u64, size: u64 },
    #[error(
        "the source sent more than {size} bytes, the value of the field size: ask the administrator to correct size or the file"
    )]
    Endless { size: u64 },
    #[error("the file ended after {has} bytes, but the field size is {size}")]
    TooShort { has: u64, size: u64 },
    #[error(
        "the SHA-256 of the file is {found}, but the field sha256 is {expected}: ask the administrator to correct sha256 or the file"
    )]
    Digest { found: String, expected: String },
    #[error("unpack the archive")]
    Unpack(#[from] UnpackError),
    #[error("write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{0}")]
    Panicked(String),
}

impl FetchError {
    /// Returns whether no other attempt is made: the file is not the one that the profile describes, or the fetch
    /// panicked.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::TooLong { .. }
            | Self::Endless { .. }
            | Self::Digest { .. }
            | Self::Panicked(_) => true,
            Self::Unpack(error) => error.is_final(),
            Self::Server(_) | Self::File(_) | Self::TooShort { .. } | Self::Write { .. } => false,
        }
    }
}
