//! The trees and files that are copied.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of the file system that holds a source and its copy.
pub(super) const NEEDED: u64 = 16 * GIB;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    OneLargeFile,
    SmallFiles,
    Nested,
    SparseFile,
}

impl Source {
    pub(super) const ALL: [Self; 4] =
        [Self::OneLargeFile, Self::SmallFiles, Self::Nested, Self::SparseFile];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneLargeFile => "one file of 4 GiB",
            Self::SmallFiles => "50,000 files of 4 KiB",
            Self::Nested => "a source tree of 6,000 files",
            Self::SparseFile => "a sparse file of 64 GiB with 64 MiB of data",
        }
    }

    /// Makes the source, and returns its path.
    pub(super) fn plant(self, root: &Path) -> anyhow::Result<PathBuf> {
        let path = root.join("source");
        match self {
            Self::OneLargeFile => write_blocks(&path, 4096, |block| block * MIB),
            Self::SmallFiles => plant_tree(&path, (50, 1000), |_| 4096),
            // Sizes and depth are about those of a kernel's sources: many small files and a few large ones.
            Self::Nested => plant_tree(&path, (200, 30), |file| 1 << (8 + file % 9)),
            Self::SparseFile => write_blocks(&path, 64, |block| block * GIB),
        }
        .with_context(|| format!("make {}", self.name()))?;
        Ok(path)
    }
}

/// Writes blocks of 1 MiB at these offsets. The blocks differ, so that no program can merge them.
fn write_blocks(path: &Path, blocks: u64, offset: impl Fn(u64) -> u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let mut random = fastrand::Rng::with_seed(7);
    let mut block = vec![0; 1 << 20];
    for number in 0..blocks {
        random.fill(&mut block);
        file.seek(SeekFrom::Start(offset(number)))?;
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// Makes directories with files of these sizes in bytes.
fn plant_tree(
    path: &Path,
    (directories, files): (usize, usize),
    size: impl Fn(usize) -> usize,
) -> std::io::Result<()> {
    let mut random = fastrand::Rng::with_seed(7);
    for directory in 0..directories {
        // Ten directories in each directory of the first level.
        let directory = path.join(format!("{}/{directory}", directory / 10));
        fs::create_dir_all(&directory)?;
        for file in 0..files {
            let mut content = vec![0; size(file)];
            random.fill(&mut content);
            fs::write(directory.join(file.to_string()), content)?;
        }
    }
    Ok(())
}
