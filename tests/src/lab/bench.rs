use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use tempfile::TempDir;

use crate::program::binary;

use super::Assets;

/// A directory with the files of one scenario's guests. It is removed when this value is dropped,
/// unless [`Bench::keep`] is called.
#[derive(Debug)]
pub struct Bench {
    assets: Assets,
    programs: PathBuf,
    directory: TempDir,
}

impl Bench {
    /// Makes an empty bench.
    ///
    /// # Errors
    /// When the directory cannot be made, or our programs were not built.
    pub fn new(assets: Assets) -> anyhow::Result<Self> {
        let programs = binary("warren")?;
        let programs = programs.parent().context("directory of our programs")?.to_owned();
        let directory =
            TempDir::with_prefix_in("warren-lab-", "/var/tmp").context("make a directory")?;
        Ok(Self { assets, programs, directory })
    }

    /// Returns the emulator, kernel and root disk.
    #[must_use]
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// Returns the directory of our programs, as cargo built them.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Returns the directory that has one directory per guest.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Keeps the output of the guests, deletes the media of their drives, and returns the directory.
    #[must_use]
    pub fn keep(self) -> PathBuf {
        let directory = self.directory.keep();
        for guest in fs::read_dir(&directory).into_iter().flatten().flatten() {
            for file in fs::read_dir(guest.path()).into_iter().flatten().flatten() {
                if file.path().extension().is_some_and(|extension| extension == "img") {
                    // An error is ignored: a medium that is not deleted costs only disk space.
                    let _ = fs::remove_file(file.path());
                }
            }
        }
        directory
    }
}
