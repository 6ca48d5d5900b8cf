//! Defines the environment variables of a run's containers, and those of the job's computes.

use std::collections::BTreeMap;

use api::nnf_container_profile::NnfContainer;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector};

use crate::{names, run::Run};

/// Returns the environment variables for the job's computes.
#[must_use]
pub fn compute_variables(run: &Run<'_>) -> BTreeMap<String, String> {
    port_variables(run)
        .into_iter()
        .chain(network_variables(run))
        .chain(launcher_variable(run))
        .collect()
}

/// Returns the variables of a container on the rabbit with this index in the run. The run's variables come before the
/// profile's variables, which may refer to them.
#[must_use]
pub(crate) fn container_variables(
    run: &Run<'_>,
    index: usize,
    container: &NnfContainer,
) -> Vec<EnvVar> {
    let storages =
        run.storages.iter().map(|storage| (storage.variable.clone(), storage.path.clone()));
    let workflow = [
        ("DW_WORKFLOW_NAME", run.workflow.to_owned()),
        ("DW_WORKFLOW_NAMESPACE", run.namespace().to_owned()),
        ("NNF_CONTAINER_INDEX", index.to_string()),
    ];
    let workflow = workflow.map(|(name, value)| (name.to_owned(), value));
    let variables = port_variables(run)
        .into_iter()
        .chain(storages)
        .chain(network_variables(run))
        .chain(launcher_variable(run))
        .chain(workflow)
        .chain(worker_number(run, index, container));
    let variables =
        variables.map(|(name, value)| EnvVar { name, value: Some(value), value_from: None });
    variables.chain([node_name()]).chain(container.env.iter().cloned()).collect()
}

/// Returns the variable with the container's number among all containers of the run. Init containers have no number.
/// MPI's containers have none either, because MPI numbers its ranks itself.
fn worker_number(
    run: &Run<'_>,
    index: usize,
    container: &NnfContainer,
) -> Option<(String, String)> {
    let containers = &run.profile.spec.as_ref()?.containers;
    let place = containers.iter().position(|other| other.name == container.name)?;
    Some(("NNF_CONTAINER_WORKER".to_owned(), (index * containers.len() + place).to_string()))
}

/// Returns a variable with all ports of the run, and a variable with the ports of each container: the list of ports is
/// divided evenly among the containers, in their order.
fn port_variables(run: &Run<'_>) -> Vec<(String, String)> {
    if run.ports.is_empty() {
        return Vec::new();
    }
    let list = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let all = ("NNF_CONTAINER_PORTS".to_owned(), list(run.ports));
    let containers =
        run.profile.pod_with_ports().into_iter().flat_map(|spec| &spec.containers).enumerate();
    let each = containers.map(|(place, container)| {
        let name = container.name.replace('-', "_");
        (format!("NNF_CONTAINER_PORTS_{name}"), list(container_ports(run, place)))
    });
    std::iter::once(all).chain(each).collect()
}

/// Returns the ports of the container with this index in the pod.
#[must_use]
pub(crate) fn container_ports<'a>(run: &Run<'a>, place: usize) -> &'a [u16] {
    let containers = run.profile.pod_with_ports().map_or(0, |spec| spec.containers.len());
    let each = run.ports.len().checked_div(containers).unwrap_or(0);
    run.ports.get(place * each..(place + 1) * each).unwrap_or_default()
}

/// Returns the variables by which the containers of a run find each other. `NNF_CONTAINER_NODES`
/// separates rabbits by spaces, as the NNF RFC on containers says; `NNF_CONTAINER_HOSTNAMES` separates hosts by commas,
/// as the Go controllers do.
fn network_variables(run: &Run<'_>) -> [(String, String); 4] {
    let rabbits: Vec<&str> = run.rabbits().collect();
    [
        ("NNF_CONTAINER_SUBDOMAIN", run.service.to_owned()),
        ("NNF_CONTAINER_DOMAIN", domain(run)),
        ("NNF_CONTAINER_HOSTNAMES", host_names(run).join(",")),
        ("NNF_CONTAINER_NODES", rabbits.join(" ")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// Returns the short host names of the pods. These are the rabbits' names, but not with MPI, which has two pods
/// on the first rabbit.
fn host_names(run: &Run<'_>) -> Vec<String> {
    if run.profile.mpi_spec.is_none() {
        return run.rabbits().map(str::to_owned).collect();
    }
    let workers = (0..run.placement.len()).map(|index| names::worker(run.service, index));
    std::iter::once(names::launcher(run.service)).chain(workers).collect()
}

/// Returns the variable that names the launcher's rabbit. Only the launcher has the run's ports; the worker on the
/// same rabbit does not.
fn launcher_variable(run: &Run<'_>) -> Option<(String, String)> {
    run.profile.mpi_spec.as_ref()?;
    Some(("NNF_CONTAINER_LAUNCHER".to_owned(), run.rabbits().next()?.to_owned()))
}

/// Returns the domain above the run's subdomain.
#[must_use]
pub(crate) fn domain(run: &Run<'_>) -> String {
    let domain = format!("{}.svc.{}", run.namespace(), run.cluster_domain);
    domain.trim_end_matches('.').to_owned()
}

fn node_name() -> EnvVar {
    let field = ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: "spec.nodeName".to_owned(),
    };
    EnvVar {
        name: "NNF_NODE_NAME".to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    }
}
