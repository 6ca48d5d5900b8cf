//! The allocations that a Servers asks for, and the assignment of allocations to computes.

use std::collections::{BTreeMap, BTreeSet};

use api::{ClientMount, Servers, client_mount::ClientMountInfo, servers::ServersAllocationSet};
use directive::capacity::LUSTRE_LEAST;
use kube::ResourceExt;

use crate::{
    plan::{lustre::place::is_lustre, mounts::unreadable_error},
    progress::wlm_error,
    site::Site,
    view::Group,
};

/// Allocations of equal size on one rabbit: one NnfNodeBlockStorage and one NnfNodeStorage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Name of the rabbit, which is the namespace of both objects.
    pub rabbit: String,
    /// Name of both objects.
    pub name: String,
    /// Label of the allocation set: `xfs`, `mdt` and so on.
    pub label: String,
    /// Bytes of each allocation.
    pub size: i64,
    /// Number of allocations on the rabbit.
    pub count: i64,
    /// Index of the first allocation among all allocations of the Servers on this rabbit.
    pub first: i64,
}

/// One allocation, as it is assigned to one compute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Name of the rabbit.
    pub rabbit: String,
    /// Name of the NnfNodeStorage.
    pub name: String,
    /// Index of the allocation in that NnfNodeStorage.
    pub index: i64,
}

/// Returns the bytes of each allocation of a set, at least [`LUSTRE_LEAST`] for a Lustre target, whose
/// mkfs fails with fewer.
pub fn bytes_of(set: &ServersAllocationSet) -> i64 {
    let least = i64::try_from(LUSTRE_LEAST).unwrap_or(i64::MAX);
    if is_lustre(&set.label) { set.allocation_size.max(least) } else { set.allocation_size }
}

/// Returns the rabbit on which a Servers places the management server of its Lustre.
pub fn mgs_rabbit(servers: &Servers) -> Option<&str> {
    let mut sets = servers.spec.allocation_sets.iter();
    let set = sets.find(|set| matches!(set.label.as_str(), "mgt" | "mgtmdt"))?;
    Some(&set.storage.first()?.name)
}

/// Returns the allocations that a Servers asks for, in its order. A rabbit that occurs twice in one set gets
/// two pairs of objects.
pub fn allocations(servers: &Servers) -> Vec<Allocation> {
    let (namespace, name) = (servers.namespace().unwrap_or_default(), servers.name_any());
    let mut repeats: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut firsts: BTreeMap<&str, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for set in &servers.spec.allocation_sets {
        for (rabbit, count) in parts_of_set(set) {
            let repeat = repeats.entry((&set.label, rabbit)).or_default();
            let first = firsts.entry(rabbit).or_default();
            found.push(Allocation {
                rabbit: rabbit.to_owned(),
                name: format!("{namespace}-{name}-{}-{repeat}", set.label),
                label: set.label.clone(),
                size: bytes_of(set),
                count,
                first: *first,
            });
            *repeat += 1;
            *first = first.saturating_add(count);
        }
    }
    found
}

/// Returns rabbit and count of each part of a set. The first allocation of a `mgtmdt` set becomes a part of its own: it
/// is the management server, and the others serve metadata only.
fn parts_of_set(set: &ServersAllocationSet) -> Vec<(&str, i64)> {
    let storage = set.storage.iter();
    let mut parts: Vec<_> =
        storage.map(|part| (part.name.as_str(), part.allocation_count)).collect();
    if set.label == "mgtmdt"
        && let Some((rabbit, count @ 2..)) = parts.first().copied()
    {
        parts.splice(..1, [(rabbit, 1), (rabbit, count - 1)]);
    }
    parts
}

/// Assigns an allocation to each compute. A compute that has an allocation keeps it, even if another is ready first;
/// the others get the first free allocation of their rabbit, in the job's order. An allocation stays taken while a
/// ClientMount refers to it: its node may have left the job with the storage mounted, and may come back.
///
/// # Errors
/// When a compute has no rabbit, no allocation is free for it, or an object cannot be read and free allocations are unknown.
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

/// Returns the allocation that a mount refers to.
pub fn slot(mount: &ClientMountInfo) -> Option<Slot> {
    let reference = mount.device.device_reference.as_ref()?;
    Some(Slot {
        rabbit: reference.object_reference.namespace.clone()?,
        name: reference.object_reference.name.clone()?,
        index: reference.allocation_index(),
    })
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
            "{all}: ClientMount {}/{} has one, whose node Computes does not name any more; name it, or delete the ClientMount",
            mount.spec.node,
            mount.name_any()
        ),
        None => {
            format!("{all}: give it an allocationCount for each of the job's computes there")
        }
    })
}
