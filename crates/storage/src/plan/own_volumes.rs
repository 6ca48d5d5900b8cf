//! Clean-up after a start: removes leftovers of volume groups that no longer exist. Existing groups stay, because
//! they may hold data.

use std::collections::BTreeSet;

use crate::{
    Step,
    desired::{Nqn, ObjectUid},
    observed::{Mapping, NamespaceOwner, Observed, owner_of_group},
};

/// Plans to remove the mappings that lie on no device, the uppermost first, and to leave the lock spaces of groups of
/// which neither namespaces nor mappings remain.
pub(super) fn remove_leftovers_except(
    keep: &BTreeSet<ObjectUid>,
    observed: &Observed,
) -> Vec<Step> {
    let is_left = |group: &str| owner_of_group(group).is_some_and(|owner| !keep.contains(&owner));
    let of_leftovers = |mapping: &&Mapping| mapping.group().is_some_and(|group| is_left(&group));
    let mut dangling: Vec<_> = observed
        .mappings
        .iter()
        .filter(of_leftovers)
        .filter(|mapping| mapping.on.is_empty())
        .collect();
    dangling.sort_by_key(|mapping| std::cmp::Reverse(mapping.layers));
    let mut steps: Vec<_> = dangling
        .iter()
        .map(|mapping| Step::RemoveMapping { name: mapping.name.clone(), number: mapping.number })
        .collect();
    if is_whole(observed) {
        let stale_lock_spaces =
            observed.lock_spaces.iter().filter(|group| is_left(group) && is_gone(group, observed));
        steps.extend(stale_lock_spaces.map(|group| Step::DropLockSpace { group: group.clone() }));
    }
    steps
}

/// Returns whether the observation is complete, so that a group that was not found does not exist. The observation is
/// complete if every drive answers and LVM read all namespaces of allocations. Drives that are gone for good, and their
/// namespaces, do not count.
fn is_whole(observed: &Observed) -> bool {
    let may_return = |drive: &Nqn| !observed.is_replaced(drive);
    let mut drives = observed.drives.iter().filter(|drive| may_return(&drive.nqn));
    let mut namespaces =
        observed.namespaces.iter().filter(|namespace| may_return(&namespace.id.subsystem));
    drives.all(|drive| drive.fault.is_none())
        && namespaces.all(|namespace| match &namespace.owner {
            NamespaceOwner::Foreign(_) => true,
            owner => owner.allocation().is_some() && namespace.device.is_some(),
        })
}

/// Returns whether a group lies on no namespace and has no active volume. An active volume may be in use, and its lock
/// keeps other nodes out.
fn is_gone(group: &str, observed: &Observed) -> bool {
    let is_active =
        observed.mappings.iter().any(|mapping| mapping.group().as_deref() == Some(group));
    let has_namespaces = observed.groups.iter().any(|known| known.group.name == group);
    !is_active && !has_namespaces
}
