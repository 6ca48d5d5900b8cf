//! Files that a container finds in its configuration: which compute has which allocation, and who its user is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    environment::domain,
    mpi,
    run::{Rabbit, Run},
};

/// Where the files are in a container.
pub const DIRECTORY: &str = "/nnf/config";

/// The user's entry in `passwd`.
pub const PASSWD: &str = "passwd";
/// The user's group.
pub const GROUP: &str = "group";

/// The hosts with their slots, as mpirun reads them.
pub const HOSTFILE: &str = "hostfile";
/// The script that tells the hosts.
pub const DISCOVER_HOSTS: &str = "discover_hosts.sh";
/// The names of hosts, where no Kubernetes resolves them.
pub const HOSTS: &str = "hosts";
/// The hosts that must answer before mpirun starts.
pub(crate) const WORKERS: &str = "workers";

/// One rabbit of `nodes.json`.
#[derive(Serialize)]
struct Node<'a> {
    rabbit: &'a str,
    /// Its place in the run.
    index: usize,
    computes: Vec<Compute<'a>>,
}

/// One compute of it.
#[derive(Serialize)]
struct Compute<'a> {
    host: &'a str,
    /// Its place among this rabbit's computes.
    local: usize,
    /// Its place among the job's.
    global: usize,
}

/// The files, by name: the same on every rabbit of a run.
#[must_use]
pub fn files(run: &Run<'_>) -> BTreeMap<String, String> {
    let names: Vec<&str> = run.rabbits().collect();
    let (user, group) = (run.user, run.group);
    [
        ("nnfContainerNodes", names.join(" ")),
        ("nnfContainerSubdomain", run.workflow.to_owned()),
        ("nnfContainerDomain", domain(run)),
        ("nodes.json", nodes(run.placement)),
        (
            PASSWD,
            format!("root:x:0:0:root:/root:/bin/sh\nuser:x:{user}:{group}:user:/tmp:/bin/sh\n"),
        ),
        (GROUP, format!("root:x:0:\nuser:x:{group}:\n")),
    ]
    .into_iter()
    .chain(of_mpi(run))
    .map(|(name, text)| (name.to_owned(), text))
    .collect()
}

fn of_mpi(run: &Run<'_>) -> impl Iterator<Item = (&'static str, String)> {
    run.profile.mpi_spec.iter().flat_map(|mpi| {
        [
            (HOSTFILE, mpi::hostfile(run, mpi)),
            (DISCOVER_HOSTS, mpi::discover_hosts(run, mpi)),
            (WORKERS, mpi::answering(run)),
        ]
        .into_iter()
        .chain(run.network_port.map(|_| (HOSTS, mpi::network::file(run))))
    })
}

fn nodes(placement: &[Rabbit]) -> String {
    let node = |(index, rabbit): (usize, &'_ Rabbit)| {
        let computes = rabbit.computes.iter().enumerate();
        let computes = computes.map(|(local, (global, host))| (local, *global, host.clone()));
        (index, rabbit.name.clone(), computes.collect::<Vec<_>>())
    };
    let all: Vec<_> = placement.iter().enumerate().map(node).collect();
    let nodes: Vec<Node<'_>> = all
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
