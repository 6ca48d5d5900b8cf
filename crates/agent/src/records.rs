//! What each ClientMount may have mounted on this node, on disk: an agent that starts knows what the one before it knew.
//!
//! ```text
//! <state>/mounts/<uid>.json     metadata and spec of each version of the object of which something may be mounted
//! ```
//!
//! A record is written before anything is mounted and removed when nothing of the object is left. It need not outlive the
//! kernel, whose mounts end with it, so nothing is synced to disk: after a loss of power a record may be empty.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use api::ClientMount;
use storage::desired::{NameError, ObjectUid};
use thiserror::Error;

/// What was mounted cannot be recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The object's uid cannot name a file.
    #[error("metadata.uid: {0}")]
    Uid(NameError),
    /// The file system does not take the record.
    #[error("record in {path} what is mounted")]
    Write {
        /// The record's file, or the directory of all.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The directory of records.
#[derive(Debug)]
pub struct MountRecords(PathBuf);

impl MountRecords {
    /// The records of the agent whose state is kept in `state`.
    ///
    /// # Errors
    /// When the directory cannot be made or read.
    pub fn open(state: &Path) -> Result<Self, RecordError> {
        let directory = state.join("mounts");
        // A directory that cannot be read must not pass for one without records.
        match fs::create_dir_all(&directory).and_then(|()| fs::read_dir(&directory)) {
            Ok(_) => Ok(Self(directory)),
            Err(source) => Err(RecordError::Write { path: directory, source }),
        }
    }

    /// All records, the latest version of each object last. A record that cannot be read is told and left out: of mounts that
    /// only it knew, the agent still unmounts those that are provably Warren's.
    #[must_use]
    pub fn read(&self) -> Vec<Vec<ClientMount>> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let records = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
        records.filter_map(|path| read(&path)).collect()
    }

    /// These mounts of an object are gone; of the others its record stays.
    ///
    /// # Errors
    /// As for [`MountRecords::keep`].
    pub fn forget(&self, uid: &str, gone: &[ClientMount]) -> Result<(), RecordError> {
        let mounts: Vec<_> = gone.iter().flat_map(|version| &version.spec.mounts).collect();
        if mounts.is_empty() {
            return Ok(());
        }
        let mut versions = read(&self.path(uid)?).unwrap_or_default();
        for version in &mut versions {
            version.spec.mounts.retain(|mount| !mounts.contains(&mount));
        }
        versions.retain(|version| !version.spec.mounts.is_empty());
        self.keep(uid, &versions.iter().collect::<Vec<_>>())
    }

    /// Of an object all this may be mounted, and nothing else.
    ///
    /// # Errors
    /// When the record cannot be written; then it is as it was before.
    pub fn keep(&self, uid: &str, versions: &[&ClientMount]) -> Result<(), RecordError> {
        let path = self.path(uid)?;
        if versions.is_empty() {
            return gone_is_fine(fs::remove_file(&path))
                .map_err(|source| RecordError::Write { path, source });
        }
        let versions: Vec<_> = versions.iter().map(|version| recorded(version)).collect();
        let text = serde_json::to_vec(&versions).expect("an object has only string keys");
        if fs::read(&path).is_ok_and(|known| known == text) {
            return Ok(());
        }
        let new = path.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| RecordError::Write { path, source })
    }

    fn path(&self, uid: &str) -> Result<PathBuf, RecordError> {
        let uid: ObjectUid = uid.parse().map_err(RecordError::Uid)?;
        Ok(self.0.join(format!("{uid}.json")))
    }
}

/// What of an object tells what it has mounted.
fn recorded(version: &ClientMount) -> ClientMount {
    let mut version = version.clone();
    version.status = None;
    version.metadata.managed_fields = None;
    version.metadata.annotations = None;
    version.metadata.resource_version = None;
    version.metadata.generation = None;
    version
}

fn read(path: &Path) -> Option<Vec<ClientMount>> {
    let text = fs::read(path).map_err(|error| told(path, &error)).ok()?;
    match serde_json::from_slice::<Vec<ClientMount>>(&text) {
        Ok(versions) => return Some(versions).filter(|versions| !versions.is_empty()),
        Err(error) => told(path, &error),
    }
    // It would be told at every start.
    let _ = fs::remove_file(path);
    None
}

fn told(path: &Path, why: &dyn std::fmt::Display) {
    log::warn!(
        "{} does not tell what a ClientMount had mounted, and is left out: {why}: see with findmnt that nothing of a job that is over is mounted",
        path.display()
    );
}

fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Chassis;

    fn records() -> (tempfile::TempDir, MountRecords) {
        let directory = tempfile::tempdir().unwrap();
        let records = MountRecords::open(directory.path()).unwrap();
        (directory, records)
    }

    #[test]
    fn what_was_kept_last_is_read_and_nothing_of_what_is_gone() {
        let (_directory, records) = records();
        let chassis = Chassis::new(2);
        let [first, second] = [0, 1].map(|index| chassis.object(index));
        let uid = first.metadata.uid.clone().unwrap();
        records.keep(&uid, &[&first]).unwrap();
        records.keep(&uid, &[&first, &second]).unwrap();
        let read = records.read();
        let specs: Vec<_> = read.iter().flatten().map(|version| &version.spec).collect();
        assert_eq!(specs, [&first.spec, &second.spec]);
        assert_eq!(read[0][0].metadata.finalizers, first.metadata.finalizers);
        records.keep(&uid, &[]).unwrap();
        records.keep(&uid, &[]).unwrap();
        assert!(records.read().is_empty());
    }

    #[test]
    fn a_damaged_record_costs_itself_only() {
        let (directory, records) = records();
        let chassis = Chassis::new(1);
        let object = chassis.object(0);
        records.keep(object.metadata.uid.as_deref().unwrap(), &[&object]).unwrap();
        fs::write(directory.path().join("mounts/0.json"), "").unwrap();
        assert_eq!(records.read().len(), 1);
        assert!(!directory.path().join("mounts/0.json").exists());
    }

    #[test]
    fn a_uid_that_is_a_path_is_refused() {
        let (_directory, records) = records();
        let chassis = Chassis::new(1);
        let error = records.keep("../../etc/passwd", &[&chassis.object(0)]).unwrap_err();
        assert!(matches!(error, RecordError::Uid(_)), "{error}");
    }
}
