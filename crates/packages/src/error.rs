//! Reasons why a job package could not be fetched.

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
        "it has {has} bytes, and size says {size}: the administrator corrects size or the file"
    )]
    TooLong { has: u64, size: u64 },
    #[error(
        "more than the {size} bytes came that size says: the administrator corrects size or the file"
    )]
    Endless { size: u64 },
    #[error("it ended after {has} bytes, and size says {size}")]
    TooShort { has: u64, size: u64 },
    #[error(
        "its SHA-256 is {found}, and sha256 says {expected}: the administrator corrects sha256 or the file"
    )]
    Digest { found: String, expected: String },
    #[error("unpack it")]
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
    /// Returns whether another attempt would fail too: the file is not what the profile says.
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
