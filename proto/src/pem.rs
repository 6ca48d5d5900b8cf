//! The PEM files by which programs prove their names to each other over TCP. All programs name them by the same flags.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use tonic::transport::{Certificate, Identity};

/// A file that cannot be read.
#[derive(Debug, Error)]
#[error("{flag}: read {}", path.display())]
pub struct PemError {
    /// The flag that names it.
    flag: &'static str,
    /// The file.
    path: PathBuf,
    /// Why.
    source: io::Error,
}

/// The certificates of the authorities that may sign the other's certificate.
///
/// # Errors
/// When the file cannot be read.
pub fn authority(path: &Path) -> Result<Certificate, PemError> {
    read("--ca", path).map(Certificate::from_pem)
}

/// Our certificate and its key.
///
/// # Errors
/// When a file cannot be read.
pub fn identity(certificate: &Path, key: &Path) -> Result<Identity, PemError> {
    Ok(Identity::from_pem(read("--certificate", certificate)?, read("--key", key)?))
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, PemError> {
    fs::read(path).map_err(|source| PemError { flag, path: path.to_owned(), source })
}
