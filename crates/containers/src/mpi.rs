//! MPI: a worker on each rabbit, and a launcher beside the first.
//!
//! The hostfiles are those of the MPI operator (v2beta1) to the byte. The pods differ from its pods: a program of ours,
//! `podhelper`, stands in the place of sshd and ssh, so that images need neither and nobody in them is root.

pub(crate) mod environment;
mod files;
pub mod network;
mod pods;

pub(crate) use self::{
    files::answering,
    pods::{OWN, waiting},
};
pub use self::{
    files::{discover_hosts, hostfile},
    pods::{AGENT, HOSTFILE, KEYS, PODHELPER, launcher, worker},
};

use api::nnf_container_profile::{MpiImplementation, NnfMpiSpec};

use crate::{environment::domain, names, run::Run};

/// The role of the pods that ranks run in.
pub(crate) const WORKER: &str = "worker";
/// The role of the pod that mpirun runs in.
pub(crate) const LAUNCHER: &str = "launcher";

/// Which attempt of a run its objects belong to: what was suspended starts anew as another, with other keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Name of the ConfigMap that says so.
    pub name: String,
    /// Name of the Secret with its keys.
    pub keys: String,
    /// The image of `podhelper`; none where the rabbits have the program.
    pub image: Option<String>,
}

/// Ranks on each worker.
#[must_use]
pub fn slots(mpi: &NnfMpiSpec) -> i64 {
    mpi.slots_per_worker.unwrap_or(1)
}

/// Whose mpirun a launcher runs.
#[must_use]
pub fn implementation(mpi: &NnfMpiSpec) -> MpiImplementation {
    mpi.mpi_implementation.clone().unwrap_or(MpiImplementation::OpenMpi)
}

/// Full names of the workers, in the order of their rabbits.
pub(crate) fn workers(run: &Run<'_>) -> impl Iterator<Item = String> {
    (0..run.placement.len()).map(|index| host(run, &names::worker(run.workflow, index)))
}

/// Full name of the launcher.
pub(crate) fn launcher_host(run: &Run<'_>) -> String {
    host(run, &names::launcher(run.workflow))
}

fn host(run: &Run<'_>, name: &str) -> String {
    format!("{name}.{}", beneath(run))
}

/// What the full names of the run's hosts have after their short ones.
fn beneath(run: &Run<'_>) -> String {
    format!("{}.{}", run.workflow, domain(run))
}

#[cfg(test)]
mod tests;
