//! Files that mpirun and other frameworks read.

use api::nnf_container_profile::{MpiImplementation, NnfMpiSpec};

use super::{implementation, launcher_host, slots, workers};
use crate::run::Run;

/// Returns the hostfile, in the format of the profile's mpirun.
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

/// Returns the script that prints the hosts for frameworks: all of them from
/// the beginning, because the launcher starts last.
#[must_use]
pub fn discover_hosts(run: &Run<'_>, mpi: &NnfMpiSpec) -> String {
    let lines = hosts(run, mpi).map(|host| format!("echo {host}\n"));
    std::iter::once("#!/bin/sh\n".to_owned()).chain(lines).collect()
}

/// Returns the hosts that run ranks.
fn hosts(run: &Run<'_>, mpi: &NnfMpiSpec) -> impl Iterator<Item = String> {
    let launcher = mpi.run_launcher_as_worker.then(|| launcher_host(run));
    launcher.into_iter().chain(workers(run))
}

/// Returns the hosts that must answer before mpirun starts, one per line.
pub(crate) fn workers_file(run: &Run<'_>) -> String {
    workers(run).map(|host| host + "\n").collect()
}
