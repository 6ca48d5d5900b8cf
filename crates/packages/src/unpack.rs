//! Unpacks a tar archive, plain or compressed with gzip or zstd, into a directory of its own.

mod bounded;
mod entry;
mod frames;
mod tree;

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::Path,
};

use flate2::read::MultiGzDecoder;
use nix::errno::Errno;
use tar::Archive;
use thiserror::Error;
use tokio::sync::watch;

pub(crate) use self::entry::EntryError;
use self::{
    bounded::{Allowance, Bounded, Cutoff},
    entry::{Entry, Kind},
    frames::Frames,
    tree::Tree,
};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why an archive cannot be unpacked.
#[derive(Debug, Error)]
pub enum UnpackError {
    #[error(
        "the file is not a valid tar archive: ask the administrator to correct the file, or to set unpack to false"
    )]
    Archive(#[source] io::Error),
    #[error(
        "the decompressed archive has more than {0} bytes: ask the administrator to set unpackedSize to its size"
    )]
    TooLarge(u64),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error("entry {entry:?}")]
    Write {
        entry: String,
        #[source]
        source: io::Error,
    },
    #[error("{0:?}")]
    Directory(String, #[source] io::Error),
    #[error("no run uses the job package any more")]
    Stopped,
}

impl UnpackError {
    /// Returns whether the error is the archive's fault, not the disk's.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Archive(_) | Self::TooLarge(_) | Self::Entry(_) => true,
            Self::Write { .. } | Self::Directory(..) | Self::Stopped => false,
        }
    }
}

/// Unpacks a checked archive into a new directory. Returns once all files are on disk.
pub(crate) fn unpack(
    archive: &Path,
    into: &Path,
    limit: u64,
    stop: watch::Receiver<bool>,
) -> Result<(), UnpackError> {
    let file = File::open(archive);
    let directory = |path: &Path| {
        let path = path.display().to_string();
        move |error| UnpackError::Directory(path, error)
    };
    let allowance = Allowance::new(limit, stop);
    let stream = file.and_then(decompress).map_err(directory(archive))?;
    let mut archive = Archive::new(Bounded::new(stream, allowance.clone()));
    let tree = Tree::new(into).map_err(directory(into))?;
    // The allowance knows the reason why reading was cut off; the reader of the archive does not.
    let read_error = |error: io::Error| match allowance.cutoff() {
        Some(Cutoff::TooLarge) => UnpackError::TooLarge(limit),
        Some(Cutoff::Stopped) => UnpackError::Stopped,
        None => UnpackError::Archive(error),
    };
    allowance.start_header();
    for entry in archive.entries().map_err(read_error)? {
        let mut entry = entry.map_err(read_error)?;
        allowance.start_data();
        place(&tree, &mut entry, read_error)?;
        // Reads the unread rest of the entry here, so that it does not count towards the limit of the next header.
        io::copy(&mut entry, &mut io::sink()).map_err(read_error)?;
        allowance.start_header();
    }
    tree.sync().map_err(directory(into))
}

fn place<R: Read>(
    tree: &Tree,
    entry: &mut tar::Entry<'_, R>,
    read_error: impl Fn(io::Error) -> UnpackError,
) -> Result<(), UnpackError> {
    let Some(checked) = Entry::check(entry)? else { return Ok(()) };
    let failed = |source| UnpackError::Write { entry: checked.path.display().to_string(), source };
    let is_there = |error: io::Error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EEXIST) => EntryError::Twice(checked.name()).into(),
        // The path leads through a file or a link where it needs a directory.
        Some(Errno::ENOTDIR | Errno::ELOOP) => EntryError::NoDirectory(checked.name()).into(),
        _ => failed(error),
    };
    match &checked.kind {
        Kind::Directory => tree.directory(&checked.path).map_err(is_there),
        Kind::Symlink(target) => tree.symlink(&checked.path, target).map_err(is_there),
        Kind::Hardlink(target) => match tree.hardlink(&checked.path, target).map_err(is_there)? {
            true => Ok(()),
            false => Err(EntryError::NoFile(checked.name()).into()),
        },
        Kind::File { is_program, modified } => {
            let mut file = tree.file(&checked.path).map_err(is_there)?;
            let length = entry.size();
            let mut piece = vec![0; 1 << 16];
            let mut has = 0;
            loop {
                let read = entry.read(&mut piece).map_err(&read_error)?;
                if read == 0 {
                    break;
                }
                io::Write::write_all(&mut file, &piece[..read]).map_err(failed)?;
                has += read as u64;
            }
            if has < length {
                return Err(UnpackError::Archive(io::ErrorKind::UnexpectedEof.into()));
            }
            tree::finish(&file, *is_program, *modified).map_err(failed)
        }
    }
}

/// Returns a reader of the decompressed content. The first bytes of the file show the kind of compression.
fn decompress(mut file: File) -> io::Result<Box<dyn Read>> {
    let mut first = Vec::new();
    Read::by_ref(&mut file).take(4).read_to_end(&mut first)?;
    file.rewind()?;
    let file = BufReader::with_capacity(1 << 16, file);
    Ok(if first.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(file))
    } else if first.starts_with(&ZSTD) {
        Box::new(Frames::new(file))
    } else {
        Box::new(file)
    })
}

#[cfg(test)]
mod tests;
