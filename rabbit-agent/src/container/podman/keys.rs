//! Keys that containers find in files.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown},
    path::Path,
};

use api::node_containers::NodeContainersSource;

use super::{HostError, at};
use crate::container::step::{KeyFiles, Keys};

/// The keys are there whole or not at all, and their user alone reads them.
pub(super) fn write(directory: &Path, keys: &Keys) -> Result<(), HostError> {
    let Some(KeyFiles(files)) = &keys.files else {
        let NodeContainersSource { namespace, name } = keys.of.clone();
        return Err(HostError::NoKeys { namespace, name });
    };
    let new = directory.with_extension("new");
    if new.exists() {
        at(&new, fs::remove_dir_all(&new))?;
    }
    at(&new, DirBuilder::new().recursive(true).mode(0o700).create(&new))?;
    let [user, group] = [keys.user, keys.group].map(|id| u32::try_from(id).ok());
    let own = |path: &Path| at(path, chown(path, user, group));
    for (name, text) in files {
        let path = new.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path);
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        at(&path, written)?;
        own(&path)?;
    }
    own(&new)?;
    at(directory, fs::rename(&new, directory))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn keys(files: Option<KeyFiles>) -> Keys {
        let of =
            NodeContainersSource { namespace: "default".to_owned(), name: "w-1-a1-x".to_owned() };
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        Keys { uid, user: 1050, group: 1051, of, files }
    }

    #[test]
    fn their_user_alone_reads_them() {
        if !gate::root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("x-keys");
        // What an agent left that was killed while it wrote.
        fs::create_dir(directory.path().join("x-keys.new")).unwrap();
        let files = KeyFiles([("key.pem".to_owned(), "secret".to_owned())].into());
        assert!(!format!("{files:?}").contains("secret"));
        write(&place, &keys(Some(files))).unwrap();
        for (path, mode) in [(place.clone(), 0o700), (place.join("key.pem"), 0o400)] {
            let found = fs::metadata(path).unwrap();
            assert_eq!((found.mode() & 0o777, found.uid(), found.gid()), (mode, 1050, 1051));
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn keys_that_are_gone_are_named_and_nothing_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let error = write(&directory.path().join("x-keys"), &keys(None)).unwrap_err().to_string();
        assert!(error.contains("there is no Secret default/w-1-a1-x"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
