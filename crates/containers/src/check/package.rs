//! Whether a profile's packages can be had.

use std::collections::BTreeSet;

use api::NnfContainerProfileData;

use super::ProfileFault;
use crate::package::Package;

/// Everything that is wrong with packages.
pub(super) fn of_packages(packages: &[api::package::Package]) -> Vec<ProfileFault> {
    let mut names = BTreeSet::new();
    let mut faults = Vec::new();
    for (index, package) in packages.iter().enumerate() {
        let fault = Package::of(package).err();
        faults.extend(fault.map(|fault| ProfileFault::Package { index, fault }));
        if !names.insert(&package.name) {
            faults.push(ProfileFault::SamePackage(package.name.clone()));
        }
    }
    faults
}

/// What a profile may not ask for on Kubernetes: the rabbits' agents fetch packages, and run no containers there.
#[must_use]
pub fn on_kubernetes(profile: &NnfContainerProfileData) -> Vec<ProfileFault> {
    let has_packages = !profile.packages.is_empty();
    has_packages.then_some(ProfileFault::PackagesOnKubernetes).into_iter().collect()
}
