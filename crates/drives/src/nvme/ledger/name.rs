//! Names the files of ledgers.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use storage::desired::Nqn;
use uuid::Uuid;

use super::{File, Ledger};

/// Suffix of a ledger whose name is its drive's NQN.
const PLAIN: &str = ".json";
/// Suffix of a ledger whose name is a hash of its drive's NQN.
const HASHED: &str = ".ledger";
/// Maximum bytes of a file name (limits.h, NAME_MAX).
const LONGEST: usize = 255;

impl Ledger {
    pub(crate) fn path(directory: &Path, nqn: &Nqn) -> PathBuf {
        let nqn = nqn.to_string();
        let plain = format!("{nqn}{PLAIN}");
        if plain.len() <= LONGEST && !nqn.contains(['/', ' ']) {
            return directory.join(plain);
        }
        let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, nqn.as_bytes());
        directory.join(format!("{}{HASHED}", hash.simple()))
    }

    /// Returns the NQN of the drive whose ledger is at `path`; `None` when the file is not a ledger.
    pub(crate) fn drive_of(path: &Path) -> Option<io::Result<Nqn>> {
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
