//! Whether a profile can be carried out, whoever names it. Told in Proposal, before anything is made.

mod mpi;
mod on_rabbit;
mod package;
mod pod;
mod volumes;

use api::NnfContainerProfileData;
use thiserror::Error;

use self::{mpi::of_mpi, package::of_packages, pod::of_pod};
pub use self::{
    on_rabbit::on_rabbits, package::on_kubernetes, pod::PodFault, volumes::is_mount_path,
};
use crate::package::PackageFault;

/// What is wrong with a profile: for its administrator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileFault {
    #[error("data has neither spec nor mpiSpec: the administrator adds one")]
    Nothing,
    #[error("data has both spec and mpiSpec: the administrator takes one out")]
    Both,
    #[error(
        "data.createContainer is false, which is not carried out here: name a profile that makes containers"
    )]
    NoContainer,
    #[error("{at}: {fault}")]
    Pod {
        /// Which pod of the profile.
        at: &'static str,
        fault: PodFault,
    },
    #[error(
        "data.mpiSpec.copyOffload is true, which is not carried out here: name a profile without it"
    )]
    OffersCopies,
    #[error(
        "data.mpiSpec.slotsPerWorker is {0}, and must be 1 or more: the administrator corrects it"
    )]
    Slots(i64),
    #[error("data.mpiSpec.{field} is {value:?}, which is not known: the administrator writes one of {}", known.join(", "))]
    Unknown {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        known: &'static [&'static str],
    },
    #[error("data.mpiSpec.{field} is {value}, which is not carried out here: {remedy}")]
    NotCarriedOut {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is done in its place.
        remedy: &'static str,
    },
    #[error(
        "data.storages: {name} has pvcMode {mode}, which is for DW_GLOBAL_ only: the administrator takes it out"
    )]
    PvcMode {
        /// The storage.
        name: String,
        /// The mode.
        mode: String,
    },
    #[error("data.packages[{index}].{fault}: the administrator corrects it")]
    Package {
        /// Its place in the list.
        index: usize,
        fault: PackageFault,
    },
    #[error(
        "data.packages: {0:?} is there twice: the administrator gives each package a name of its own"
    )]
    SamePackage(String),
    #[error(
        "data.packages is not carried out here: the administrator takes it out, or starts the coordinator with --container-packages and the rabbits' agents with --package-dir"
    )]
    PackagesOnKubernetes,
    #[error("data.{field} is {value}, and must be 0 or more: the administrator corrects it")]
    Negative {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    #[error("{field} is not carried out where rabbits run the containers themselves: {remedy}")]
    NotOnRabbits {
        /// The field.
        field: String,
        /// What is to be done.
        remedy: &'static str,
    },
    #[error(
        "the workflow's user is root, and containers run without its rights: submit the job as another user"
    )]
    Root,
}

/// Everything that is wrong with a profile, for a user.
#[must_use]
pub fn faults(profile: &NnfContainerProfileData, user: i64) -> Vec<ProfileFault> {
    let mut faults = numbers(profile);
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
    faults.extend(of_packages(&profile.packages));
    match (&profile.spec, &profile.mpi_spec) {
        (None, None) => faults.push(ProfileFault::Nothing),
        (Some(_), Some(_)) => faults.push(ProfileFault::Both),
        (None, Some(mpi)) => faults.extend(of_mpi(mpi)),
        (Some(spec), None) => faults.extend(at("data.spec", of_pod(spec))),
    }
    faults
}

fn numbers(profile: &NnfContainerProfileData) -> Vec<ProfileFault> {
    let all = [
        ("retryLimit", profile.retry_limit),
        ("preRunTimeoutSeconds", profile.pre_run_timeout_seconds.unwrap_or(0)),
        ("postRunTimeoutSeconds", profile.post_run_timeout_seconds.unwrap_or(0)),
        ("numPorts", profile.num_ports),
    ];
    let negative = all.into_iter().filter(|(_, value)| *value < 0);
    negative.map(|(field, value)| ProfileFault::Negative { field, value }).collect()
}

/// The faults of a pod, with its place.
fn at(at: &'static str, faults: Vec<PodFault>) -> impl Iterator<Item = ProfileFault> {
    faults.into_iter().map(move |fault| ProfileFault::Pod { at, fault })
}

#[cfg(test)]
mod tests;
