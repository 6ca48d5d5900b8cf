//! A job's storage on its own XFS, a home directory of the user, and movements between both.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use api::{
    NnfDataMovement, NnfDataMovementProfile, NnfDataMovementStatus,
    names::{label, movement::INDEX_DIRECTORY},
    nnf_data_movement::{DataMovementState, DataMovementVerdict},
};
use rabbit_agent::kinds::movement::args::MovementConfig;
use serde_json::{Value, json};

use crate::bench::{Bench, RABBIT, roots};

/// The job's user and group.
pub(crate) const USER: u32 = 1050;

/// Bytes per second: so slow that a copy of a few MiB does not end before a test has seen its progress.
pub(crate) const SLOW: u64 = 512 << 10;

/// The directories of a test on the rabbit.
pub(crate) struct Site {
    directory: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "a test prepares the node by hand")]
fn must(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

impl Site {
    /// Creates mounted storage and a home directory.
    pub(crate) fn new() -> Self {
        let site = Self::unmounted();
        site.mount();
        site
    }

    /// Creates the directories of the storage and of the home, but does not mount the storage.
    pub(crate) fn unmounted() -> Self {
        let site = Self { directory: tempfile::tempdir().unwrap() };
        let world = fs::Permissions::from_mode(0o755);
        fs::set_permissions(site.directory.path(), world).unwrap();
        fs::create_dir_all(site.storage()).unwrap();
        fs::create_dir(site.home()).unwrap();
        chown(site.home(), Some(USER), Some(USER)).unwrap();
        site
    }

    /// Mounts the storage.
    pub(crate) fn mount(&self) {
        let (image, storage) = (self.directory.path().join("image"), self.storage());
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        must("mkfs.xfs", &["-q", image.to_str().unwrap()]);
        must("mount", &["-o", "loop", image.to_str().unwrap(), storage.to_str().unwrap()]);
        chown(&storage, Some(USER), Some(USER)).unwrap();
    }

    pub(crate) fn storage(&self) -> PathBuf {
        self.directory.path().join("mnt/job-0/rabbit-1-0")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// Creates a file of the user in the home directory.
    pub(crate) fn plant(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        for made in path.ancestors().take_while(|made| *made != self.home()) {
            chown(made, Some(USER), Some(USER)).unwrap();
        }
        path
    }

    /// Starts an agent that moves data; `change` edits the configuration of movements.
    pub(crate) async fn bench(&self, change: impl FnOnce(&mut MovementConfig)) -> Bench {
        let mut bench = Bench::bare().await;
        bench.site().await;
        bench.mount_roots = Some(roots(&[self.directory.path().join("mnt").to_str().unwrap()]));
        change(&mut bench.movements);
        bench.make::<NnfDataMovementProfile>("default", profile("w-1", &[])).await;
        bench.start();
        bench
    }

    /// Returns a movement from a path in the home directory to a path in the storage.
    pub(crate) fn movement(&self, name: &str, source: &str, destination: &str) -> Value {
        let (home, storage) = (text(&self.home()), text(&self.storage()));
        json!({
            "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfDataMovement",
            "metadata": {"name": name, "namespace": RABBIT, "labels": {label::WORKFLOW_NAME: "w"}},
            "spec": {
                "userId": USER, "groupId": USER, "cancel": false,
                "source": {"path": home.clone() + source,
                    "storageReference": {"kind": "Directory", "name": "home", "fieldPath": home}},
                "destination": {"path": storage.clone() + destination,
                    "storageReference": {"kind": "Servers", "name": "w-0", "namespace": "default", "fieldPath": storage}},
                "profileReference": {"kind": "NnfDataMovementProfile", "name": "w-1", "namespace": "default"},
            },
        })
    }

    /// Returns a movement from a path in the storage to a path in the home directory.
    pub(crate) fn movement_out(
        &self,
        name: &str,
        source: &str,
        destination: &str,
        index: &str,
    ) -> Value {
        let mut object = self.movement(name, destination, source);
        let spec = object["spec"].as_object_mut().unwrap();
        let (source, destination) = (spec["destination"].take(), spec["source"].take());
        (spec["source"], spec["destination"]) = (source, destination);
        object["metadata"]["labels"][INDEX_DIRECTORY] = json!(index);
        object
    }

    /// Returns the paths of temporary files in the storage and the home directory.
    pub(crate) fn temporary_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![self.storage(), self.home()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_name().to_string_lossy().starts_with(".warren-") {
                    found.push(entry.path());
                } else if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                }
            }
        }
        found
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Unmounts lazily: while another test starts a program, the child process holds all open files until its
        // exec(2).
        let storage = text(&self.storage());
        #[expect(clippy::disallowed_methods, reason = "what the test mounted")]
        let _ = Command::new("umount").args(["--lazy", &storage]).output();
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Returns a pinned profile with further fields.
pub(crate) fn profile(name: &str, fields: &[(&str, bool)]) -> Value {
    let mut data = json!({"default": false, "pinned": true, "progressIntervalSeconds": 1, "createDestDir": true});
    for (field, value) in fields {
        data[field] = json!(value);
    }
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfDataMovementProfile",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    })
}

/// Returns the configuration of data movement in tests.
pub(crate) fn config(state: &Path) -> MovementConfig {
    MovementConfig {
        datamover: tests::program::binary("datamover").unwrap_or_default(),
        uses_scopes: false,
        at_once: 4,
        threads: 2,
        rate: None,
        total_rate: None,
        block: 1 << 20,
        grace: Duration::from_secs(2),
        silence: Duration::from_secs(60),
        clean: Duration::from_secs(10),
        state: state.join("movements"),
    }
}

pub(crate) fn status(object: &NnfDataMovement) -> NnfDataMovementStatus {
    object.status.clone().unwrap_or_default()
}

/// Returns a check that a movement has finished with this verdict.
pub(crate) fn is_finished_as(verdict: DataMovementVerdict) -> impl Fn(&NnfDataMovement) -> bool {
    move |object| object.is_finished() && status(object).status.as_ref() == Some(&verdict)
}

/// Whether a copy runs and has copied a file.
pub(crate) fn has_progress(object: &NnfDataMovement) -> bool {
    let status = status(object);
    status.state == Some(DataMovementState::Running) && status.command_status.files > Some(0)
}

/// Returns a check that a movement waits and its message contains this reason.
pub(crate) fn waits_for(why: &str) -> impl Fn(&NnfDataMovement) -> bool {
    move |object| {
        let status = status(object);
        status.state == Some(DataMovementState::Starting) && status.message.contains(why)
    }
}

/// Returns the uid of a file's owner.
pub(crate) fn owner(path: &Path) -> u32 {
    fs::metadata(path).unwrap().uid()
}
