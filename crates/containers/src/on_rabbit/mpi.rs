//! MPI on rabbits without Kubernetes: makes the pods as objects for the agents. The agents also make the run's network.

use api::{
    NodeContainers,
    names::label,
    nnf_container_profile::NnfPodSpec,
    node_containers::{NodeContainer, NodeContainersNetwork},
};
use k8s_openapi::api::core::v1::EnvVar;

use super::{pod_object, source, with_ports};
use crate::{
    mpi::{self, Attempt, LAUNCHER, PODHELPER, WORKER, environment, network},
    run::Run,
};

/// Returns the name of the object for the pod with this host name. No other object of Warren has a name with a dot.
#[must_use]
pub fn name_of_host(namespace: &str, host: &str) -> String {
    format!("{namespace}.{host}")
}

/// Returns the object of the worker on the rabbit with this index in the run.
#[must_use]
pub fn worker(run: &Run<'_>, index: usize) -> Option<NodeContainers> {
    let mpi = run.profile.mpi_spec.as_ref()?;
    // Index 0 in the network is the launcher's.
    let mut object =
        role_object(run, index + 1, &mpi.worker, &environment::role_variables(WORKER))?;
    object.spec.containers.first_mut()?.command = [PODHELPER, "worker"].map(str::to_owned).into();
    Some(with_role(object, WORKER))
}

/// Returns the object of the launcher, which runs on the first rabbit.
#[must_use]
pub fn launcher(run: &Run<'_>) -> Option<NodeContainers> {
    let mpi = run.profile.mpi_spec.as_ref()?;
    let variables = [
        environment::role_variables(LAUNCHER),
        environment::launcher_variables(run, mpi),
        environment::network_variables(),
    ];
    let mut object = role_object(run, 0, &mpi.launcher, &variables.concat())?;
    with_ports(run, &mut object);
    let wait = wait_container(run, object.spec.containers.first()?);
    object.spec.init_containers.push(wait);
    Some(with_role(object, LAUNCHER))
}

fn role_object(
    run: &Run<'_>,
    place: usize,
    pod: &NnfPodSpec,
    first: &[EnvVar],
) -> Option<NodeContainers> {
    let (hostname, rabbit) = network::pods(run).nth(place)?;
    let Attempt { keys, .. } = run.attempt?;
    let mut object = pod_object(run, place.saturating_sub(1), rabbit, pod, first);
    object.metadata.name = Some(name_of_host(run.namespace(), &hostname));
    let spec = &mut object.spec;
    spec.hostname = hostname;
    spec.keys = Some(source(run, keys));
    spec.network = Some(NodeContainersNetwork {
        port: run.network_port?.into(),
        place: i64::try_from(place).ok()?,
        rabbits: network::pods(run).map(|(_, rabbit)| rabbit.to_owned()).collect(),
    });
    Some(object)
}

/// Returns the container that waits for the workers before each start of the launcher. It uses the launcher's image,
/// which the rabbit needs anyway.
fn wait_container(run: &Run<'_>, like: &NodeContainer) -> NodeContainer {
    NodeContainer {
        name: mpi::OWN[1].to_owned(),
        command: mpi::wait_command(run),
        args: Vec::new(),
        ports: Vec::new(),
        volume_mounts: Vec::new(),
        working_dir: String::new(),
        ..like.clone()
    }
}

fn with_role(mut object: NodeContainers, role: &str) -> NodeContainers {
    let labels = object.metadata.labels.get_or_insert_default();
    labels.insert(label::ROLE.to_owned(), role.to_owned());
    object
}

#[cfg(test)]
mod tests;
