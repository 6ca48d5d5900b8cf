//! Whether a profile can be carried out, whoever names it. Told in Proposal, before anything is made.

use std::collections::BTreeSet;

use api::{
    NnfContainerProfileData,
    nnf_container_profile::{NnfContainer, NnfPodSpec},
};
use thiserror::Error;

use crate::{names::is_label, pod};

/// What is wrong with a profile: for its administrator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileFault {
    #[error("data has neither spec nor mpiSpec: the administrator adds one")]
    Nothing,
    #[error("data has both spec and mpiSpec: the administrator takes one out")]
    Both,
    #[error(
        "data.mpiSpec is not carried out here: this version of Warren runs one pod on each rabbit; name a profile with data.spec"
    )]
    Mpi,
    #[error(
        "data.createContainer is false, which is not carried out here: name a profile that makes containers"
    )]
    NoContainer,
    #[error("data.spec.containers is empty: the administrator adds one")]
    NoContainers,
    #[error(
        "container {0:?} of data.spec: a name has a-z, 0-9 and - and at most 63 characters; the administrator corrects it"
    )]
    ContainerName(String),
    #[error(
        "container {0:?} is in data.spec twice: the administrator gives each a name of its own"
    )]
    SameContainer(String),
    #[error(
        "container {0:?} of data.spec has a name that is kept for copy offload, which needs data.mpiSpec: the administrator renames it"
    )]
    CopyOffload(String),
    #[error("container {0:?} of data.spec has no image: the administrator adds one")]
    NoImage(String),
    #[error(
        "volume {0:?} of data.spec: the name is kept for Warren's own volumes; the administrator renames it"
    )]
    VolumeName(String),
    #[error(
        "volume {0:?} of data.spec is a hostPath: containers see no more of their rabbit than the storage that a directive names; the administrator takes it out"
    )]
    HostPath(String),
    #[error(
        "data.spec.automountServiceAccountToken is true: containers of users get no token for the API; the administrator takes it out"
    )]
    Token,
    #[error(
        "data.storages: {name} has pvcMode {mode}, which is for DW_GLOBAL_ only: the administrator takes it out"
    )]
    PvcMode {
        /// The storage.
        name: String,
        /// The mode.
        mode: String,
    },
    #[error("data.{field} is {value}, and must be 0 or more: the administrator corrects it")]
    Negative {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    #[error(
        "the workflow's user is root, and containers run without its rights: submit the job as another user"
    )]
    Root,
}

/// Everything that is wrong with a profile, for a user.
#[must_use]
pub fn faults(profile: &NnfContainerProfileData, user: i64) -> Vec<ProfileFault> {
    let mut faults = numbers(profile);
    if user == 0 {
        faults.push(ProfileFault::Root);
    }
    if !profile.create_container {
        faults.push(ProfileFault::NoContainer);
    }
    for storage in &profile.storages {
        if let Some(mode) = &storage.pvc_mode
            && !storage.name.starts_with("DW_GLOBAL_")
        {
            let (name, mode) = (storage.name.clone(), mode.to_string());
            faults.push(ProfileFault::PvcMode { name, mode });
        }
    }
    match (&profile.spec, &profile.mpi_spec) {
        (None, None) => faults.push(ProfileFault::Nothing),
        (Some(_), Some(_)) => faults.push(ProfileFault::Both),
        (None, Some(_)) => faults.push(ProfileFault::Mpi),
        (Some(spec), None) => faults.extend(of_pod(spec)),
    }
    faults
}

fn numbers(profile: &NnfContainerProfileData) -> Vec<ProfileFault> {
    let all = [
        ("retryLimit", profile.retry_limit),
        ("preRunTimeoutSeconds", profile.pre_run_timeout_seconds.unwrap_or(0)),
        ("postRunTimeoutSeconds", profile.post_run_timeout_seconds.unwrap_or(0)),
        ("numPorts", profile.num_ports),
    ];
    let negative = all.into_iter().filter(|(_, value)| *value < 0);
    negative.map(|(field, value)| ProfileFault::Negative { field, value }).collect()
}

fn of_pod(spec: &NnfPodSpec) -> Vec<ProfileFault> {
    let mut faults = Vec::new();
    if spec.containers.is_empty() {
        faults.push(ProfileFault::NoContainers);
    }
    let mut names = BTreeSet::new();
    for container in spec.containers.iter().chain(&spec.init_containers) {
        faults.extend(of_container(container));
        if !names.insert(&container.name) {
            faults.push(ProfileFault::SameContainer(container.name.clone()));
        }
    }
    for volume in &spec.volumes {
        if pod::is_kept_name(&volume.name) {
            faults.push(ProfileFault::VolumeName(volume.name.clone()));
        }
        if volume.host_path.is_some() {
            faults.push(ProfileFault::HostPath(volume.name.clone()));
        }
    }
    if spec.automount_service_account_token == Some(true) {
        faults.push(ProfileFault::Token);
    }
    faults
}

fn of_container(container: &NnfContainer) -> Vec<ProfileFault> {
    let name = || container.name.clone();
    let mut faults = Vec::new();
    if !is_label(&container.name) {
        faults.push(ProfileFault::ContainerName(name()));
    }
    if is_copy_offload(&container.name) {
        faults.push(ProfileFault::CopyOffload(name()));
    }
    if container.image.is_empty() {
        faults.push(ProfileFault::NoImage(name()));
    }
    faults
}

/// Whether a container's name says that it serves copies: `copy-offload` or `copyoffload` as words of it.
fn is_copy_offload(name: &str) -> bool {
    let is_word = |one: Option<char>| one.is_some_and(|one| one.is_alphanumeric() || one == '_');
    let name = name.to_lowercase();
    ["copy-offload", "copyoffload"].into_iter().any(|word| {
        name.match_indices(word).any(|(at, _)| {
            let (before, after) = (&name[..at], &name[at + word.len()..]);
            !is_word(before.chars().next_back()) && !is_word(after.chars().next())
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn told(edit: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut profile = json!({"spec": {"containers": [{"name": "app", "image": "i"}]}});
        edit(&mut profile);
        let profile = from_value(profile).unwrap();
        faults(&profile, 1001).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_for_each_rabbit_can_be_carried_out() {
        assert!(told(|_| {}).is_empty());
        let more = told(|profile| {
            profile["storages"] = json!([{"name": "DW_GLOBAL_home", "pvcMode": "ReadOnlyMany"}]);
            profile["spec"]["initContainers"] = json!([{"name": "first", "image": "i"}]);
            profile["spec"]["volumes"] =
                json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}]);
            profile["spec"]["automountServiceAccountToken"] = json!(false);
        });
        assert!(more.is_empty(), "{more:?}");
    }

    #[test]
    fn each_fault_names_its_field_and_who_mends_it() {
        type Edit = fn(&mut Value);
        let cases: [(Edit, &str); 16] = [
            (|it| it["spec"] = Value::Null, "neither spec nor mpiSpec"),
            (
                |it| it["mpiSpec"] = json!({"launcher": it["spec"], "worker": it["spec"]}),
                "both spec and mpiSpec",
            ),
            (
                |it| *it = json!({"mpiSpec": {"launcher": it["spec"], "worker": it["spec"]}}),
                "mpiSpec is not carried out here",
            ),
            (|it| it["createContainer"] = json!(false), "createContainer is false"),
            (|it| it["spec"]["containers"] = json!([]), "data.spec.containers is empty"),
            (
                |it| it["spec"]["containers"][0]["name"] = json!("App"),
                "container \"App\" of data.spec: a name",
            ),
            (
                |it| it["spec"]["initContainers"] = json!([{"name": "app", "image": "i"}]),
                "container \"app\" is in data.spec twice",
            ),
            (
                |it| it["spec"]["containers"][0]["name"] = json!("my-copy-offload"),
                "kept for copy offload",
            ),
            (|it| it["spec"]["containers"][0]["image"] = json!(""), "has no image"),
            (
                |it| it["spec"]["volumes"] = json!([{"name": "storage-0", "emptyDir": {}}]),
                "kept for Warren's own",
            ),
            (
                |it| it["spec"]["volumes"] = json!([{"name": "nnf-config", "emptyDir": {}}]),
                "kept for Warren's own",
            ),
            (
                |it| it["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]),
                "is a hostPath",
            ),
            (|it| it["spec"]["automountServiceAccountToken"] = json!(true), "no token for the API"),
            (
                |it| it["storages"] = json!([{"name": "DW_JOB_a", "pvcMode": "ReadOnlyMany"}]),
                "DW_GLOBAL_ only",
            ),
            (|it| it["retryLimit"] = json!(-1), "data.retryLimit is -1"),
            (|it| it["numPorts"] = json!(-2), "data.numPorts is -2"),
        ];
        for (edit, part) in cases {
            let told = told(edit);
            assert_eq!(told.len(), 1, "{part}: {told:?}");
            assert!(told[0].contains(part), "{part}: {told:?}");
        }
    }

    #[test]
    fn nobody_is_root_in_a_container() {
        let profile = from_value(json!({"spec": {"containers": [{"name": "app", "image": "i"}]}}));
        assert_eq!(faults(&profile.unwrap(), 0), [ProfileFault::Root]);
    }

    #[test]
    fn only_whole_words_are_kept_for_copy_offload() {
        for (name, is_kept) in [
            ("copy-offload", true),
            ("copyoffload", true),
            ("a-copyoffload-b", true),
            ("copyoffloads", false),
            ("my-copy", false),
        ] {
            assert_eq!(is_copy_offload(name), is_kept, "{name}");
        }
    }
}
