//! MPI on rabbits without Kubernetes: what its pods are there, in a network that the agents make.

use api::{
    NodeContainers,
    names::label,
    nnf_container_profile::NnfPodSpec,
    node_containers::{NodeContainer, NodeContainersNetwork},
};
use k8s_openapi::api::core::v1::EnvVar;

use super::{of_pod, source, with_ports};
use crate::{
    mpi::{self, Attempt, LAUNCHER, PODHELPER, WORKER, environment, network},
    run::Run,
};

/// Name of the object of the pod with this host. No other object of ours has a dot in its name.
#[must_use]
pub fn name_of_host(namespace: &str, host: &str) -> String {
    format!("{namespace}.{host}")
}

/// The worker on the rabbit at this place of the run.
#[must_use]
pub fn worker(run: &Run<'_>, index: usize) -> Option<NodeContainers> {
    let mpi = run.profile.mpi_spec.as_ref()?;
    // The launcher has the first place.
    let mut made = of_role(run, index + 1, &mpi.worker, &environment::of_role(WORKER))?;
    made.spec.containers.first_mut()?.command = [PODHELPER, "worker"].map(str::to_owned).into();
    Some(with_role(made, WORKER))
}

/// The launcher, on the first rabbit.
#[must_use]
pub fn launcher(run: &Run<'_>) -> Option<NodeContainers> {
    let mpi = run.profile.mpi_spec.as_ref()?;
    let all = [
        environment::of_role(LAUNCHER),
        environment::of_launcher(run, mpi),
        environment::of_network(),
    ];
    let mut made = of_role(run, 0, &mpi.launcher, &all.concat())?;
    with_ports(run, &mut made);
    let wait = waiting(run, made.spec.containers.first()?);
    made.spec.init_containers.push(wait);
    Some(with_role(made, LAUNCHER))
}

fn of_role(
    run: &Run<'_>,
    place: usize,
    pod: &NnfPodSpec,
    told: &[EnvVar],
) -> Option<NodeContainers> {
    let (hostname, rabbit) = network::pods(run).nth(place)?;
    let Attempt { keys, .. } = run.attempt?;
    let mut made = of_pod(run, place.saturating_sub(1), rabbit, pod, told);
    made.metadata.name = Some(name_of_host(run.namespace(), &hostname));
    let spec = &mut made.spec;
    spec.hostname = hostname;
    spec.keys = Some(source(run, keys));
    spec.network = Some(NodeContainersNetwork {
        port: run.network_port?.into(),
        place: i64::try_from(place).ok()?,
        rabbits: network::pods(run).map(|(_, rabbit)| rabbit.to_owned()).collect(),
    });
    Some(made)
}

/// Waits for the workers before each try, with the image that the launcher has anyway.
fn waiting(run: &Run<'_>, like: &NodeContainer) -> NodeContainer {
    NodeContainer {
        name: mpi::OWN[1].to_owned(),
        command: mpi::waiting(run),
        args: Vec::new(),
        ports: Vec::new(),
        volume_mounts: Vec::new(),
        working_dir: String::new(),
        ..like.clone()
    }
}

fn with_role(mut made: NodeContainers, role: &str) -> NodeContainers {
    let labels = made.metadata.labels.get_or_insert_default();
    labels.insert(label::ROLE.to_owned(), role.to_owned());
    made
}

#[cfg(test)]
mod tests;
