//! Checks one pod of a profile.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use api::nnf_container_profile::{NnfContainer, NnfPodSpec};
use thiserror::Error;

use crate::{mpi, names::is_label, pod};

/// Paths in a container at which Warren mounts files and devices.
const RESERVED_PATHS: [&str; 5] = ["/nnf", "/etc/mpi", "/etc/passwd", "/etc/group", pod::DEVICES];

/// Maximum bytes of a name that a fault shows.
const MAX_SHOWN_BYTES: usize = 64;

/// A fault of one pod of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PodFault {
    #[error("containers is empty: ask the administrator to add one")]
    NoContainers,
    #[error(
        "container {0:?}: a name has a-z, 0-9 and - and at most 63 characters; ask the administrator to correct it"
    )]
    ContainerName(String),
    #[error("container {0:?} occurs twice: ask the administrator to give each a different name")]
    SameContainer(String),
    #[error(
        "container {0:?} has a name that is reserved for Warren's own containers: ask the administrator to rename it"
    )]
    ReservedContainer(String),
    #[error(
        "container {0:?} has a name that is reserved for copy offload, which Warren does not support: ask the administrator to rename it"
    )]
    CopyOffload(String),
    #[error(
        "container {name:?}: env {variable:?} is not a valid name of a variable, which is not empty and has neither = nor control characters; ask the administrator to correct it"
    )]
    VariableName { name: String, variable: String },
    #[error("container {0:?} has no image: ask the administrator to add one")]
    NoImage(String),
    #[error(
        "container {0:?} has a command: the first container of a worker starts what mpirun asks for; ask the administrator to remove command and args"
    )]
    WorkerCommand(String),
    #[error(
        "container {0:?} has a readinessProbe: the first container of a worker is ready once it answers with the keys of its attempt; ask the administrator to remove the probe"
    )]
    WorkerProbe(String),
    #[error(
        "container {name:?} has a volumeMount at {path}: {kept} is reserved for Warren's own files; ask the administrator to mount it elsewhere"
    )]
    MountPath {
        name: String,
        path: String,
        /// Warren's path that the volume would hide.
        kept: &'static str,
    },
    #[error(
        "volume {0:?}: the name is reserved for Warren's own volumes; ask the administrator to rename it"
    )]
    VolumeName(String),
    #[error(
        "volume {0:?} is a hostPath: containers see no more of their rabbit than the storage that a directive names; ask the administrator to remove it"
    )]
    HostPath(String),
    #[error(
        "automountServiceAccountToken is true: containers of users get no token for the API; ask the administrator to remove it"
    )]
    Token,
}

/// Returns the faults of a pod.
pub(super) fn pod_faults(spec: &NnfPodSpec) -> Vec<PodFault> {
    let mut faults = Vec::new();
    if spec.containers.is_empty() {
        faults.push(PodFault::NoContainers);
    }
    let mut names = BTreeSet::new();
    for container in spec.containers.iter().chain(&spec.init_containers) {
        faults.extend(container_faults(container));
        if !names.insert(&container.name) {
            faults.push(PodFault::SameContainer(container.name.clone()));
        }
    }
    for volume in &spec.volumes {
        if pod::is_kept_name(&volume.name) {
            faults.push(PodFault::VolumeName(volume.name.clone()));
        }
        if volume.host_path.is_some() {
            faults.push(PodFault::HostPath(volume.name.clone()));
        }
    }
    if spec.automount_service_account_token == Some(true) {
        faults.push(PodFault::Token);
    }
    faults
}

fn container_faults(container: &NnfContainer) -> Vec<PodFault> {
    let name = || container.name.clone();
    let mut faults = Vec::new();
    if !is_label(&container.name) {
        faults.push(PodFault::ContainerName(name()));
    }
    if mpi::OWN.contains(&container.name.as_str()) {
        faults.push(PodFault::ReservedContainer(name()));
    }
    if is_copy_offload(&container.name) {
        faults.push(PodFault::CopyOffload(name()));
    }
    if container.image.is_empty() {
        faults.push(PodFault::NoImage(name()));
    }
    let is_variable =
        |text: &str| !text.is_empty() && !text.contains('=') && !text.contains(char::is_control);
    let wrong = container.env.iter().filter(|variable| !is_variable(&variable.name));
    faults.extend(wrong.map(|wrong| {
        let variable = causes::shortened(wrong.name.clone(), MAX_SHOWN_BYTES);
        PodFault::VariableName { name: name(), variable }
    }));
    let paths = container.volume_mounts.iter().map(|mount| &mount.mount_path);
    faults.extend(paths.filter_map(|path| {
        let kept = reserved_path(path)?;
        Some(PodFault::MountPath { name: name(), path: path.clone(), kept })
    }));
    faults
}

/// Returns the path reserved for Warren that a volume at `path` would hide.
fn reserved_path(path: &str) -> Option<&'static str> {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    let path: PathBuf = parts.into_iter().collect();
    RESERVED_PATHS.into_iter().find(|reserved| path.starts_with(reserved))
}

/// Returns whether a container's name contains the word `copy-offload` or `copyoffload`, not as a part of another word.
/// Such names are reserved for copy offload, which Warren does not support.
pub(super) fn is_copy_offload(name: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let name = name.to_lowercase();
    ["copy-offload", "copyoffload"].into_iter().any(|word| {
        name.match_indices(word).any(|(at, _)| {
            let (before, after) = (&name[..at], &name[at + word.len()..]);
            !is_word(before.chars().next_back()) && !is_word(after.chars().next())
        })
    })
}
