//! Checks whether Warren can run a container profile. The workflow's state Proposal reports the faults, before
//! any object is created.

mod mpi;
mod on_rabbit;
mod package;
mod pod;
mod volumes;

use api::NnfContainerProfileData;
use thiserror::Error;

use self::{mpi::mpi_faults, package::package_faults, pod::pod_faults};
pub use self::{
    on_rabbit::faults_on_rabbits, package::faults_on_kubernetes, pod::PodFault,
    volumes::is_mount_path,
};
use crate::package::JobPackageFault;

/// A fault of a container profile, with the remedy for its administrator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileFault {
    #[error("data has neither spec nor mpiSpec: ask the administrator to add one")]
    NoSpec,
    #[error("data has both spec and mpiSpec: ask the administrator to remove one")]
    TwoSpecs,
    #[error(
        "data.createContainer is false, which Warren does not support: name a profile with createContainer true"
    )]
    NoContainer,
    #[error("{at}: {fault}")]
    Pod {
        /// Field of the profile that contains the pod, such as `data.spec`.
        at: &'static str,
        fault: PodFault,
    },
    #[error(
        "data.mpiSpec.copyOffload is true, which Warren does not support: name a profile without copyOffload"
    )]
    OffersCopyOffload,
    #[error(
        "data.mpiSpec.slotsPerWorker is {0}, and must be 1 or more: ask the administrator to correct it"
    )]
    Slots(i64),
    #[error("data.mpiSpec.{field} is {value:?}, which is not known: ask the administrator to write one of {}", known.join(", "))]
    Unknown {
        field: &'static str,
        value: String,
        /// The values that Warren accepts.
        known: &'static [&'static str],
    },
    #[error("data.mpiSpec.{field} is {value}, which Warren does not support: {remedy}")]
    Unsupported {
        field: &'static str,
        value: String,
        /// Text that says what Warren does instead, or what the administrator must do.
        remedy: &'static str,
    },
    #[error(
        "data.storages: {name} has pvcMode {mode}, which is for DW_GLOBAL_ only: ask the administrator to remove it"
    )]
    PvcMode { name: String, mode: String },
    #[error("data.packages[{index}].{fault}: ask the administrator to correct it")]
    JobPackage {
        /// Index of the job package in `data.packages`.
        index: usize,
        fault: JobPackageFault,
    },
    #[error(
        "data.packages: {0:?} occurs twice: ask the administrator to give each package a different name"
    )]
    SameJobPackage(String),
    #[error(
        "this site does not support data.packages: ask the administrator to remove it, or to start the coordinator with --container-packages and the rabbits' agents with --package-dir"
    )]
    JobPackagesOnKubernetes,
    #[error("data.{field} is {value}, and must be 0 or more: ask the administrator to correct it")]
    Negative { field: &'static str, value: i64 },
    #[error("{field} is not supported where the rabbits' agents run the containers: {remedy}")]
    NotOnRabbits { field: String, remedy: &'static str },
    #[error(
        "the workflow's user is root, and containers run without its rights: submit the job as another user"
    )]
    Root,
}

/// Returns all faults of a profile whose containers run as the user with this uid.
#[must_use]
pub fn faults(profile: &NnfContainerProfileData, user: i64) -> Vec<ProfileFault> {
    let mut faults = negative_numbers(profile);
    if user == 0 {
        faults.push(ProfileFault::Root);
    }
    if !profile.create_container {
        faults.push(ProfileFault::NoContainer);
    }
    for storage in &profile.storages {
        if let Some(mode) = &storage.pvc_mode
            && !storage.name.starts_with("DW_GLOBAL_")
        {
            let (name, mode) = (storage.name.clone(), mode.to_string());
            faults.push(ProfileFault::PvcMode { name, mode });
        }
    }
    faults.extend(package_faults(&profile.packages));
    match (&profile.spec, &profile.mpi_spec) {
        (None, None) => faults.push(ProfileFault::NoSpec),
        (Some(_), Some(_)) => faults.push(ProfileFault::TwoSpecs),
        (None, Some(mpi)) => faults.extend(mpi_faults(mpi)),
        (Some(spec), None) => faults.extend(with_field("data.spec", pod_faults(spec))),
    }
    faults
}

fn negative_numbers(profile: &NnfContainerProfileData) -> Vec<ProfileFault> {
    let numbers = [
        ("retryLimit", profile.retry_limit),
        ("preRunTimeoutSeconds", profile.pre_run_timeout_seconds.unwrap_or(0)),
        ("postRunTimeoutSeconds", profile.post_run_timeout_seconds.unwrap_or(0)),
        ("numPorts", profile.num_ports),
    ];
    let negative = numbers.into_iter().filter(|(_, value)| *value < 0);
    negative.map(|(field, value)| ProfileFault::Negative { field, value }).collect()
}

/// Turns faults of a pod into faults of the profile, which also name the profile's field that contains the pod.
fn with_field(at: &'static str, faults: Vec<PodFault>) -> impl Iterator<Item = ProfileFault> {
    faults.into_iter().map(move |fault| ProfileFault::Pod { at, fault })
}

#[cfg(test)]
mod tests;
