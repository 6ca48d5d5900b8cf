//! Assigns allocations to computes.

use std::collections::{BTreeMap, BTreeSet};

use api::ClientMount;
use kube::ResourceExt;

use crate::{
    objects::{
        allocation::{Allocation, Slot, slot},
        site::Site,
        view::Group,
    },
    plan::mounts::unreadable_error,
    progress::wlm_error,
};

/// Assigns an allocation to each compute. A compute that has an allocation keeps it, even if another allocation is
/// ready first. The other computes get the first free allocation of their rabbit, in the job's order. An allocation
/// stays taken while a ClientMount refers to it: the ClientMount's node may have left the job with the storage
/// mounted, and may come back.
///
/// # Errors
/// When a compute has no rabbit, when no allocation on its rabbit is free, or when an object cannot be read, so that
/// the free allocations are unknown.
pub fn assign<'a>(
    site: &Site,
    group: &Group,
    allocations: &[Allocation],
    computes: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<&'a str, Slot>, api::ResourceError> {
    let mut seen = BTreeSet::new();
    let computes: Vec<&str> = computes.filter(|compute| seen.insert(*compute)).collect();
    let existing: BTreeMap<String, Slot> =
        group.mounts.values().filter_map(|mount| slot_of_compute(mount)).collect();
    let taken: BTreeSet<&Slot> = existing.values().collect();
    let mut free: BTreeMap<&str, std::vec::IntoIter<Slot>> = slots_of_rabbits(allocations);
    let mut first_free = |compute: &str| {
        let rabbit = site.rabbit_of.get(compute).ok_or_else(|| no_rabbit_error(compute))?;
        if let Some(error) = unreadable_error(group.unreadable.iter()) {
            return Err(error);
        }
        let slots = free.get_mut(rabbit.as_str());
        let slot = slots.and_then(|slots| slots.find(|slot| !taken.contains(slot)));
        let former = || mount_of_former_compute(group, rabbit, &computes);
        slot.ok_or_else(|| too_few_error(compute, rabbit, allocations, former()))
    };
    let assign = |compute: &&'a str| {
        let slot = existing.get(*compute).cloned().map_or_else(|| first_free(compute), Ok)?;
        Ok((*compute, slot))
    };
    computes.iter().map(assign).collect()
}

/// Returns a mount of a rabbit's storage on a compute that is not in the job any more.
fn mount_of_former_compute<'a>(
    group: &'a Group,
    rabbit: &str,
    computes: &[&str],
) -> Option<&'a ClientMount> {
    let mut mounts = group.mounts.values().filter(|mount| {
        let is_here = slot_of_compute(mount).is_some_and(|(_, slot)| slot.rabbit == rabbit);
        is_here && !computes.contains(&mount.spec.node.as_str())
    });
    mounts.next().map(|mount| &**mount)
}

/// Returns the node of a compute's mount and the allocation that is mounted; `None` for a mount of a rabbit.
fn slot_of_compute(mount: &ClientMount) -> Option<(String, Slot)> {
    if !mount.name_any().ends_with("-computes") {
        return None;
    }
    Some((mount.spec.node.clone(), slot(mount.spec.mounts.first()?)?))
}

/// Returns all allocations of each rabbit, in order.
fn slots_of_rabbits(allocations: &[Allocation]) -> BTreeMap<&str, std::vec::IntoIter<Slot>> {
    let mut by_rabbit: BTreeMap<&str, Vec<Slot>> = BTreeMap::new();
    for allocation in allocations {
        let slots = (0..allocation.count).map(|index| Slot {
            rabbit: allocation.rabbit.clone(),
            name: allocation.name.clone(),
            index,
        });
        by_rabbit.entry(&allocation.rabbit).or_default().extend(slots);
    }
    by_rabbit.into_iter().map(|(rabbit, slots)| (rabbit, slots.into_iter())).collect()
}

fn no_rabbit_error(compute: &str) -> api::ResourceError {
    wlm_error(format!(
        "Computes names {compute}, which no rabbit serves: name computes that SystemConfiguration default/default lists under a rabbit"
    ))
}

/// Returns the error for a compute without a free allocation. `former` is a mount of a node that left the job.
fn too_few_error(
    compute: &str,
    rabbit: &str,
    allocations: &[Allocation],
    former: Option<&ClientMount>,
) -> api::ResourceError {
    let count: i64 = allocations
        .iter()
        .filter(|allocation| allocation.rabbit == rabbit)
        .map(|allocation| allocation.count)
        .sum();
    let all = format!(
        "Too many clients for storage: {compute} is served by {rabbit}, where Servers asks for {count} allocations, all in use"
    );
    wlm_error(match former {
        Some(mount) => format!(
            "{all}: ClientMount {}/{} holds one for a node that is not in Computes any more; add the node to Computes, or delete the ClientMount",
            mount.spec.node,
            mount.name_any()
        ),
        None => {
            format!(
                "{all}: set the allocationCount of {rabbit} to the number of the job's computes there"
            )
        }
    })
}
