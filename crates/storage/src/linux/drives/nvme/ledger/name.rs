//! Names the files of ledgers.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use uuid::Uuid;

use super::{File, Ledger};
use crate::desired::Nqn;

/// Suffix of a ledger named after its drive.
const PLAIN: &str = ".json";
/// Suffix of a ledger named after the hash of its drive's NQN.
const HASHED: &str = ".ledger";
/// Maximum bytes of a file name (limits.h, NAME_MAX).
const LONGEST: usize = 255;

impl Ledger {
    pub(in super::super) fn path(directory: &Path, nqn: &Nqn) -> PathBuf {
        let nqn = nqn.to_string();
        let plain = format!("{nqn}{PLAIN}");
        if plain.len() <= LONGEST && !nqn.contains(['/', ' ']) {
            return directory.join(plain);
        }
        let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, nqn.as_bytes());
        directory.join(format!("{}{HASHED}", hash.simple()))
    }

    /// Returns the drive whose ledger is at `path`; `None` when the file is no ledger.
    pub(in super::super) fn drive_of(path: &Path) -> Option<io::Result<Nqn>> {
        let name = path.file_name()?.to_str()?;
        if let Some(nqn) = name.strip_suffix(PLAIN) {
            return nqn.parse().ok().map(Ok);
        }
        name.strip_suffix(HASHED)?;
        let read = || {
            let file: File = serde_json::from_slice(&fs::read(path)?)?;
            file.nqn.parse().map_err(io::Error::other)
        };
        Some(read())
    }
}
