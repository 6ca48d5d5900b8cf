//! MPI: a run has a worker pod on each rabbit, and a launcher pod on the first rabbit.
//!
//! The hostfiles are byte for byte those of the MPI operator (v2beta1). The pods differ from the operator's pods:
//! Warren's program `podhelper` replaces sshd and ssh. So images need neither, and no process in them is root.

pub(crate) mod environment;
mod files;
pub mod network;
mod pods;

pub(crate) use self::{
    files::workers_file,
    pods::{OWN, wait_command},
};
pub use self::{
    files::{discover_hosts, hostfile},
    pods::{AGENT, HOSTFILE, KEYS, PODHELPER, launcher, worker},
};

use api::nnf_container_profile::{MpiImplementation, NnfMpiSpec};

use crate::{environment::domain, names, run::Run};

/// The role of pods that run ranks.
pub(crate) const WORKER: &str = "worker";
/// The role of the pod that runs mpirun.
pub(crate) const LAUNCHER: &str = "launcher";

/// The attempt of a run to which objects belong. When a run continues after it was suspended, a new attempt
/// with new keys begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Name of the ConfigMap that records the attempt.
    pub name: String,
    /// Name of the Secret with the attempt's keys, by which launcher and workers recognise each other.
    pub keys: String,
    /// The image of `podhelper`; `None` where the program is installed on the rabbits.
    pub image: Option<String>,
}

/// Returns the number of ranks on each worker.
#[must_use]
pub fn slots(mpi: &NnfMpiSpec) -> i64 {
    mpi.slots_per_worker.unwrap_or(1)
}

/// Returns the MPI implementation whose mpirun the launcher runs.
#[must_use]
pub fn implementation(mpi: &NnfMpiSpec) -> MpiImplementation {
    mpi.mpi_implementation.clone().unwrap_or(MpiImplementation::OpenMpi)
}

/// Returns the full host names of the workers, in the order of their rabbits.
pub(crate) fn workers(run: &Run<'_>) -> impl Iterator<Item = String> {
    (0..run.placement.len()).map(|index| host(run, &names::worker(run.service, index)))
}

/// Returns the full host name of the launcher.
pub(crate) fn launcher_host(run: &Run<'_>) -> String {
    host(run, &names::launcher(run.service))
}

fn host(run: &Run<'_>, name: &str) -> String {
    format!("{name}.{}", host_suffix(run))
}

/// Returns the suffix that turns a short host name of the run into the full name.
fn host_suffix(run: &Run<'_>) -> String {
    format!("{}.{}", run.service, domain(run))
}

#[cfg(test)]
mod tests;
