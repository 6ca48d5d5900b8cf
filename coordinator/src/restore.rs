//! Restores a store from a backup, while no coordinator runs.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use daemon::End;
use kubeapi::RestoreError;
use thiserror::Error;

/// The reason why the store was not restored.
#[derive(Debug, Error)]
pub enum RestoreFailed {
    #[error("open the backup {path}", path = path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("restore {backup} into {directory}", backup = backup.display(), directory = directory.display())]
    Restore { backup: PathBuf, directory: PathBuf, source: RestoreError },
}

/// Makes a new store in `directory` from the file `backup`.
///
/// # Errors
/// If the backup is incomplete, or `directory` already contains a store. In these cases nothing was changed.
pub fn restore(directory: &Path, backup: &Path) -> Result<End, RestoreFailed> {
    let file = File::open(backup)
        .map_err(|source| RestoreFailed::Open { path: backup.to_owned(), source })?;
    let restored = kubeapi::restore(directory, BufReader::new(file)).map_err(|source| {
        let (backup, directory) = (backup.to_owned(), directory.to_owned());
        RestoreFailed::Restore { backup, directory, source }
    })?;
    log::info!(
        directory:% = directory.display(), objects = restored.objects, taken = restored.taken;
        "the store is restored from the backup: start the coordinator"
    );
    Ok(End::Stopped)
}
