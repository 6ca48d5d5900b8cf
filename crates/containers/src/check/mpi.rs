//! Checks the `mpiSpec` of a profile.

use api::nnf_container_profile::{CleanPodPolicy, MpiImplementation, NnfContainer, NnfMpiSpec};

use super::{PodFault, ProfileFault, pod_faults, with_field};
use crate::mpi;

/// Returns the faults of an `mpiSpec`.
pub(super) fn mpi_faults(mpi: &NnfMpiSpec) -> Vec<ProfileFault> {
    let mut faults: Vec<ProfileFault> =
        with_field("data.mpiSpec.launcher", pod_faults(&mpi.launcher)).collect();
    faults.extend(with_field("data.mpiSpec.worker", pod_faults(&mpi.worker)));
    let first = mpi.worker.containers.first().map(first_container_faults).unwrap_or_default();
    faults.extend(with_field("data.mpiSpec.worker", first));
    if mpi.copy_offload {
        faults.push(ProfileFault::OffersCopyOffload);
    }
    let slots = mpi::slots(mpi);
    if slots < 1 {
        faults.push(ProfileFault::Slots(slots));
    }
    faults.extend(unsupported_fields(mpi));
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

/// Checks the first container of a worker. This container starts the ranks, so Warren sets its command and its
/// readiness probe to those of `podhelper`.
fn first_container_faults(first: &NnfContainer) -> Vec<PodFault> {
    let mut faults = Vec::new();
    if !first.command.is_empty() || !first.args.is_empty() {
        faults.push(PodFault::WorkerCommand(first.name.clone()));
    }
    if first.readiness_probe.is_some() {
        faults.push(PodFault::WorkerProbe(first.name.clone()));
    }
    faults
}

/// Rejects MPI operator fields that Warren does not implement, unless their value asks for what Warren does anyway.
fn unsupported_fields(mpi: &NnfMpiSpec) -> Vec<ProfileFault> {
    let policy = mpi.policy();
    let number = |value: Option<i64>| value.map(|value| value.to_string());
    let text = |value: Option<String>, done: &str| {
        value.filter(|value| value != done).map(|value| format!("{value:?}"))
    };
    let fields = [
        (
            "runPolicy.activeDeadlineSeconds",
            number(policy.active_deadline_seconds),
            "ask the administrator to remove it; the job's time limit, preRunTimeoutSeconds and postRunTimeoutSeconds apply",
        ),
        (
            "runPolicy.backoffLimit",
            number(policy.backoff_limit),
            "ask the administrator to write it as data.retryLimit",
        ),
        (
            "runPolicy.suspend",
            policy.suspend.filter(|is| *is).map(|is| is.to_string()),
            "ask the administrator to remove it; the annotation nnf.cray.hpe.com/suspend-containers of a Workflow suspends its containers",
        ),
        (
            "runPolicy.managedBy",
            text(policy.managed_by, ""),
            "ask the administrator to remove it; the engine alone manages the pods",
        ),
        (
            "launcherCreationPolicy",
            text(mpi.launcher_creation_policy.clone(), "WaitForWorkersReady"),
            "ask the administrator to remove it; a launcher starts once every worker answers",
        ),
    ];
    fields
        .into_iter()
        .filter_map(|(field, value, remedy)| {
            Some(ProfileFault::Unsupported { field, value: value?, remedy })
        })
        .collect()
}
