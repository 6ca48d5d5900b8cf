//! The latest acknowledged revision, in a file beside the store's file.
//!
//! The writer writes the revision after a commit is on stable storage and before clients get their answers. So the
//! revision in this file is never ahead of an intact store: a store that is behind it has lost an acknowledged commit.
//!
//! Only the first write of a process syncs the file. If the process is killed, the kernel still has the later
//! revisions. A power cut may lose them; the file then has an older revision than the store, which does no harm.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const NAME: &str = "objects.acknowledged";

pub(super) struct Acknowledged {
    path: PathBuf,
    /// `None` until the first write opens the file, and again after a failed write.
    file: Mutex<Option<File>>,
}

impl Acknowledged {
    pub(super) fn in_directory(directory: &Path) -> Self {
        Self { path: directory.join(NAME), file: Mutex::default() }
    }

    /// Returns the revision; `None` when the file is missing or cannot be read.
    pub(super) fn read(&self) -> Option<u64> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                log::warn!(path:% = self.path.display(), error:% = error; "the file with the last acknowledged revision cannot be read");
                return None;
            }
        };
        let revision = parse(&text);
        if revision.is_none() {
            log::warn!(path:% = self.path.display(); "the file with the last acknowledged revision is damaged");
        }
        revision
    }

    /// Writes the revision. A failure is only logged, because the commit itself is already on disk. But if a damaged
    /// disk later loses that commit, the next start cannot notice the loss.
    pub(super) fn write(&self, revision: u64) {
        let mut file = super::lock(&self.file);
        let written = match &*file {
            Some(file) => file.write_all_at(text(revision).as_bytes(), 0),
            None => open(&self.path).and_then(|opened| {
                opened.write_all_at(text(revision).as_bytes(), 0)?;
                opened.set_len(text(revision).len() as u64)?;
                opened.sync_all()?;
                self.path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
                *file = Some(opened);
                Ok(())
            }),
        };
        if let Err(error) = written {
            *file = None;
            log::debug!(path:% = self.path.display(), error:% = error; "the acknowledged revision cannot be written");
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Encodes the revision as a text of fixed length, so that each write overwrites the text before it. The text contains
/// the revision twice, so that damage is detected.
fn text(revision: u64) -> String {
    format!("{revision:020} {revision:020}\n")
}

fn parse(written: &str) -> Option<u64> {
    let revision = written.split(' ').next()?.parse().ok()?;
    (written == text(revision)).then_some(revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_returns_no_revision_from_a_damaged_file() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Acknowledged::in_directory(directory.path());
        assert_eq!(kept.read(), None);
        for revision in [7, u64::MAX, 8] {
            kept.write(revision);
            assert_eq!(Acknowledged::in_directory(directory.path()).read(), Some(revision));
        }
        for damaged in ["", "8", &text(8).replacen('8', "9", 1), &text(8).repeat(2)] {
            std::fs::write(directory.path().join(NAME), damaged).unwrap();
            assert_eq!(kept.read(), None, "{damaged:?}");
            let next = Acknowledged::in_directory(directory.path());
            next.write(9);
            assert_eq!(next.read(), Some(9), "{damaged:?}");
        }
    }
}
