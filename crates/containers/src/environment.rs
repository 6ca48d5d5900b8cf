//! Variables: what a container is told of its run, and what the job's computes are.

use std::collections::BTreeMap;

use api::nnf_container_profile::NnfContainer;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector};

use crate::{names, run::Run};

/// What the job's computes are told.
#[must_use]
pub fn of_computes(run: &Run<'_>) -> BTreeMap<String, String> {
    ports(run).into_iter().chain(network(run)).chain(launcher(run)).collect()
}

/// What a container is told on the rabbit at this place of the run. The run's variables come before the profile's, which may refer
/// to them.
#[must_use]
pub(crate) fn of_container(run: &Run<'_>, index: usize, of: &NnfContainer) -> Vec<EnvVar> {
    let storages =
        run.storages.iter().map(|storage| (storage.variable.clone(), storage.path.clone()));
    let workflow = [
        ("DW_WORKFLOW_NAME", run.workflow.to_owned()),
        ("DW_WORKFLOW_NAMESPACE", run.namespace().to_owned()),
        ("NNF_CONTAINER_INDEX", index.to_string()),
    ];
    let workflow = workflow.map(|(name, value)| (name.to_owned(), value));
    let all = ports(run)
        .into_iter()
        .chain(storages)
        .chain(network(run))
        .chain(launcher(run))
        .chain(workflow)
        .chain(worker(run, index, of));
    let all = all.map(|(name, value)| EnvVar { name, value: Some(value), value_from: None });
    all.chain([node()]).chain(of.env.iter().cloned()).collect()
}

/// The number of a container among all of the run's. Those that come first have none, and MPI numbers its ranks itself.
fn worker(run: &Run<'_>, index: usize, of: &NnfContainer) -> Option<(String, String)> {
    let containers = &run.profile.spec.as_ref()?.containers;
    let place = containers.iter().position(|one| one.name == of.name)?;
    Some(("NNF_CONTAINER_WORKER".to_owned(), (index * containers.len() + place).to_string()))
}

/// All ports, and those of each container: the list is cut evenly, in the order of the containers.
fn ports(run: &Run<'_>) -> Vec<(String, String)> {
    if run.ports.is_empty() {
        return Vec::new();
    }
    let list = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let all = ("NNF_CONTAINER_PORTS".to_owned(), list(run.ports));
    let containers =
        run.profile.pod_with_ports().into_iter().flat_map(|spec| &spec.containers).enumerate();
    let each = containers.map(|(place, container)| {
        let name = container.name.replace('-', "_");
        (format!("NNF_CONTAINER_PORTS_{name}"), list(of_place(run, place)))
    });
    std::iter::once(all).chain(each).collect()
}

/// The ports of the container at this place among the pod's.
#[must_use]
pub(crate) fn of_place<'a>(run: &Run<'a>, place: usize) -> &'a [u16] {
    let containers = run.profile.pod_with_ports().map_or(0, |spec| spec.containers.len());
    let each = run.ports.len().checked_div(containers).unwrap_or(0);
    run.ports.get(place * each..(place + 1) * each).unwrap_or_default()
}

/// Where the containers of a run find each other. The RFC has the rabbits separated by spaces, the sites' controllers the hosts by
/// commas.
fn network(run: &Run<'_>) -> [(String, String); 4] {
    let rabbits: Vec<&str> = run.rabbits().collect();
    [
        ("NNF_CONTAINER_SUBDOMAIN", run.workflow.to_owned()),
        ("NNF_CONTAINER_DOMAIN", domain(run)),
        ("NNF_CONTAINER_HOSTNAMES", hosts(run).join(",")),
        ("NNF_CONTAINER_NODES", rabbits.join(" ")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// The short names of the pods' hosts: the rabbits', but for MPI, which has two pods on the first.
fn hosts(run: &Run<'_>) -> Vec<String> {
    if run.profile.mpi_spec.is_none() {
        return run.rabbits().map(str::to_owned).collect();
    }
    let workers = (0..run.placement.len()).map(|index| names::worker(run.workflow, index));
    std::iter::once(names::launcher(run.workflow)).chain(workers).collect()
}

/// The rabbit whose ports are the launcher's.
fn launcher(run: &Run<'_>) -> Option<(String, String)> {
    run.profile.mpi_spec.as_ref()?;
    Some(("NNF_CONTAINER_LAUNCHER".to_owned(), run.rabbits().next()?.to_owned()))
}

/// The domain beneath which the run's subdomain is.
#[must_use]
pub(crate) fn domain(run: &Run<'_>) -> String {
    let domain = format!("{}.svc.{}", run.namespace(), run.cluster_domain);
    domain.trim_end_matches('.').to_owned()
}

fn node() -> EnvVar {
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
