//! File system names that are in use anywhere in the system. A node serves each service name (`<fsname>-OST0001`) only
//! once, even for different management targets, so a name belongs to one file system of the whole system. The holder of
//! a name is the Servers of that file system. Pure.

use std::collections::BTreeSet;

use api::{NnfLustreMgt, fs_name::FsName};
use controller::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::objects::{mgts::mgt_key, site::Site};

/// Returns the names that this management target must not give out: the names of the site's own file systems, and the
/// names that other management targets have given out or will give to the holders that already requested one.
#[must_use]
pub fn taken_elsewhere(site: &Site, mgt: &ObjectKey) -> BTreeSet<String> {
    let mut taken = site_names(site);
    for other in site.mgts.iter().filter(|other| mgt_key(other) != *mgt) {
        taken.extend(granted_names(other).map(|(_, name)| name.to_owned()));
        taken.extend(awaited_names(other));
    }
    taken
}

/// Returns true if a file system of another holder has the name.
#[must_use]
pub fn belongs_to_another(site: &Site, holder: &ObjectReference, name: &str) -> bool {
    let mut given_out = site.mgts.iter().flat_map(|mgt| granted_names(mgt));
    site_names(site).contains(name)
        || given_out.any(|(owner, granted)| granted == name && *owner != *holder)
}

fn site_names(site: &Site) -> BTreeSet<String> {
    site.lustre
        .iter()
        .flat_map(|objects| objects.values())
        .map(|object| object.spec.name.clone())
        .collect()
}

fn granted_names(mgt: &NnfLustreMgt) -> impl Iterator<Item = (&ObjectReference, &str)> {
    let entries = mgt.status.iter().flat_map(|status| &status.claim_list);
    entries.map(|entry| (&*entry.reference, entry.fs_name.as_str()))
}

/// Returns the names on a management target's black list, and the names that it has given out.
fn avoided_names(mgt: &NnfLustreMgt) -> BTreeSet<String> {
    let granted = granted_names(mgt).map(|(_, name)| name.to_owned());
    mgt.spec.fs_name_black_list.iter().cloned().chain(granted).collect()
}

/// Returns how many holders have asked a management target for a name and not got one yet.
fn unnamed_holders(mgt: &NnfLustreMgt) -> usize {
    let has_name = |holder: &ObjectReference| granted_names(mgt).any(|(owner, _)| owner == holder);
    mgt.spec.claim_list.iter().filter(|holder| !has_name(holder)).count()
}

/// Returns the name that a management target gives out next; names are given out in alphabetical order. Until the
/// status has a next name, returns the first name in the target's spec. A target that keeps its next name in a
/// ConfigMap may give out another name: the rabbit's agent reads that ConfigMap, the engine does not.
fn next_name(mgt: &NnfLustreMgt) -> Option<FsName> {
    let status = mgt.status.as_ref().map(|status| status.fs_name_next.as_str());
    let next = status.filter(|next| !next.is_empty()).unwrap_or(&mgt.spec.fs_name_start);
    next.parse().ok()
}

/// Returns the names that a management target will give to the holders that wait for one.
fn awaited_names(mgt: &NnfLustreMgt) -> Vec<String> {
    let (mut avoided, mut names) = (avoided_names(mgt), Vec::new());
    let Some(mut name) = next_name(mgt) else { return names };
    for _ in 0..unnamed_holders(mgt) {
        name = name.first_free(&avoided);
        avoided.insert(name.to_string());
        names.push(name.to_string());
    }
    names
}

/// Adds to a management target's black list those of the `taken` names that the target would give out next.
pub fn pass_over(mgt: &mut NnfLustreMgt, taken: &BTreeSet<String>) {
    while let Some(name) = awaited_names(mgt).into_iter().find(|name| taken.contains(name)) {
        mgt.spec.fs_name_black_list.push(name);
    }
}

/// Returns the first name that the management target of this owner gives out. The name depends on the owner's uid, so
/// that a later owner does not give out a name again that was in use a moment ago.
#[must_use]
pub fn first_name(uid: &str, taken: &BTreeSet<String>) -> FsName {
    // FNV-1a, 64 bits.
    let spread = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    FsName::at(uid.bytes().fold(0xcbf2_9ce4_8422_2325, spread)).first_free(taken)
}

#[cfg(test)]
mod tests;
