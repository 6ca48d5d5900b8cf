//! Whether a profile can be carried out, whoever names it. Told in Proposal, before anything is made.

use std::collections::BTreeSet;

use api::{
    NnfContainerProfileData,
    nnf_container_profile::{
        CleanPodPolicy, MpiImplementation, NnfContainer, NnfMpiSpec, NnfPodSpec,
    },
};
use thiserror::Error;

use crate::{mpi, names::is_label, pod};

/// What is wrong with a profile: for its administrator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileFault {
    #[error("data has neither spec nor mpiSpec: the administrator adds one")]
    Nothing,
    #[error("data has both spec and mpiSpec: the administrator takes one out")]
    Both,
    #[error(
        "data.createContainer is false, which is not carried out here: name a profile that makes containers"
    )]
    NoContainer,
    #[error("{at}: {fault}")]
    Pod {
        /// Which pod of the profile.
        at: &'static str,
        fault: PodFault,
    },
    #[error(
        "data.mpiSpec.copyOffload is true, which is not carried out here: name a profile without it"
    )]
    OffersCopies,
    #[error(
        "data.mpiSpec.slotsPerWorker is {0}, and must be 1 or more: the administrator corrects it"
    )]
    Slots(i64),
    #[error("data.mpiSpec.{field} is {value:?}, which is not known: the administrator writes one of {}", known.join(", "))]
    Unknown {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        known: &'static [&'static str],
    },
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
    #[error("container {0:?} has no image: the administrator adds one")]
    NoImage(String),
    #[error(
        "container {0:?} has a command: the first container of a worker starts what mpirun asks for; the administrator takes command and args out"
    )]
    WorkerCommand(String),
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
        (None, Some(mpi)) => faults.extend(of_mpi(mpi)),
        (Some(spec), None) => faults.extend(at("data.spec", of_pod(spec))),
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

fn at(at: &'static str, faults: Vec<PodFault>) -> impl Iterator<Item = ProfileFault> {
    faults.into_iter().map(move |fault| ProfileFault::Pod { at, fault })
}

fn of_mpi(mpi: &NnfMpiSpec) -> Vec<ProfileFault> {
    let mut faults: Vec<ProfileFault> =
        at("data.mpiSpec.launcher", of_pod(&mpi.launcher)).collect();
    faults.extend(at("data.mpiSpec.worker", of_pod(&mpi.worker)));
    let first = mpi.worker.containers.first();
    if let Some(first) = first.filter(|one| !one.command.is_empty() || !one.args.is_empty()) {
        let fault = PodFault::WorkerCommand(first.name.clone());
        faults.extend(at("data.mpiSpec.worker", vec![fault]));
    }
    if mpi.copy_offload {
        faults.push(ProfileFault::OffersCopies);
    }
    let slots = mpi::slots(mpi);
    if slots < 1 {
        faults.push(ProfileFault::Slots(slots));
    }
    let policy = mpi.policy();
    if let Some(MpiImplementation::Other(value)) = &mpi.mpi_implementation {
        let (value, known) = (value.clone(), MpiImplementation::VALUES);
        faults.push(ProfileFault::Unknown { field: "mpiImplementation", value, known });
    }
    if let Some(CleanPodPolicy::Other(value)) = policy.clean_pod_policy {
        let known = CleanPodPolicy::VALUES;
        faults.push(ProfileFault::Unknown { field: "runPolicy.cleanPodPolicy", value, known });
    }
    if let Some(value @ ..0) = policy.ttl_seconds_after_finished {
        let field = "mpiSpec.runPolicy.ttlSecondsAfterFinished";
        faults.push(ProfileFault::Negative { field, value });
    }
    faults
}

fn of_pod(spec: &NnfPodSpec) -> Vec<PodFault> {
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
            (|it| it["spec"]["containers"][0]["name"] = json!("nnf-wait"), "kept for Warren's own"),
            (|it| it["createContainer"] = json!(false), "createContainer is false"),
            (|it| it["spec"]["containers"] = json!([]), "data.spec: containers is empty"),
            (
                |it| it["spec"]["containers"][0]["name"] = json!("App"),
                "data.spec: container \"App\": a name",
            ),
            (
                |it| it["spec"]["initContainers"] = json!([{"name": "app", "image": "i"}]),
                "data.spec: container \"app\" is there twice",
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
    fn each_fault_of_mpi_names_its_field_and_who_mends_it() {
        type Edit = fn(&mut Value);
        let cases: [(Edit, &str); 8] = [
            (|_| {}, ""),
            (|it| it["launcher"]["containers"] = json!([]), "data.mpiSpec.launcher: containers is"),
            (|it| it["worker"]["containers"][0]["image"] = json!(""), "data.mpiSpec.worker: cont"),
            (|it| it["worker"]["containers"][0]["args"] = json!(["-De"]), "has a command"),
            (|it| it["copyOffload"] = json!(true), "data.mpiSpec.copyOffload is true"),
            (|it| it["slotsPerWorker"] = json!(0), "data.mpiSpec.slotsPerWorker is 0"),
            (
                |it| it["mpiImplementation"] = json!("LAM"),
                "data.mpiSpec.mpiImplementation is \"LAM\", which is not known: the administrator writes one of OpenMPI, Intel, MPICH",
            ),
            (
                |it| it["runPolicy"] = json!({"cleanPodPolicy": "Some"}),
                "data.mpiSpec.runPolicy.cleanPodPolicy is \"Some\"",
            ),
        ];
        for (edit, part) in cases {
            let told = told(|it| {
                let mut mpi = json!({"launcher": it["spec"], "worker": it["spec"]});
                edit(&mut mpi);
                *it = json!({"mpiSpec": mpi});
            });
            assert_eq!(told.len(), usize::from(!part.is_empty()), "{part}: {told:?}");
            assert!(told.iter().all(|one| one.contains(part)), "{part}: {told:?}");
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
