//! File system names that are in use anywhere in the system. A node serves each service name (`<fsname>-OST0001`) once, whatever
//! management target it belongs to, so a name belongs to one file system of the whole system. Pure.

use std::collections::BTreeSet;

use api::{NnfLustreMgt, fs_name::FsName};
use controller::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::{mgts::place_of, site::Site};

/// The names that a file system of this management target must not get: those of the site's own file systems, and those that the
/// other management targets have given out, or will give out next to the claims that they know.
#[must_use]
pub fn taken_elsewhere(site: &Site, mgt: &ObjectKey) -> BTreeSet<String> {
    let mut taken = of_site(site);
    for other in site.mgts.iter().filter(|other| place_of(other) != *mgt) {
        taken.extend(given_names(other).map(|(_, name)| name.to_owned()));
        taken.extend(awaited_names(other));
    }
    taken
}

/// Whether a file system other than that of the claim has the name.
#[must_use]
pub fn is_of_another(site: &Site, claim: &ObjectReference, name: &str) -> bool {
    let mut given = site.mgts.iter().flat_map(|mgt| given_names(mgt));
    of_site(site).contains(name) || given.any(|(of, given)| given == name && *of != *claim)
}

fn of_site(site: &Site) -> BTreeSet<String> {
    site.lustre.iter().flat_map(|all| all.values()).map(|one| one.spec.name.clone()).collect()
}

fn given_names(mgt: &NnfLustreMgt) -> impl Iterator<Item = (&ObjectReference, &str)> {
    let claims = mgt.status.iter().flat_map(|status| &status.claim_list);
    claims.map(|claim| (&*claim.reference, claim.fs_name.as_str()))
}

/// The names that a management target does not give out.
fn avoided_names(mgt: &NnfLustreMgt) -> BTreeSet<String> {
    let given = given_names(mgt).map(|(_, name)| name.to_owned());
    mgt.spec.fs_name_black_list.iter().cloned().chain(given).collect()
}

/// The claims that wait for a name.
fn unnamed_claims(mgt: &NnfLustreMgt) -> usize {
    let has_name = |claim: &ObjectReference| given_names(mgt).any(|(of, _)| of == claim);
    mgt.spec.claim_list.iter().filter(|claim| !has_name(claim)).count()
}

/// Where a management target goes on to count. One that counts in a ConfigMap says so in its status, once it has read it.
fn next_name(mgt: &NnfLustreMgt) -> Option<FsName> {
    let status = mgt.status.as_ref().map(|status| status.fs_name_next.as_str());
    let next = status.filter(|next| !next.is_empty()).unwrap_or(&mgt.spec.fs_name_start);
    next.parse().ok()
}

/// The names that a management target will give to the claims that wait for one.
fn awaited_names(mgt: &NnfLustreMgt) -> Vec<String> {
    let (mut avoided, mut names) = (avoided_names(mgt), Vec::new());
    let Some(mut name) = next_name(mgt) else { return names };
    for _ in 0..unnamed_claims(mgt) {
        name = name.first_free(&avoided);
        avoided.insert(name.to_string());
        names.push(name.to_string());
    }
    names
}

/// Has a management target pass over taken names that it would give to the claims that wait for one.
pub fn pass_over(mgt: &mut NnfLustreMgt, taken: &BTreeSet<String>) {
    while let Some(name) = awaited_names(mgt).into_iter().find(|name| taken.contains(name)) {
        mgt.spec.fs_name_black_list.push(name);
    }
}

/// The first name that a management target with this owner gives out. Each counts in a place of its own, which the owner's uid
/// tells: a name that was in use a moment ago comes back to nobody.
#[must_use]
pub fn first_name(uid: &str, taken: &BTreeSet<String>) -> FsName {
    // FNV-1a, 64 bits.
    let spread = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    FsName::at(uid.bytes().fold(0xcbf2_9ce4_8422_2325, spread)).first_free(taken)
}

#[cfg(test)]
mod tests;
