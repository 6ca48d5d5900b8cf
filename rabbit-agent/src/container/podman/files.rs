//! Files of the configuration of containers.

use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use api::node_containers::NodeContainersSource;
use containers::nodes::DISCOVER_HOSTS;

use super::{HostError, at};
use crate::container::step::Files;

/// The files are there whole or not at all. Containers read them; nobody lists those of others, since the state directory is root's
/// own.
pub(super) fn write(directory: &Path, files: &Files) -> Result<(), HostError> {
    let Some(texts) = &files.files else {
        let NodeContainersSource { namespace, name } = files.of.clone();
        return Err(HostError::NoFiles { namespace, name });
    };
    let new = directory.with_extension("new");
    at(&new, fs::create_dir_all(&new))?;
    for (name, text) in texts {
        let path = new.join(name);
        // On disk before the rename is: nobody compares the texts after a loss of power.
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        at(&path, written)?;
        if name == DISCOVER_HOSTS {
            at(&path, fs::set_permissions(&path, Permissions::from_mode(0o755)))?;
        }
    }
    at(directory, fs::rename(&new, directory))
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
    use super::*;

    fn files(files: Option<[(&str, &str); 1]>) -> Files {
        let of = NodeContainersSource { namespace: "default".to_owned(), name: "w-1".to_owned() };
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        Files { uid, of, files: files.map(|all| all.map(owned).into()) }
    }

    #[test]
    fn what_an_agent_left_that_was_killed_while_it_wrote_is_made_up_for() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("x");
        fs::create_dir(directory.path().join("x.new")).unwrap();
        fs::write(directory.path().join("x.new/nodes.json"), "[{").unwrap();
        write(&place, &files(Some([("nodes.json", "[]")]))).unwrap();
        assert_eq!(fs::read_to_string(place.join("nodes.json")).unwrap(), "[]");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_that_are_gone_are_named_and_nothing_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let error = write(&directory.path().join("x"), &files(None)).unwrap_err().to_string();
        assert!(error.contains("there is no ConfigMap default/w-1"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
