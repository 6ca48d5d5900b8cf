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

/// What a profile may not ask for on Kubernetes, unless the rabbits' agents fetch packages there.
#[must_use]
pub fn on_kubernetes(profile: &NnfContainerProfileData, is_fetched: bool) -> Vec<ProfileFault> {
    let is_refused = !profile.packages.is_empty() && !is_fetched;
    is_refused.then_some(ProfileFault::PackagesOnKubernetes).into_iter().collect()
}
