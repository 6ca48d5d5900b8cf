//! Makes the files in the configuration directory of a container. They tell which compute has which allocation, and
//! contain the user's entry in passwd and MPI's hosts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    environment::domain,
    mpi,
    run::{Rabbit, Run},
};

/// Directory of the files in a container.
pub const DIRECTORY: &str = "/nnf/config";

/// The passwd file, with the user's entry.
pub const PASSWD: &str = "passwd";
/// The group file, with the user's group.
pub const GROUP: &str = "group";

/// The hostfile of mpirun, with the slots of each host.
pub const HOSTFILE: &str = "hostfile";
/// The script that prints the hosts.
pub const DISCOVER_HOSTS: &str = "discover_hosts.sh";
/// The hosts file, for sites where Kubernetes does not resolve host names.
pub const HOSTS: &str = "hosts";
/// The list of hosts that must answer before mpirun starts.
pub(crate) const WORKERS: &str = "workers";

/// A rabbit in `nodes.json`.
#[derive(Serialize)]
struct Node<'a> {
    rabbit: &'a str,
    /// Index of the rabbit in the run.
    index: usize,
    computes: Vec<Compute<'a>>,
}

/// A compute of a rabbit in `nodes.json`.
#[derive(Serialize)]
struct Compute<'a> {
    host: &'a str,
    /// Index among the computes of this rabbit.
    local: usize,
    /// Index among the computes of the job.
    global: usize,
}

/// Returns the files by name. The files are the same on every rabbit of a run.
#[must_use]
pub fn files(run: &Run<'_>) -> BTreeMap<String, String> {
    let names: Vec<&str> = run.rabbits().collect();
    let (user, group) = (run.user, run.group);
    [
        ("nnfContainerNodes", names.join(" ")),
        ("nnfContainerSubdomain", run.service.to_owned()),
        ("nnfContainerDomain", domain(run)),
        ("nodes.json", nodes_json(run.placement)),
        (
            PASSWD,
            format!("root:x:0:0:root:/root:/bin/sh\nuser:x:{user}:{group}:user:/tmp:/bin/sh\n"),
        ),
        (GROUP, format!("root:x:0:\nuser:x:{group}:\n")),
    ]
    .into_iter()
    .chain(mpi_files(run))
    .map(|(name, text)| (name.to_owned(), text))
    .collect()
}

fn mpi_files(run: &Run<'_>) -> impl Iterator<Item = (&'static str, String)> {
    run.profile.mpi_spec.iter().flat_map(|mpi| {
        [
            (HOSTFILE, mpi::hostfile(run, mpi)),
            (DISCOVER_HOSTS, mpi::discover_hosts(run, mpi)),
            (WORKERS, mpi::workers_file(run)),
        ]
        .into_iter()
        .chain(run.network_port.map(|_| (HOSTS, mpi::network::hosts_file(run))))
    })
}

fn nodes_json(placement: &[Rabbit]) -> String {
    let node = |(index, rabbit): (usize, &'_ Rabbit)| {
        let computes = rabbit.computes.iter().enumerate();
        let computes = computes.map(|(local, (global, host))| (local, *global, host.clone()));
        (index, rabbit.name.clone(), computes.collect::<Vec<_>>())
    };
    let entries: Vec<_> = placement.iter().enumerate().map(node).collect();
    let nodes: Vec<Node<'_>> = entries
        .iter()
        .map(|(index, rabbit, computes)| Node {
            rabbit,
            index: *index,
            computes: computes
                .iter()
                .map(|(local, global, host)| Compute { host, local: *local, global: *global })
                .collect(),
        })
        .collect();
    serde_json::to_string(&nodes).expect("names and numbers are JSON")
}
