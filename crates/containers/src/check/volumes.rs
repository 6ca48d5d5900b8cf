//! Checks a pod's volumes for sites where the rabbits' agents run the containers. The agents implement only emptyDir
//! volumes: a directory that the containers of one attempt share.

use std::{
    collections::BTreeSet,
    path::{Component, Path},
};

use api::nnf_container_profile::{NnfContainer, NnfPodSpec};
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume, VolumeMount};
use serde_json::Value;

use super::{ProfileFault, on_rabbit::fault};
use crate::names::is_label;

/// Returns whether a volume may be mounted at this path. The path must be absolute and other than `/`, and must contain
/// neither `..` nor NUL, nor a colon, at which podman splits the value of `--volume`.
#[must_use]
pub fn is_mount_path(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    let rest: Vec<_> = parts.collect();
    let is_plain = rest.iter().all(|part| matches!(part, Component::Normal(_)));
    is_absolute && is_plain && !rest.is_empty() && !path.contains([':', '\0'])
}

/// Returns the faults of a pod's volumes and of its containers' volumeMounts.
pub(super) fn volume_faults(at: &str, spec: &NnfPodSpec) -> Vec<ProfileFault> {
    let mut names = BTreeSet::new();
    let mut faults = Vec::new();
    for volume in &spec.volumes {
        let name = &volume.name;
        let refusal =
            |field: &str, remedy| fault(format!("{at}.volumes: {name:?}: {field}"), remedy);
        if !is_label(name) {
            faults.push(refusal(
                "name",
                "ask the administrator to name it with a-z, 0-9 and -, and at most 63 characters",
            ));
        }
        if !names.insert(name.as_str()) {
            faults.push(refusal(
                "name",
                "ask the administrator to give each volume a different name",
            ));
        }
        faults.extend(
            refused_fields(volume).into_iter().map(|(field, remedy)| refusal(&field, remedy)),
        );
    }
    let containers = spec.init_containers.iter().chain(&spec.containers);
    faults.extend(containers.flat_map(|container| mount_faults(container, &names)));
    faults
}

/// A refused field, and the remedy.
type Refused = (String, &'static str);

fn refused_fields(volume: &Volume) -> Vec<Refused> {
    let object = serde_json::to_value(volume).unwrap_or_default();
    let fields = object.as_object().into_iter().flat_map(|fields| fields.keys());
    let others = fields.filter(|field| !["name", "emptyDir"].contains(&field.as_str()));
    let remedy = "ask the administrator to make it an emptyDir, or to remove it; containers may write to the job's storage too";
    let mut refused: Vec<Refused> = others.map(|field| (field.clone(), remedy)).collect();
    let Some(EmptyDirVolumeSource { medium, size_limit }) = volume.empty_dir.clone() else {
        if refused.is_empty() {
            refused.push(("a volume without emptyDir".to_owned(), remedy));
        }
        return refused;
    };
    if let Some(medium) = medium.filter(|medium| !medium.is_empty()) {
        let remedy = "ask the administrator to remove it; the directory is on a disk of the rabbit";
        refused.push((format!("emptyDir.medium {medium}"), remedy));
    }
    if size_limit.is_some() {
        let remedy =
            "ask the administrator to remove it; the rabbit's agent cannot limit a directory";
        refused.push(("emptyDir.sizeLimit".to_owned(), remedy));
    }
    refused
}

fn mount_faults(container: &NnfContainer, volumes: &BTreeSet<&str>) -> Vec<ProfileFault> {
    let mut paths = BTreeSet::new();
    let mut faults = Vec::new();
    for mount in &container.volume_mounts {
        let at = format!("container {:?}: volumeMounts: {:?}", container.name, mount.name);
        let refusal = |field: &str, remedy| fault(format!("{at}: {field}"), remedy);
        if !volumes.contains(mount.name.as_str()) {
            faults.push(refusal(
                "name",
                "ask the administrator to add an emptyDir of this name to volumes",
            ));
        }
        let path = format!("mountPath {:?}", mount.mount_path);
        if !is_mount_path(&mount.mount_path) {
            let remedy =
                "ask the administrator to write an absolute path beneath /, without .. and colons";
            faults.push(refusal(&path, remedy));
        } else if !paths.insert(Path::new(&mount.mount_path)) {
            faults
                .push(refusal(&path, "ask the administrator to give each mount a different path"));
        }
        let unsupported = unsupported_fields(mount).into_iter();
        faults
            .extend(unsupported.map(|field| refusal(&field, "ask the administrator to remove it")));
    }
    faults
}

/// Returns the fields of a volumeMount that the rabbits' agents do not implement.
fn unsupported_fields(mount: &VolumeMount) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(mount) else { return Vec::new() };
    let known = ["name", "mountPath", "readOnly"];
    fields.into_iter().map(|(field, _)| field).filter(|field| !known.contains(&&**field)).collect()
}

#[cfg(test)]
mod tests;
