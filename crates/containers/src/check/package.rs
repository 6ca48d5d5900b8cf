//! Checks a profile's job packages.

use std::collections::BTreeSet;

use api::NnfContainerProfileData;

use super::ProfileFault;
use crate::package::JobPackage;

/// Returns the faults of a profile's job packages.
pub(super) fn package_faults(packages: &[api::package::Package]) -> Vec<ProfileFault> {
    let mut names = BTreeSet::new();
    let mut faults = Vec::new();
    for (index, package) in packages.iter().enumerate() {
        let fault = JobPackage::parse(package).err();
        faults.extend(fault.map(|fault| ProfileFault::JobPackage { index, fault }));
        if !names.insert(&package.name) {
            faults.push(ProfileFault::SameJobPackage(package.name.clone()));
        }
    }
    faults
}

/// Returns a fault if the profile has job packages, but the rabbits' agents fetch none (`is_fetched` is false). The
/// caller must know that Kubernetes runs the profile's containers.
#[must_use]
pub fn faults_on_kubernetes(
    profile: &NnfContainerProfileData,
    is_fetched: bool,
) -> Vec<ProfileFault> {
    let is_refused = !profile.packages.is_empty() && !is_fetched;
    is_refused.then_some(ProfileFault::JobPackagesOnKubernetes).into_iter().collect()
}
