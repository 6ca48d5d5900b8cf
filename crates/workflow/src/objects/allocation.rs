//! The allocations that a Servers asks for.

use std::collections::BTreeMap;

use api::{Servers, client_mount::ClientMountInfo, servers::ServersAllocationSet};
use directive::{breakdown::Label, capacity::LUSTRE_LEAST};
use kube::ResourceExt;

/// Allocations of equal size on one rabbit, described by one NnfNodeBlockStorage and one NnfNodeStorage.
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

/// One allocation, which is assigned to one compute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Name of the rabbit.
    pub rabbit: String,
    /// Name of the NnfNodeStorage.
    pub name: String,
    /// Index of the allocation in that NnfNodeStorage.
    pub index: i64,
}

/// Returns the bytes of each allocation of a set. For a Lustre target these are at least [`LUSTRE_LEAST`], because
/// mkfs fails with fewer.
pub fn bytes_of(set: &ServersAllocationSet) -> i64 {
    let least = i64::try_from(LUSTRE_LEAST).unwrap_or(i64::MAX);
    if is_lustre(&set.label) { set.allocation_size.max(least) } else { set.allocation_size }
}

/// Returns the bytes of all allocations that a Servers asks for.
pub fn total_bytes(servers: &Servers) -> i64 {
    let sets = servers.spec.allocation_sets.iter();
    let parts = sets.flat_map(|set| set.storage.iter().map(move |part| (set, part)));
    let bytes = parts.map(|(set, part)| bytes_of(set).saturating_mul(part.allocation_count));
    bytes.fold(0, i64::saturating_add)
}

/// Returns the rabbit on which a Servers places the management server of its Lustre.
pub fn mgs_rabbit(servers: &Servers) -> Option<&str> {
    let mut sets = servers.spec.allocation_sets.iter();
    let set = sets.find(|set| matches!(set.label.as_str(), "mgt" | "mgtmdt"))?;
    Some(&set.storage.first()?.name)
}

/// Returns the allocations that a Servers asks for, in the order of the Servers. A rabbit that occurs twice in one
/// set gets two pairs of objects.
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

/// Returns rabbit and count of each part of a set. The first allocation of a `mgtmdt` set is a separate part: this
/// allocation becomes the management server, and the other allocations serve metadata only.
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

/// Returns the allocation that a mount refers to.
pub fn slot(mount: &ClientMountInfo) -> Option<Slot> {
    let reference = mount.device.device_reference.as_ref()?;
    Some(Slot {
        rabbit: reference.object_reference.namespace.clone()?,
        name: reference.object_reference.name.clone()?,
        index: reference.allocation_index(),
    })
}

/// Returns true if sets with this label have Lustre targets.
#[must_use]
pub fn is_lustre(label: &str) -> bool {
    matches!(Label::from_text(label), Some(Label::Mgt | Label::Mdt | Label::MgtMdt | Label::Ost))
}
