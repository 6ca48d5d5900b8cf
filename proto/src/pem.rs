//! Reads the PEM files for mutual TLS. All programs name them by the same flags.

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
    /// Flag that names the file.
    flag: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Reads the certificates of the authorities that may sign the other side's certificate.
///
/// # Errors
/// If the file cannot be read.
pub fn authority(path: &Path) -> Result<Certificate, PemError> {
    read("--ca", path).map(Certificate::from_pem)
}

/// Reads this program's certificate and its key.
///
/// # Errors
/// If a file cannot be read.
pub fn identity(certificate: &Path, key: &Path) -> Result<Identity, PemError> {
    Ok(Identity::from_pem(read("--certificate", certificate)?, read("--key", key)?))
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, PemError> {
    fs::read(path).map_err(|source| PemError { flag, path: path.to_owned(), source })
}
