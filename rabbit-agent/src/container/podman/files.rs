//! Files that containers find: those of their configuration, keys, and directories that they share.
//!
//! Each object has a directory for all of them. It goes with the object, whatever an agent that was killed left in it.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown},
    path::{Path, PathBuf},
};

use api::node_containers::NodeContainersSource;
use containers::nodes::DISCOVER_HOSTS;

use super::{HostError, at};
use crate::container::step::{Files, KeyFiles, Keys, Volumes};

/// Writes the files of a configuration. Containers read them; nobody lists those of others, since the state directory is
/// root's own.
pub(super) fn write(directory: &Path, files: &Files) -> Result<(), HostError> {
    let Some(texts) = &files.files else {
        let NodeContainersSource { namespace, name } = files.of.clone();
        return Err(HostError::NoFiles { namespace, name });
    };
    let mode = |name: &str| if name == DISCOVER_HOSTS { 0o755 } else { 0o644 };
    replace(directory, 0o755, texts, mode, |_| Ok(()))
}

/// Writes keys, which their user alone reads.
pub(super) fn write_keys(directory: &Path, keys: &Keys) -> Result<(), HostError> {
    let Some(KeyFiles(texts)) = &keys.files else {
        let NodeContainersSource { namespace, name } = keys.of.clone();
        return Err(HostError::NoKeys { namespace, name });
    };
    let [user, group] = [keys.user, keys.group].map(|id| u32::try_from(id).ok());
    replace(directory, 0o700, texts, |_| 0o400, |path| chown(path, user, group))
}

/// Makes the directories that the containers of an attempt share: their user's alone. All are there or none.
pub(super) fn make_volumes(directory: &Path, volumes: &Volumes) -> Result<(), HostError> {
    let new = unfinished(directory)?;
    at(&new, fs::create_dir_all(&new))?;
    let [user, group] = [volumes.user, volumes.group].map(|id| u32::try_from(id).ok());
    for name in &volumes.names {
        let path = new.join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        at(&path, made.and_then(|()| chown(&path, user, group)))?;
    }
    at(directory, fs::rename(&new, directory))
}

/// Makes a directory with these files. It is there whole or not at all.
fn replace(
    directory: &Path,
    mode: u32,
    texts: &BTreeMap<String, String>,
    mode_of: impl Fn(&str) -> u32,
    own: impl Fn(&Path) -> io::Result<()>,
) -> Result<(), HostError> {
    let new = unfinished(directory)?;
    if let Some(parent) = new.parent() {
        at(parent, fs::create_dir_all(parent))?;
    }
    at(&new, DirBuilder::new().mode(mode).create(&new))?;
    for (name, text) in texts {
        let path = new.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode_of(name)).open(&path);
        // On disk before the rename is: nobody compares the texts after a loss of power.
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        at(&path, written.and_then(|()| own(&path)))?;
    }
    at(&new, own(&new))?;
    at(directory, fs::rename(&new, directory))
}

/// Removes a directory with its files. It is there whole or not at all.
pub(super) fn remove(directory: &Path) -> Result<(), HostError> {
    let old = unfinished(directory)?;
    at(directory, fs::rename(directory, &old))?;
    at(&old, trees::remove(&old))
}

/// Where a directory is made, and removed. Nothing is there, whatever an agent left that was killed meanwhile.
fn unfinished(directory: &Path) -> Result<PathBuf, HostError> {
    let path = directory.with_extension("unfinished");
    if path.exists() {
        at(&path, trees::remove(&path))?;
    }
    Ok(path)
}

/// Names of the files that are there.
pub(super) fn names(directory: &Path) -> Result<Vec<String>, HostError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let entries = at(directory, fs::read_dir(directory))?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::container::step::PodName;

    fn of() -> NodeContainersSource {
        NodeContainersSource { namespace: "default".to_owned(), name: "w-1".to_owned() }
    }

    fn files(files: Option<[(&str, &str); 1]>) -> Files {
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        Files { uid, of: of(), files: files.map(|all| all.map(owned).into()) }
    }

    fn keys(files: Option<KeyFiles>) -> Keys {
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        Keys { uid, user: 1050, group: 1051, of: of(), files }
    }

    #[test]
    fn what_an_agent_left_that_was_killed_while_it_wrote_is_made_up_for() {
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
    fn keys_are_read_by_their_user_alone() {
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
    fn directories_that_containers_share_are_their_user_s_alone_and_all_there_or_none() {
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
        super::names(directory).unwrap()
    }

    #[test]
    fn what_is_gone_is_named_and_nothing_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("uid/files");
        let error = write(&place, &files(None)).unwrap_err().to_string();
        assert!(error.contains("there is no ConfigMap default/w-1"), "{error}");
        let error = write_keys(&place, &keys(None)).unwrap_err().to_string();
        assert!(error.contains("there is no Secret default/w-1"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
