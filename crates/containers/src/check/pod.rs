//! Whether a pod of a profile can be carried out.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use api::nnf_container_profile::{NnfContainer, NnfPodSpec};
use thiserror::Error;

use crate::{mpi, names::is_label, pod};

/// Where files and devices of ours are in a container.
const KEPT: [&str; 5] = ["/nnf", "/etc/mpi", "/etc/passwd", "/etc/group", pod::DEVICES];

/// Most bytes that a fault shows of a name.
const MOST_SHOWN: usize = 64;

/// What is wrong with one pod of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PodFault {
    #[error("containers is empty: the administrator adds one")]
    NoContainers,
    #[error(
        "container {0:?}: a name has a-z, 0-9 and - and at most 63 characters; the administrator corrects it"
    )]
    ContainerName(String),
    #[error("container {0:?} is there twice: the administrator gives each a name of its own")]
    SameContainer(String),
    #[error(
        "container {0:?} has a name that is kept for Warren's own: the administrator renames it"
    )]
    KeptContainer(String),
    #[error(
        "container {0:?} has a name that is kept for copy offload, which is not carried out here: the administrator renames it"
    )]
    CopyOffload(String),
    #[error(
        "container {name:?}: env {variable:?} is no name of a variable, which is not empty and has neither = nor control characters; the administrator corrects it"
    )]
    VariableName {
        /// The container.
        name: String,
        /// The name of its variable.
        variable: String,
    },
    #[error("container {0:?} has no image: the administrator adds one")]
    NoImage(String),
    #[error(
        "container {0:?} has a command: the first container of a worker starts what mpirun asks for; the administrator takes command and args out"
    )]
    WorkerCommand(String),
    #[error(
        "container {0:?} has a readinessProbe: the first container of a worker is ready once it answers with the keys of its attempt; the administrator takes the probe out"
    )]
    WorkerProbe(String),
    #[error(
        "container {name:?} has a volumeMount at {path}: {kept} is kept for Warren's own files; the administrator mounts it elsewhere"
    )]
    MountPath {
        /// The container.
        name: String,
        /// Where its volume is mounted.
        path: String,
        /// What is there.
        kept: &'static str,
    },
    #[error(
        "volume {0:?}: the name is kept for Warren's own volumes; the administrator renames it"
    )]
    VolumeName(String),
    #[error(
        "volume {0:?} is a hostPath: containers see no more of their rabbit than the storage that a directive names; the administrator takes it out"
    )]
    HostPath(String),
    #[error(
        "automountServiceAccountToken is true: containers of users get no token for the API; the administrator takes it out"
    )]
    Token,
}

/// Everything that is wrong with a pod.
pub(super) fn of_pod(spec: &NnfPodSpec) -> Vec<PodFault> {
    let mut faults = Vec::new();
    if spec.containers.is_empty() {
        faults.push(PodFault::NoContainers);
    }
    let mut names = BTreeSet::new();
    for container in spec.containers.iter().chain(&spec.init_containers) {
        faults.extend(of_container(container));
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

fn of_container(container: &NnfContainer) -> Vec<PodFault> {
    let name = || container.name.clone();
    let mut faults = Vec::new();
    if !is_label(&container.name) {
        faults.push(PodFault::ContainerName(name()));
    }
    if mpi::OWN.contains(&container.name.as_str()) {
        faults.push(PodFault::KeptContainer(name()));
    }
    if is_copy_offload(&container.name) {
        faults.push(PodFault::CopyOffload(name()));
    }
    if container.image.is_empty() {
        faults.push(PodFault::NoImage(name()));
    }
    let is_variable =
        |text: &str| !text.is_empty() && !text.contains('=') && !text.contains(char::is_control);
    let wrong = container.env.iter().filter(|one| !is_variable(&one.name));
    faults.extend(wrong.map(|one| {
        let variable = causes::shortened(one.name.clone(), MOST_SHOWN);
        PodFault::VariableName { name: name(), variable }
    }));
    let paths = container.volume_mounts.iter().map(|mount| &mount.mount_path);
    faults.extend(paths.filter_map(|path| {
        let kept = kept(path)?;
        Some(PodFault::MountPath { name: name(), path: path.clone(), kept })
    }));
    faults
}

/// What of ours a volume at this path would hide, or be hidden by.
fn kept(path: &str) -> Option<&'static str> {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    let path: PathBuf = parts.into_iter().collect();
    KEPT.into_iter().find(|kept| path.starts_with(kept))
}

/// Whether a container's name says that it serves copies: `copy-offload` or `copyoffload` as words of it.
pub(super) fn is_copy_offload(name: &str) -> bool {
    let is_word = |one: Option<char>| one.is_some_and(|one| one.is_alphanumeric() || one == '_');
    let name = name.to_lowercase();
    ["copy-offload", "copyoffload"].into_iter().any(|word| {
        name.match_indices(word).any(|(at, _)| {
            let (before, after) = (&name[..at], &name[at + word.len()..]);
            !is_word(before.chars().next_back()) && !is_word(after.chars().next())
        })
    })
}
