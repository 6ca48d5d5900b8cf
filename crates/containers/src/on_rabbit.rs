//! What the agent of a rabbit runs where no Kubernetes does: the same names, files, ports and variables as a pod has.

mod mpi;

use std::collections::BTreeMap;

use api::{
    NodeContainers, NodeContainersSpec,
    nnf_container_profile::{NnfContainer, NnfPodSpec},
    node_containers::{
        ImagePullPolicy, NodeContainer, NodeContainerMount, NodeContainerVariable,
        NodeContainersHosts, NodeContainersSource, NodeContainersState,
    },
};
use k8s_openapi::{
    api::core::v1::EnvVar,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use crate::{
    environment,
    expand::expand,
    objects::start_deadline,
    outcome::State,
    quantity,
    run::{Run, StorageSource},
};

/// Thousandths of a processor are told.
pub(crate) const CPU: (&str, i128) = ("cpu", 1000);
/// Bytes of memory are told.
pub(crate) const MEMORY: (&str, i128) = ("memory", 1);

pub use self::mpi::{launcher, name_of_host, worker};

/// Name of the object on each rabbit.
#[must_use]
pub fn name(run: &Run<'_>) -> String {
    format!("{}-{}", run.namespace(), run.name)
}

/// What runs on the rabbit at this place of the run; none with MPI.
#[must_use]
pub fn containers(run: &Run<'_>, index: usize) -> Option<NodeContainers> {
    let rabbit = run.placement.get(index)?.name.as_str();
    let mut made = of_pod(run, index, rabbit, run.profile.spec.as_ref()?, &[]);
    made.metadata.name = Some(name(run));
    made.spec.hosts = Some(hosts(run));
    with_ports(run, &mut made);
    Some(made)
}

/// Name of the object with the packages of a run on each rabbit. No other object of ours ends so.
#[must_use]
pub fn packages_name(run: &Run<'_>) -> String {
    format!("{}-packages", name(run))
}

/// What the agent of the rabbit at this place of the run fetches before any container of the run starts; none where the profile
/// names no packages.
#[must_use]
pub fn packages(run: &Run<'_>, index: usize) -> Option<NodeContainers> {
    let rabbit = run.placement.get(index)?.name.as_str();
    let packages = run.profile.packages.clone();
    let metadata = ObjectMeta { name: Some(packages_name(run)), ..metadata(run, rabbit) };
    let spec = NodeContainersSpec {
        user_id: run.user,
        group_id: run.group,
        hostname: rabbit.to_owned(),
        active_deadline_seconds: start_deadline(run),
        packages,
        hosts: None,
        init_containers: Vec::new(),
        containers: Vec::new(),
        share_process_namespace: false,
        termination_grace_period_seconds: None,
        storages: Vec::new(),
        global_lustre: Vec::new(),
        empty_dirs: Vec::new(),
        files: None,
        retry_limit: 0,
        network: None,
        keys: None,
        suspend: false,
    };
    (!spec.packages.is_empty()).then_some(NodeContainers { metadata, spec, status: None })
}

fn metadata(run: &Run<'_>, rabbit: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(rabbit.to_owned()),
        // Its owner lies in another namespace, and the engine deletes it.
        owner_references: None,
        ..run.metadata.clone()
    }
}

/// What the agent of a rabbit runs of a pod of the profile: without a name, names of hosts and ports. Its containers are told
/// these variables first.
fn of_pod(
    run: &Run<'_>,
    index: usize,
    rabbit: &str,
    pod: &NnfPodSpec,
    told: &[EnvVar],
) -> NodeContainers {
    let of = |one| container(rabbit, one, variables_of(run, index, one, told));
    let spec = NodeContainersSpec {
        user_id: run.user,
        group_id: run.group,
        hostname: rabbit.to_owned(),
        hosts: None,
        init_containers: pod.init_containers.iter().map(of).collect(),
        containers: pod.containers.iter().map(of).collect(),
        share_process_namespace: pod.share_process_namespace.unwrap_or(false),
        termination_grace_period_seconds: pod.termination_grace_period_seconds,
        storages: paths(run, |source| *source == StorageSource::Rabbit),
        global_lustre: paths(run, |source| *source != StorageSource::Rabbit),
        // Others were refused.
        empty_dirs: pod.volumes.iter().map(|volume| volume.name.clone()).collect(),
        packages: run.profile.packages.clone(),
        files: Some(source(run, run.name)),
        retry_limit: run.profile.retry_limit,
        active_deadline_seconds: start_deadline(run),
        network: None,
        keys: None,
        suspend: false,
    };
    NodeContainers { metadata: metadata(run, rabbit), spec, status: None }
}

fn paths(run: &Run<'_>, is_from: impl Fn(&StorageSource) -> bool) -> Vec<String> {
    let those = run.mounts().filter(|storage| is_from(&storage.source));
    those.map(|storage| storage.path.clone()).collect()
}

/// Seconds that containers may have between the signal to end and the end, at most: a day.
pub const LONGEST_GRACE: i64 = 86_400;

/// Gives the containers the run's ports on their rabbit.
fn with_ports(run: &Run<'_>, made: &mut NodeContainers) {
    for (place, container) in made.spec.containers.iter_mut().enumerate() {
        let ports = environment::of_place(run, place).iter();
        container.ports = ports.map(|port| i64::from(*port)).collect();
    }
}

/// How far they are.
#[must_use]
pub fn state(of: &NodeContainers) -> State {
    let status = of.status.as_ref();
    match status.map(|status| &status.state) {
        Some(NodeContainersState::Ready) => State::Ready,
        Some(NodeContainersState::Succeeded) => State::Succeeded,
        Some(NodeContainersState::Failed) => State::Failed,
        Some(NodeContainersState::TooLate) => State::TooLate,
        Some(NodeContainersState::Unprepared) => State::Unprepared,
        Some(NodeContainersState::Suspended) => State::Suspended,
        None | Some(NodeContainersState::Starting | NodeContainersState::Other(_)) => {
            State::Starting
        }
    }
}

/// What the agent says of a failure or a wait.
#[must_use]
pub fn reason(of: &NodeContainers) -> Option<String> {
    let status = of.status.as_ref()?;
    let error = status.error.as_ref();
    let error = error.map(|error| error.user_message.as_ref().unwrap_or(&error.debug_message));
    error.or(Some(&status.message)).filter(|text| !text.is_empty()).cloned()
}

fn hosts(run: &Run<'_>) -> NodeContainersHosts {
    let long = format!("{}.{}", run.workflow, environment::domain(run));
    NodeContainersHosts {
        rabbits: run.rabbits().map(str::to_owned).collect(),
        domains: vec![run.workflow.to_owned(), long],
    }
}

/// A ConfigMap or Secret of the run.
fn source(run: &Run<'_>, name: &str) -> NodeContainersSource {
    NodeContainersSource { namespace: run.namespace().to_owned(), name: name.to_owned() }
}

fn variables_of(run: &Run<'_>, index: usize, of: &NnfContainer, told: &[EnvVar]) -> Vec<EnvVar> {
    let own = environment::of_container(run, index, of);
    told.iter().cloned().chain(own).collect()
}

fn container(rabbit: &str, of: &NnfContainer, all: Vec<EnvVar>) -> NodeContainer {
    let variables = variables(all, rabbit);
    let known: BTreeMap<String, String> =
        variables.iter().map(|one| (one.name.clone(), one.value.clone())).collect();
    let expanded = |texts: &[String]| texts.iter().map(|text| expand(text, &known)).collect();
    let mounts = of.volume_mounts.iter().map(|mount| NodeContainerMount {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only == Some(true),
    });
    NodeContainer {
        name: of.name.clone(),
        image: of.image.clone(),
        image_pull_policy: pulled(of),
        command: expanded(&of.command),
        args: expanded(&of.args),
        env: variables,
        volume_mounts: mounts.collect(),
        working_dir: of.working_dir.clone(),
        ports: Vec::new(),
        cpu_millis: limit(of, CPU),
        memory_bytes: limit(of, MEMORY),
    }
}

/// Variables with their values, which may refer to variables before them.
fn variables(all: Vec<EnvVar>, rabbit: &str) -> Vec<NodeContainerVariable> {
    let mut known = BTreeMap::new();
    let mut told = Vec::new();
    for EnvVar { name, value, value_from } in all {
        // The one source that is not refused is ours: the name of the node.
        let value = match value_from {
            Some(_) => rabbit.to_owned(),
            None => expand(&value.unwrap_or_default(), &known),
        };
        known.insert(name.clone(), value.clone());
        told.push(NodeContainerVariable { name, value });
    }
    told
}

/// As Kubernetes decides when nothing is said: an image that is not pinned may be another one tomorrow.
fn pulled(of: &NnfContainer) -> ImagePullPolicy {
    if let Some(policy) = &of.image_pull_policy {
        return ImagePullPolicy::from(policy.as_str());
    }
    let last = of.image.rsplit('/').next().unwrap_or_default();
    let is_pinned = last.contains('@') || last.contains(':') && !last.ends_with(":latest");
    // An archive or a directory, such as oci-archive:/images/viewer.tar.
    let is_file = of.image.contains(":/");
    if is_pinned || is_file { ImagePullPolicy::IfNotPresent } else { ImagePullPolicy::Always }
}

fn limit(of: &NnfContainer, (name, of_each): (&str, i128)) -> Option<i64> {
    quantity::parts(limits(of).find(|(key, _)| *key == name)?.1, of_each)
}

/// What a container may use.
pub(crate) fn limits(of: &NnfContainer) -> impl Iterator<Item = (&str, &Quantity)> {
    let limits = of.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
    limits.map(|(name, quantity)| (name.as_str(), quantity))
}

#[cfg(test)]
mod tests;
