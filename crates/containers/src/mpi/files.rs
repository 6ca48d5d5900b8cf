//! Files that mpirun and frameworks read.

use api::nnf_container_profile::{MpiImplementation, NnfMpiSpec};

use super::{implementation, launcher_host, slots, workers};
use crate::run::Run;

/// The hostfile, as each mpirun reads it.
#[must_use]
pub fn hostfile(run: &Run<'_>, mpi: &NnfMpiSpec) -> String {
    let slots = slots(mpi);
    let line = |host: String| match implementation(mpi) {
        MpiImplementation::OpenMpi | MpiImplementation::Other(_) => {
            format!("{host} slots={slots}\n")
        }
        MpiImplementation::Intel | MpiImplementation::Mpich => format!("{host}:{slots}\n"),
    };
    hosts(run, mpi).map(line).collect()
}

/// A script that frameworks ask for the hosts: all of them from the beginning, because the launcher starts last.
#[must_use]
pub fn discover_hosts(run: &Run<'_>, mpi: &NnfMpiSpec) -> String {
    let lines = hosts(run, mpi).map(|host| format!("echo {host}\n"));
    std::iter::once("#!/bin/sh\n".to_owned()).chain(lines).collect()
}

/// Where ranks run.
fn hosts(run: &Run<'_>, mpi: &NnfMpiSpec) -> impl Iterator<Item = String> {
    let launcher = mpi.run_launcher_as_worker.then(|| launcher_host(run));
    launcher.into_iter().chain(workers(run))
}

/// The hosts that must answer before mpirun starts: one in each line.
pub(crate) fn answering(run: &Run<'_>) -> String {
    workers(run).map(|host| host + "\n").collect()
}
