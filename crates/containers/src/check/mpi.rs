//! Whether a profile's part for MPI can be carried out.

use api::nnf_container_profile::{CleanPodPolicy, MpiImplementation, NnfContainer, NnfMpiSpec};

use super::{PodFault, ProfileFault, at, of_pod};
use crate::mpi;

/// Everything that is wrong with the part for MPI.
pub(super) fn of_mpi(mpi: &NnfMpiSpec) -> Vec<ProfileFault> {
    let mut faults: Vec<ProfileFault> =
        at("data.mpiSpec.launcher", of_pod(&mpi.launcher)).collect();
    faults.extend(at("data.mpiSpec.worker", of_pod(&mpi.worker)));
    let first = mpi.worker.containers.first().map(of_first_of_worker).unwrap_or_default();
    faults.extend(at("data.mpiSpec.worker", first));
    if mpi.copy_offload {
        faults.push(ProfileFault::OffersCopies);
    }
    let slots = mpi::slots(mpi);
    if slots < 1 {
        faults.push(ProfileFault::Slots(slots));
    }
    faults.extend(not_carried_out(mpi));
    let policy = mpi.policy();
    if let Some(MpiImplementation::Other(value)) = &mpi.mpi_implementation {
        let (value, known) = (value.clone(), MpiImplementation::VALUES);
        faults.push(ProfileFault::Unknown { field: "mpiImplementation", value, known });
    }
    if let Some(CleanPodPolicy::Other(value)) = policy.clean_pod_policy {
        let known = CleanPodPolicy::VALUES;
        faults.push(ProfileFault::Unknown { field: "runPolicy.cleanPodPolicy", value, known });
    }
    if let Some(value @ ..0) = policy.ttl_seconds_after_finished {
        let field = "mpiSpec.runPolicy.ttlSecondsAfterFinished";
        faults.push(ProfileFault::Negative { field, value });
    }
    faults
}

/// The container that starts ranks: what it runs, and when it is ready, says `podhelper`.
fn of_first_of_worker(first: &NnfContainer) -> Vec<PodFault> {
    let mut faults = Vec::new();
    if !first.command.is_empty() || !first.args.is_empty() {
        faults.push(PodFault::WorkerCommand(first.name.clone()));
    }
    if first.readiness_probe.is_some() {
        faults.push(PodFault::WorkerProbe(first.name.clone()));
    }
    faults
}

/// Fields of the MPI operator's that nothing here does what they say, unless they say what is done anyway.
fn not_carried_out(mpi: &NnfMpiSpec) -> Vec<ProfileFault> {
    let policy = mpi.policy();
    let number = |value: Option<i64>| value.map(|value| value.to_string());
    let text = |value: Option<String>, done: &str| {
        value.filter(|value| value != done).map(|value| format!("{value:?}"))
    };
    let all = [
        (
            "runPolicy.activeDeadlineSeconds",
            number(policy.active_deadline_seconds),
            "the administrator takes it out; the job's own limit, preRunTimeoutSeconds and postRunTimeoutSeconds hold",
        ),
        (
            "runPolicy.backoffLimit",
            number(policy.backoff_limit),
            "the administrator writes it as data.retryLimit",
        ),
        (
            "runPolicy.suspend",
            policy.suspend.filter(|is| *is).map(|is| is.to_string()),
            "the administrator takes it out; the annotation nnf.cray.hpe.com/suspend-containers of a Workflow suspends its containers",
        ),
        (
            "runPolicy.managedBy",
            text(policy.managed_by, ""),
            "the administrator takes it out; the engine alone manages the pods",
        ),
        (
            "launcherCreationPolicy",
            text(mpi.launcher_creation_policy.clone(), "WaitForWorkersReady"),
            "the administrator takes it out; a launcher starts once every worker answers",
        ),
    ];
    all.into_iter()
        .filter_map(|(field, value, remedy)| {
            Some(ProfileFault::NotCarriedOut { field, value: value?, remedy })
        })
        .collect()
}
