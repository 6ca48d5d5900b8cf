//! Containers that a rabbit's agent runs without Kubernetes. They have the same names, files, ports and variables
//! as in a pod.

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

/// Name of the processor limit, and the number of an agent's units (thousandths) in one processor.
pub(crate) const CPU: (&str, i128) = ("cpu", 1000);
/// Name of the memory limit, and the number of an agent's units (bytes) in one byte.
pub(crate) const MEMORY: (&str, i128) = ("memory", 1);

pub use self::mpi::{launcher, name_of_host, worker};

/// Returns the name of the run's object on each rabbit.
#[must_use]
pub fn name(run: &Run<'_>) -> String {
    format!("{}-{}", run.namespace(), run.name)
}

/// Returns the containers of the rabbit with this index in the run; `None` for MPI, whose objects [`worker`] and
/// [`launcher`] make.
#[must_use]
pub fn containers(run: &Run<'_>, index: usize) -> Option<NodeContainers> {
    let rabbit = run.placement.get(index)?.name.as_str();
    let mut object = pod_object(run, index, rabbit, run.profile.spec.as_ref()?, &[]);
    object.metadata.name = Some(name(run));
    object.spec.hosts = Some(hosts(run));
    with_ports(run, &mut object);
    Some(object)
}

/// Returns the name of the object on each rabbit that lists a run's job packages. No other object of Warren has a name
/// that ends in `-packages`.
#[must_use]
pub fn packages_name(run: &Run<'_>) -> String {
    format!("{}-packages", name(run))
}

/// Returns the object that makes the agent of the rabbit with this index in the run fetch the job packages, before any
/// container of the run starts; `None` if the profile names no job packages.
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
        directories: Vec::new(),
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
        // The owner would be in another namespace, which Kubernetes does not allow: the engine deletes this object.
        owner_references: None,
        ..run.metadata.clone()
    }
}

/// Returns the object for a pod of the profile, still without name, host names and ports. In its containers the
/// variables of `first` come before all others.
fn pod_object(
    run: &Run<'_>,
    index: usize,
    rabbit: &str,
    pod: &NnfPodSpec,
    first: &[EnvVar],
) -> NodeContainers {
    let make =
        |one_of_pod| container(rabbit, one_of_pod, variables_of(run, index, one_of_pod, first));
    let spec = NodeContainersSpec {
        user_id: run.user,
        group_id: run.group,
        hostname: rabbit.to_owned(),
        hosts: None,
        init_containers: pod.init_containers.iter().map(make).collect(),
        containers: pod.containers.iter().map(make).collect(),
        share_process_namespace: pod.share_process_namespace.unwrap_or(false),
        termination_grace_period_seconds: pod.termination_grace_period_seconds,
        storages: paths(run, |source| *source == StorageSource::Rabbit),
        global_lustre: paths(run, |source| matches!(source, StorageSource::Global { .. })),
        directories: paths(run, |source| *source == StorageSource::Directory),
        // `check::volumes` refuses volumes that are not emptyDir.
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
    let selected = run.mounts().filter(|storage| is_from(&storage.source));
    selected.map(|storage| storage.path.clone()).collect()
}

/// Longest time in seconds between SIGTERM and SIGKILL (`terminationGracePeriodSeconds`): a day.
pub const LONGEST_GRACE: i64 = 86_400;

/// Gives the containers the run's ports on their rabbit.
fn with_ports(run: &Run<'_>, object: &mut NodeContainers) {
    for (place, container) in object.spec.containers.iter_mut().enumerate() {
        let ports = environment::container_ports(run, place).iter();
        container.ports = ports.map(|port| i64::from(*port)).collect();
    }
}

/// Returns whether the containers' logs may grow: not all containers have ended, and the agent does not refuse to run them.
#[must_use]
pub fn logs_may_grow(run: &NodeContainers) -> bool {
    let is_refused = run.status.as_ref().is_some_and(|status| status.error.is_some());
    let is_over = state(run).is_ended() || run.metadata.deletion_timestamp.is_some();
    !(run.spec.containers.is_empty() || is_refused || is_over)
}

/// Returns the state of a rabbit's containers.
#[must_use]
pub fn state(containers: &NodeContainers) -> State {
    let status = containers.status.as_ref();
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

/// Returns the agent's error; while the containers wait, returns the agent's message.
#[must_use]
pub fn reason(containers: &NodeContainers) -> Option<String> {
    let status = containers.status.as_ref()?;
    let error = status.error.as_ref();
    let error = error.map(|error| error.user_message.as_ref().unwrap_or(&error.debug_message));
    error.or(Some(&status.message)).filter(|text| !text.is_empty()).cloned()
}

fn hosts(run: &Run<'_>) -> NodeContainersHosts {
    let long = format!("{}.{}", run.service, environment::domain(run));
    NodeContainersHosts {
        rabbits: run.rabbits().map(str::to_owned).collect(),
        domains: vec![run.service.to_owned(), long],
    }
}

/// Returns a reference to a ConfigMap or Secret of the run.
fn source(run: &Run<'_>, name: &str) -> NodeContainersSource {
    NodeContainersSource { namespace: run.namespace().to_owned(), name: name.to_owned() }
}

fn variables_of(
    run: &Run<'_>,
    index: usize,
    container: &NnfContainer,
    first: &[EnvVar],
) -> Vec<EnvVar> {
    let own = environment::container_variables(run, index, container);
    first.iter().cloned().chain(own).collect()
}

fn container(rabbit: &str, container: &NnfContainer, variables: Vec<EnvVar>) -> NodeContainer {
    let variables = expand_values(variables, rabbit);
    let known: BTreeMap<String, String> =
        variables.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect();
    let expanded = |texts: &[String]| texts.iter().map(|text| expand(text, &known)).collect();
    let mounts = container.volume_mounts.iter().map(|mount| NodeContainerMount {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only == Some(true),
    });
    NodeContainer {
        name: container.name.clone(),
        image: container.image.clone(),
        image_pull_policy: pull_policy(container),
        command: expanded(&container.command),
        args: expanded(&container.args),
        env: variables,
        volume_mounts: mounts.collect(),
        working_dir: container.working_dir.clone(),
        ports: Vec::new(),
        cpu_millis: limit(container, CPU),
        memory_bytes: limit(container, MEMORY),
    }
}

/// Expands the references in the variables' values. A value may refer to earlier variables.
fn expand_values(variables: Vec<EnvVar>, rabbit: &str) -> Vec<NodeContainerVariable> {
    let mut known = BTreeMap::new();
    let mut expanded = Vec::new();
    for EnvVar { name, value, value_from } in variables {
        // `check` refuses all sources of a value except the one that Warren itself uses: the name of the node.
        let value = match value_from {
            Some(_) => rabbit.to_owned(),
            None => expand(&value.unwrap_or_default(), &known),
        };
        known.insert(name.clone(), value.clone());
        expanded.push(NodeContainerVariable { name, value });
    }
    expanded
}

/// Returns when to pull an image. If the profile does not say, Kubernetes' rule applies: an image whose name gives no
/// fixed version is always pulled, because the registry may later have another image under the same name.
fn pull_policy(container: &NnfContainer) -> ImagePullPolicy {
    if let Some(policy) = &container.image_pull_policy {
        return ImagePullPolicy::from(policy.as_str());
    }
    let last = container.image.rsplit('/').next().unwrap_or_default();
    let is_pinned = last.contains('@') || last.contains(':') && !last.ends_with(":latest");
    // The image is an archive or a directory, such as oci-archive:/images/viewer.tar.
    let is_file = container.image.contains(":/");
    if is_pinned || is_file { ImagePullPolicy::IfNotPresent } else { ImagePullPolicy::Always }
}

fn limit(container: &NnfContainer, (name, per_unit): (&str, i128)) -> Option<i64> {
    quantity::parts(limits(container).find(|(key, _)| *key == name)?.1, per_unit)
}

/// Returns the resource limits of a container.
pub(crate) fn limits(container: &NnfContainer) -> impl Iterator<Item = (&str, &Quantity)> {
    let limits = container.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
    limits.map(|(name, quantity)| (name.as_str(), quantity))
}

#[cfg(test)]
mod tests;
