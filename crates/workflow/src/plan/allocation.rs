//! The allocations that a Servers asks for, and which compute uses which.

use std::collections::{BTreeMap, BTreeSet};

use api::{ClientMount, Servers};
use kube::ResourceExt;

use crate::{progress::wlm, site::Site, view::Group};

/// Like allocations on one rabbit: one NnfNodeBlockStorage and one NnfNodeStorage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The rabbit.
    pub rabbit: String,
    /// Name of both objects.
    pub name: String,
    /// What they are for.
    pub label: String,
    /// Bytes of each.
    pub size: i64,
    /// How many there are.
    pub count: i64,
    /// Index of the first among all of its rabbit.
    pub first: i64,
}

/// One allocation for one compute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The rabbit.
    pub rabbit: String,
    /// Name of the NnfNodeStorage.
    pub name: String,
    /// Index in it.
    pub index: i64,
}

/// The allocations that a Servers asks for, in its order. A rabbit that stands twice in one set has two objects.
pub fn allocations(servers: &Servers) -> Vec<Allocation> {
    let (namespace, name) = (servers.namespace().unwrap_or_default(), servers.name_any());
    let mut repeats: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut firsts: BTreeMap<&str, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for set in &servers.spec.allocation_sets {
        for storage in &set.storage {
            let repeat = repeats.entry((&set.label, &storage.name)).or_default();
            let first = firsts.entry(&storage.name).or_default();
            found.push(Allocation {
                rabbit: storage.name.clone(),
                name: format!("{namespace}-{name}-{}-{repeat}", set.label),
                label: set.label.clone(),
                size: set.allocation_size,
                count: storage.allocation_count,
                first: *first,
            });
            *repeat += 1;
            *first = first.saturating_add(storage.allocation_count);
        }
    }
    found
}

/// Which compute uses which allocation. A compute that has one keeps it, whatever is ready first; the others get the first that
/// is free on their rabbit, in the job's order.
///
/// # Errors
/// When a compute has none.
pub fn assigned<'a>(
    site: &Site,
    group: &Group,
    allocations: &[Allocation],
    computes: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<&'a str, Slot>, api::ResourceError> {
    let computes: Vec<&str> = computes.collect();
    let kept: BTreeMap<String, Slot> =
        group.mounts.values().filter_map(|mount| kept(mount)).collect();
    let mut assigned: BTreeMap<&str, Slot> = BTreeMap::new();
    let mut taken: BTreeSet<Slot> = BTreeSet::new();
    for compute in &computes {
        if let Some(slot) = kept.get(*compute) {
            taken.insert(slot.clone());
            assigned.insert(compute, slot.clone());
        }
    }
    let mut free: BTreeMap<&str, std::vec::IntoIter<Slot>> = BTreeMap::new();
    for compute in computes {
        if assigned.contains_key(compute) {
            continue;
        }
        let rabbit = site.rabbit_of.get(compute).ok_or_else(|| no_rabbit(compute))?;
        let slots = free.entry(rabbit).or_insert_with(|| slots(allocations, rabbit).into_iter());
        let slot = slots.find(|slot| !taken.contains(slot));
        assigned.insert(compute, slot.ok_or_else(|| too_few(compute, rabbit, allocations))?);
    }
    Ok(assigned)
}

/// The compute of a mount, and the allocation that it has.
fn kept(mount: &ClientMount) -> Option<(String, Slot)> {
    if !mount.name_any().ends_with("-computes") {
        return None;
    }
    let reference = mount.spec.mounts.first()?.device.device_reference.as_ref()?;
    let slot = Slot {
        rabbit: reference.object_reference.namespace.clone()?,
        name: reference.object_reference.name.clone()?,
        index: reference.allocation_index(),
    };
    Some((mount.spec.node.clone(), slot))
}

/// All allocations of a rabbit, in order.
fn slots(allocations: &[Allocation], rabbit: &str) -> Vec<Slot> {
    let here = allocations.iter().filter(|one| one.rabbit == rabbit);
    let slots = here.flat_map(|one| {
        (0..one.count).map(|index| Slot {
            rabbit: one.rabbit.clone(),
            name: one.name.clone(),
            index,
        })
    });
    slots.collect()
}

fn no_rabbit(compute: &str) -> api::ResourceError {
    wlm(format!(
        "Computes names {compute}, which no rabbit serves: name computes that SystemConfiguration default/default lists under a rabbit"
    ))
}

fn too_few(compute: &str, rabbit: &str, allocations: &[Allocation]) -> api::ResourceError {
    let count: i64 =
        allocations.iter().filter(|one| one.rabbit == rabbit).map(|one| one.count).sum();
    wlm(format!(
        "Too many clients for storage: {compute} is served by {rabbit}, where Servers asks for {count} allocations, all in use: give it an allocationCount for each of the job's computes there"
    ))
}
