//! Records on disk of the mounts that each ClientMount may have. A new agent process reads them, and so knows the
//! mounts of the process before it.
//!
//! ```text
//! <state>/mounts/<uid>.json     metadata and spec of each version of the object that may have something mounted
//! ```
//!
//! The agent writes a record before it mounts anything, and removes the record when no mount of the object is left. The
//! agent does not sync records to disk (fsync): after a loss of power a record may be empty, but the loss of power has
//! also ended all mounts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use api::ClientMount;
use storage::desired::{NameError, ObjectUid};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum RecordError {
    #[error("metadata.uid: {0}")]
    Uid(NameError),
    #[error("read {path}, the record of mounts")]
    Read { path: PathBuf, source: io::Error },
    #[error("write {path}, the record of mounts")]
    Write { path: PathBuf, source: io::Error },
}

/// The records in the agent's state directory.
#[derive(Debug)]
pub struct MountRecords {
    directory: PathBuf,
    /// The versions of each object that were recorded when the directory was opened.
    earlier: Vec<Vec<ClientMount>>,
}

impl MountRecords {
    /// Reads all records in the agent's state directory `state`. Logs and renames a damaged record, and continues
    /// without it: of the mounts in that record, the agent then unmounts only those that are provably Warren's.
    ///
    /// # Errors
    /// When the directory cannot be created or read, or when reading a record fails: the agent then does not
    /// know which mounts exist.
    pub fn open(state: &Path) -> Result<Self, RecordError> {
        let directory = state.join("mounts");
        fs::create_dir_all(&directory)
            .map_err(|source| RecordError::Write { path: directory.clone(), source })?;
        Ok(Self { earlier: read_all(&directory, read)?, directory })
    }

    /// Reads all records, and changes nothing: creates no directory, and leaves a damaged record as it is.
    ///
    /// # Errors
    /// When the directory or a record cannot be read.
    pub fn peek(state: &Path) -> Result<Self, RecordError> {
        let directory = state.join("mounts");
        let undamaged = |path: &Path| {
            let text = fs::read(path).map_err(|source| read_error(path, source))?;
            Ok(serde_json::from_slice(&text).ok())
        };
        let exists = directory.try_exists().map_err(|source| read_error(&directory, source))?;
        let earlier = if exists { read_all(&directory, undamaged)? } else { Vec::new() };
        Ok(Self { directory, earlier })
    }

    /// Returns the records that [`MountRecords::open`] read: the versions of each object, the latest version last.
    pub fn earlier_records(&self) -> &[Vec<ClientMount>] {
        &self.earlier
    }

    /// Removes unmounted mounts from an object's record.
    ///
    /// # Errors
    /// The errors of [`MountRecords::keep`]; also when the record cannot be read.
    pub fn forget(&self, uid: &str, unmounted: &[ClientMount]) -> Result<(), RecordError> {
        let mounts: Vec<_> = unmounted.iter().flat_map(|version| &version.spec.mounts).collect();
        if mounts.is_empty() {
            return Ok(());
        }
        let Some(mut versions) = read(&self.path(uid)?)? else { return Ok(()) };
        for version in &mut versions {
            version.spec.mounts.retain(|mount| !mounts.contains(&mount));
        }
        versions.retain(|version| !version.spec.mounts.is_empty());
        self.keep(uid, &versions.iter().collect::<Vec<_>>())
    }

    /// Records that exactly the mounts of these versions of an object may exist.
    ///
    /// # Errors
    /// When the record cannot be written; then the record is unchanged.
    pub fn keep(&self, uid: &str, versions: &[&ClientMount]) -> Result<(), RecordError> {
        let path = self.path(uid)?;
        if versions.is_empty() {
            return match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(RecordError::Write { path, source })
                }
                _ => Ok(()),
            };
        }
        let versions: Vec<_> = versions.iter().map(|version| identifying_parts(version)).collect();
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
        Ok(self.directory.join(format!("{uid}.json")))
    }
}

/// Returns the parts of an object that identify its mounts.
fn identifying_parts(version: &ClientMount) -> ClientMount {
    let mut version = version.clone();
    version.status = None;
    version.metadata.managed_fields = None;
    version.metadata.annotations = None;
    version.metadata.resource_version = None;
    version.metadata.generation = None;
    version
}

fn read_error(path: &Path, source: io::Error) -> RecordError {
    RecordError::Read { path: path.to_owned(), source }
}

/// Reads every record in a directory.
fn read_all(
    directory: &Path,
    read: impl Fn(&Path) -> Result<Option<Vec<ClientMount>>, RecordError>,
) -> Result<Vec<Vec<ClientMount>>, RecordError> {
    let failed = |source| read_error(directory, source);
    let mut records = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            records.extend(read(&path)?);
        }
    }
    Ok(records)
}

/// Reads a record; returns `None` if there is none. Renames a damaged record, and returns `None` for it too.
fn read(path: &Path) -> Result<Option<Vec<ClientMount>>, RecordError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(read_error(path, source)),
    };
    match serde_json::from_slice(&text) {
        Ok(versions) => return Ok(Some(versions)),
        // An empty record: the node lost power before the record was on disk, and the loss of power also ended the
        // mounts.
        Err(_) if text.is_empty() => {}
        Err(error) => log::warn!(
            "{} is damaged and renamed to *.damaged: {error}: check with findmnt that no mount of a finished job is left",
            path.display()
        ),
    }
    fs::rename(path, path.with_extension("damaged"))
        .map_err(|source| RecordError::Write { path: path.to_owned(), source })?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Chassis;

    /// Returns the records that the next agent reads.
    fn earlier(directory: &tempfile::TempDir) -> Vec<Vec<ClientMount>> {
        MountRecords::open(directory.path()).unwrap().earlier_records().to_vec()
    }

    fn records() -> (tempfile::TempDir, MountRecords) {
        let directory = tempfile::tempdir().unwrap();
        let records = MountRecords::open(directory.path()).unwrap();
        (directory, records)
    }

    #[test]
    fn the_next_agent_reads_the_last_record_of_an_object_until_it_is_removed() {
        let (directory, records) = records();
        let chassis = Chassis::new(2);
        let [first, second] = [0, 1].map(|index| chassis.object(index));
        let uid = first.metadata.uid.clone().unwrap();
        records.keep(&uid, &[&first]).unwrap();
        records.keep(&uid, &[&first, &second]).unwrap();
        let read = earlier(&directory);
        let specs: Vec<_> = read.iter().flatten().map(|version| &version.spec).collect();
        assert_eq!(specs, [&first.spec, &second.spec]);
        assert_eq!(read[0][0].metadata.finalizers, first.metadata.finalizers);
        records.keep(&uid, &[]).unwrap();
        records.keep(&uid, &[]).unwrap();
        assert!(earlier(&directory).is_empty());
    }

    #[test]
    fn a_damaged_record_is_renamed_and_the_others_are_read() {
        let (directory, records) = records();
        let chassis = Chassis::new(1);
        let object = chassis.object(0);
        records.keep(object.metadata.uid.as_deref().unwrap(), &[&object]).unwrap();
        for (name, text) in [("0.json", "{"), ("1.json", "")] {
            fs::write(directory.path().join("mounts").join(name), text).unwrap();
        }
        assert_eq!(earlier(&directory).len(), 1);
        assert!(directory.path().join("mounts/0.damaged").exists());
    }

    #[test]
    fn a_record_that_cannot_be_read_is_an_error_and_does_not_count_as_missing() {
        let (directory, records) = records();
        let object = Chassis::new(1).object(0);
        let uid = object.metadata.uid.clone().unwrap();
        let path = directory.path().join(format!("mounts/{uid}.json"));
        fs::create_dir(&path).unwrap();
        assert!(matches!(MountRecords::open(directory.path()), Err(RecordError::Read { .. })));
        assert!(matches!(records.forget(&uid, &[object]), Err(RecordError::Read { .. })));
        assert!(path.exists());
    }

    #[test]
    fn a_uid_that_is_a_path_is_refused() {
        let (_directory, records) = records();
        let chassis = Chassis::new(1);
        let error = records.keep("../../etc/passwd", &[&chassis.object(0)]).unwrap_err();
        assert!(matches!(error, RecordError::Uid(_)), "{error}");
    }
}
