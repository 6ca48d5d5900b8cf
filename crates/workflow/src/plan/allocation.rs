//! The allocations that a Servers asks for, and which compute uses which.

use std::collections::{BTreeMap, BTreeSet};

use api::{ClientMount, Servers, client_mount::ClientMountInfo, servers::ServersAllocationSet};
use directive::capacity::LUSTRE_LEAST;
use kube::ResourceExt;

use crate::{
    plan::{lustre::place::is_lustre, mounts::unreadable},
    progress::wlm_error,
    site::Site,
    view::Group,
};

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

/// Bytes of each allocation of a set: no Lustre target formats with less than some.
pub fn bytes_of(set: &ServersAllocationSet) -> i64 {
    let least = i64::try_from(LUSTRE_LEAST).unwrap_or(i64::MAX);
    if is_lustre(&set.label) { set.allocation_size.max(least) } else { set.allocation_size }
}

/// The rabbit that a Servers gives the management server of its Lustre.
pub fn mgs_rabbit(servers: &Servers) -> Option<&str> {
    let mut sets = servers.spec.allocation_sets.iter();
    let set = sets.find(|set| matches!(set.label.as_str(), "mgt" | "mgtmdt"))?;
    Some(&set.storage.first()?.name)
}

/// The allocations that a Servers asks for, in its order. A rabbit that stands twice in one set has two objects.
pub fn allocations(servers: &Servers) -> Vec<Allocation> {
    let (namespace, name) = (servers.namespace().unwrap_or_default(), servers.name_any());
    let mut repeats: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut firsts: BTreeMap<&str, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for set in &servers.spec.allocation_sets {
        for (rabbit, count) in parts(set) {
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

/// Rabbit and number of what stands in a set. The first of Lustre's combined targets stands alone: it is the management server,
/// and the others serve metadata only.
fn parts(set: &ServersAllocationSet) -> Vec<(&str, i64)> {
    let storage = set.storage.iter();
    let mut parts: Vec<_> = storage.map(|one| (one.name.as_str(), one.allocation_count)).collect();
    if set.label == "mgtmdt"
        && let Some((rabbit, count @ 2..)) = parts.first().copied()
    {
        parts.splice(..1, [(rabbit, 1), (rabbit, count - 1)]);
    }
    parts
}

/// Which compute uses which allocation. A compute that has one keeps it, whatever is ready first; the others get the first that
/// is free on their rabbit, in the job's order. As long as there is a mount of an allocation, nobody else gets it: whoever left
/// the job may have it mounted, and may come back.
///
/// # Errors
/// When a compute has none, or it cannot be told which are free.
pub fn assigned<'a>(
    site: &Site,
    group: &Group,
    allocations: &[Allocation],
    computes: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<&'a str, Slot>, api::ResourceError> {
    let mut named = BTreeSet::new();
    let computes: Vec<&str> = computes.filter(|compute| named.insert(*compute)).collect();
    let kept: BTreeMap<String, Slot> =
        group.mounts.values().filter_map(|mount| kept(mount)).collect();
    let taken: BTreeSet<&Slot> = kept.values().collect();
    let mut free: BTreeMap<&str, std::vec::IntoIter<Slot>> = slots_of_rabbits(allocations);
    let mut first_free = |compute: &str| {
        let rabbit = site.rabbit_of.get(compute).ok_or_else(|| no_rabbit(compute))?;
        if let Some(error) = unreadable(group.unreadable.iter()) {
            return Err(error);
        }
        let slots = free.get_mut(rabbit.as_str());
        let slot = slots.and_then(|slots| slots.find(|slot| !taken.contains(slot)));
        let former = || mount_of_former_compute(group, rabbit, &computes);
        slot.ok_or_else(|| too_few(compute, rabbit, allocations, former()))
    };
    let one = |compute: &&'a str| {
        let slot = kept.get(*compute).cloned().map_or_else(|| first_free(compute), Ok)?;
        Ok((*compute, slot))
    };
    computes.iter().map(one).collect()
}

/// The mount on a rabbit's storage of a compute that is not in the job any more.
fn mount_of_former_compute<'a>(
    group: &'a Group,
    rabbit: &str,
    computes: &[&str],
) -> Option<&'a ClientMount> {
    let mut mounts = group.mounts.values().filter(|mount| {
        let is_here = kept(mount).is_some_and(|(_, slot)| slot.rabbit == rabbit);
        is_here && !computes.contains(&mount.spec.node.as_str())
    });
    mounts.next().map(|mount| &**mount)
}

/// The compute of a mount, and the allocation that it has.
fn kept(mount: &ClientMount) -> Option<(String, Slot)> {
    if !mount.name_any().ends_with("-computes") {
        return None;
    }
    Some((mount.spec.node.clone(), slot(mount.spec.mounts.first()?)?))
}

/// The allocation that is mounted.
pub fn slot(mount: &ClientMountInfo) -> Option<Slot> {
    let reference = mount.device.device_reference.as_ref()?;
    Some(Slot {
        rabbit: reference.object_reference.namespace.clone()?,
        name: reference.object_reference.name.clone()?,
        index: reference.allocation_index(),
    })
}

/// All allocations of each rabbit, in order.
fn slots_of_rabbits(allocations: &[Allocation]) -> BTreeMap<&str, std::vec::IntoIter<Slot>> {
    let mut of: BTreeMap<&str, Vec<Slot>> = BTreeMap::new();
    for one in allocations {
        let slots = (0..one.count).map(|index| Slot {
            rabbit: one.rabbit.clone(),
            name: one.name.clone(),
            index,
        });
        of.entry(&one.rabbit).or_default().extend(slots);
    }
    of.into_iter().map(|(rabbit, slots)| (rabbit, slots.into_iter())).collect()
}

fn no_rabbit(compute: &str) -> api::ResourceError {
    wlm_error(format!(
        "Computes names {compute}, which no rabbit serves: name computes that SystemConfiguration default/default lists under a rabbit"
    ))
}

/// `former` has an allocation there, and its node is not in the job.
fn too_few(
    compute: &str,
    rabbit: &str,
    allocations: &[Allocation],
    former: Option<&ClientMount>,
) -> api::ResourceError {
    let count: i64 =
        allocations.iter().filter(|one| one.rabbit == rabbit).map(|one| one.count).sum();
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
