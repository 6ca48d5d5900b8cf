//! Writes the files of containers: configuration, keys, and the directories that the containers of an attempt share.
//!
//! Each object has one directory for all of these files. The directory is removed with the object, and with it the
//! `.unfinished` directories that a killed agent left in it.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown},
    path::{Path, PathBuf},
};

use api::node_containers::NodeContainersSource;
use containers::nodes::DISCOVER_HOSTS;

use super::{HostError, with_path};
use crate::kinds::container::step::{Files, KeyFiles, Keys, Volumes};

/// Writes the configuration files with a mode that lets any user read them. A user outside the containers cannot reach
/// the files, because only root may enter the state directory.
pub(super) fn write(directory: &Path, files: &Files) -> Result<(), HostError> {
    let Some(texts) = &files.files else {
        let NodeContainersSource { namespace, name } = files.source.clone();
        return Err(HostError::NoFiles { namespace, name });
    };
    let mode = |name: &str| if name == DISCOVER_HOSTS { 0o755 } else { 0o644 };
    create_with_files(directory, 0o755, texts, mode, |_| Ok(()))
}

/// Writes the keys. Only the containers' user may read them.
pub(super) fn write_keys(directory: &Path, keys: &Keys) -> Result<(), HostError> {
    let Some(KeyFiles(texts)) = &keys.files else {
        let NodeContainersSource { namespace, name } = keys.source.clone();
        return Err(HostError::NoKeys { namespace, name });
    };
    let [user, group] = [keys.user, keys.group].map(|id| u32::try_from(id).ok());
    create_with_files(directory, 0o700, texts, |_| 0o400, |path| chown(path, user, group))
}

/// Creates the directories that the containers of an attempt share. Only the containers' user may use them. Creates
/// all directories or none.
pub(super) fn make_volumes(directory: &Path, volumes: &Volumes) -> Result<(), HostError> {
    let new = unused_temporary(directory)?;
    with_path(&new, fs::create_dir_all(&new))?;
    let [user, group] = [volumes.user, volumes.group].map(|id| u32::try_from(id).ok());
    for name in &volumes.names {
        let path = new.join(name);
        let created = DirBuilder::new().mode(0o700).create(&path);
        with_path(&path, created.and_then(|()| chown(&path, user, group)))?;
    }
    with_path(directory, fs::rename(&new, directory))
}

/// Creates a directory with these files. The directory appears by a rename, so it has all its files at once.
fn create_with_files(
    directory: &Path,
    mode: u32,
    texts: &BTreeMap<String, String>,
    mode_of: impl Fn(&str) -> u32,
    own: impl Fn(&Path) -> io::Result<()>,
) -> Result<(), HostError> {
    let new = unused_temporary(directory)?;
    if let Some(parent) = new.parent() {
        with_path(parent, fs::create_dir_all(parent))?;
    }
    with_path(&new, DirBuilder::new().mode(mode).create(&new))?;
    for (name, text) in texts {
        let path = new.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode_of(name)).open(&path);
        // The file must be on disk before the rename: the agent does not check the content again after a power failure.
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        with_path(&path, written.and_then(|()| own(&path)))?;
    }
    with_path(&new, own(&new))?;
    with_path(directory, fs::rename(&new, directory))
}

/// Removes a directory with its files. The directory disappears by a rename, all at once.
pub(super) fn remove(directory: &Path) -> Result<(), HostError> {
    let old = unused_temporary(directory)?;
    with_path(directory, fs::rename(directory, &old))?;
    with_path(&old, files::remove_tree(&old))
}

/// Returns a path beside `directory` at which the directory can be built or removed. First removes leftovers of a
/// killed agent from this path.
fn unused_temporary(directory: &Path) -> Result<PathBuf, HostError> {
    let path = directory.with_extension("unfinished");
    if path.exists() {
        with_path(&path, files::remove_tree(&path))?;
    }
    Ok(path)
}

/// Returns the names of a directory's entries; empty if the directory does not exist.
pub(super) fn list(directory: &Path) -> Result<Vec<String>, HostError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let entries = with_path(directory, fs::read_dir(directory))?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::kinds::container::step::PodName;

    fn source() -> NodeContainersSource {
        NodeContainersSource { namespace: "default".to_owned(), name: "w-1".to_owned() }
    }

    fn files(files: Option<[(&str, &str); 1]>) -> Files {
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        Files { uid, source: source(), files: files.map(|all| all.map(owned).into()) }
    }

    fn keys(files: Option<KeyFiles>) -> Keys {
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        Keys { uid, user: 1050, group: 1051, source: source(), files }
    }

    #[test]
    fn an_unfinished_directory_of_a_killed_agent_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("uid/files");
        let half = directory.path().join("uid/files.unfinished");
        fs::create_dir_all(&half).unwrap();
        fs::write(half.join("nodes.json"), "[{").unwrap();
        write(&place, &files(Some([("nodes.json", "[]")]))).unwrap();
        assert_eq!(fs::read_to_string(place.join("nodes.json")).unwrap(), "[]");
        assert!(!half.exists());
    }

    #[test]
    fn only_the_user_may_read_the_keys() {
        if !gate::root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("uid/keys");
        let files = KeyFiles([("key.pem".to_owned(), "secret".to_owned())].into());
        assert!(!format!("{files:?}").contains("secret"));
        write_keys(&place, &keys(Some(files))).unwrap();
        for (path, mode) in [(place.clone(), 0o700), (place.join("key.pem"), 0o400)] {
            let found = fs::metadata(path).unwrap();
            assert_eq!((found.mode() & 0o777, found.uid(), found.gid()), (mode, 1050, 1051));
        }
    }

    #[test]
    fn shared_directories_belong_to_their_user_and_appear_all_at_once() {
        if !gate::root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("uid/volumes/2");
        fs::create_dir_all(directory.path().join("uid/volumes/2.unfinished/v")).unwrap();
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let (pod, names) = (PodName { uid, attempt: 2 }, ["v", "w"].map(str::to_owned).to_vec());
        make_volumes(&place, &Volumes { pod, user: 1050, group: 1051, names }).unwrap();
        for name in ["v", "w"] {
            let found = fs::metadata(place.join(name)).unwrap();
            assert_eq!((found.mode() & 0o777, found.uid(), found.gid()), (0o700, 1050, 1051));
        }
        assert_eq!(names_in(place.parent().unwrap()), ["2"]);
    }

    fn names_in(directory: &Path) -> Vec<String> {
        super::list(directory).unwrap()
    }

    #[test]
    fn a_missing_config_map_or_secret_is_named_and_nothing_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("uid/files");
        let error = write(&place, &files(None)).unwrap_err().to_string();
        assert!(error.contains("there is no ConfigMap default/w-1"), "{error}");
        let error = write_keys(&place, &keys(None)).unwrap_err().to_string();
        assert!(error.contains("there is no Secret default/w-1"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
