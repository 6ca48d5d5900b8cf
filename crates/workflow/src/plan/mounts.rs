//! PreRun: gives computes access to the storage and mounts it on them. PostRun: unmounts it and withdraws the access.
//!
//! Each compute proceeds by itself: it mounts as soon as its rabbit has given it access, and waits for no other
//! compute. Access is withdrawn only from nodes that have provably unmounted, or are down.

mod maker;

use std::collections::{BTreeMap, BTreeSet};

use api::{ClientMount, NnfNodeBlockStorage, ResourceError, client_mount::MountState};
use controller::ObjectKey;
use directive::{FileSystem, Jobdw};
use kube::ResourceExt;

pub use self::maker::{MountMaker, MountProgress};
use crate::{
    change::Change,
    names::directive_object_name,
    objects::{
        allocation::{Allocation, Slot, allocations},
        block::{is_alone, is_deleted},
        mount::{is_unmounted, says_unmounted},
        site::Site,
        view::{Group, View},
    },
    plan::{
        assign::assign, checks, lustre, proposal::wait_for_servers, storage::deleted_storage_error,
    },
    progress::{Progress, transient_error, wlm_error},
};

/// The allocation of each compute.
pub type Slots<'a> = BTreeMap<&'a str, Slot>;

/// Inverts the map: returns the compute of each allocation.
pub fn by_slot<'a>(slots: &'a Slots<'_>) -> BTreeMap<&'a Slot, &'a str> {
    slots.iter().map(|(compute, slot)| (slot, *compute)).collect()
}

/// Mounts a directive's storage on all computes, and on its rabbits if the file system can be mounted on both.
pub fn mount_storage(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let group = &view.directives[index].storage;
    let (progress, slots) = mount_clients(view, index, jobdw);
    let Some(slots) = slots else { return progress };
    let mounted = still_mounted(view.site, group);
    let computes_of = by_slot(&slots);
    let access = group.blocks.values().filter_map(|block| {
        set_access(block, |allocation| {
            let mut nodes = computes_granted(block, allocation, &computes_of);
            // A compute that left Computes keeps access until it has unmounted. While a mount cannot be read, every
            // node keeps its access.
            let others = if group.unreadable.is_empty() {
                keep_access(block, allocation, &mounted)
            } else {
                block.spec.allocations[allocation].access.clone()
            };
            nodes.extend(others.into_iter().filter(|node| !slots.contains_key(node.as_str())));
            nodes
        })
    });
    progress.with(access)
}

/// Mounts a directive's storage without giving access to it. Also returns the allocation of each compute, or `None`
/// while the allocations are not known.
pub fn mount_clients<'a>(
    view: &'a View<'_>,
    index: usize,
    jobdw: &Jobdw,
) -> (Progress, Option<Slots<'a>>) {
    let group = &view.directives[index].storage;
    let Some(servers) = &group.servers else {
        let servers = (view.namespace(), directive_object_name(&view.workflow, index));
        return (wait_for_servers(view.site, &servers), None);
    };
    if let Err(error) = servers.spec.allocation_sets.iter().try_for_each(checks::counts) {
        return (Progress::failed(error), None);
    }
    let all = allocations(servers);
    if let Some(error) = deleted_storage_error(group, &all) {
        return (Progress::failed(error), None);
    }
    if jobdw.file_system == FileSystem::Lustre {
        // Lustre clients mount over the network and need no access to a device.
        return (lustre::mounts::mount_clients(view, index, servers, &all), Some(Slots::new()));
    }
    if !all.is_empty() && view.computes().next().is_none() {
        let error = wlm_error(
            "Computes names no compute, and each allocation of Servers is for one: fill Computes with the job's computes",
        );
        return (Progress::failed(error), None);
    }
    let slots = match assign(view.site, group, &all, view.computes()) {
        Ok(slots) => slots,
        Err(error) => return (Progress::failed(error), None),
    };
    if jobdw.file_system == FileSystem::Xfs
        && let Some(progress) = unmount_rabbits(group, &all)
    {
        return (progress, None);
    }
    let maker = MountMaker { view, index, file_system: jobdw.file_system, group };
    let computes_of = by_slot(&slots);
    let computes = slots.iter().map(|(compute, slot)| maker.mount_on_compute(compute, slot));
    // Only one node may mount an XFS at a time. On a rabbit that serves none of the computes nothing is mounted.
    let is_shared = jobdw.file_system != FileSystem::Xfs;
    let used: BTreeSet<&str> = slots.values().map(|slot| slot.rabbit.as_str()).collect();
    let rabbits = allocations_by_rabbit(&all)
        .into_iter()
        .filter(|(rabbit, _)| is_shared && used.contains(rabbit));
    let rabbits = rabbits.map(|(rabbit, here)| maker.mount_on_rabbit(rabbit, &here, &computes_of));
    let waited = computes.chain(rabbits).fold(MountProgress::default(), MountProgress::and);
    (waited.progress(group, "mount on"), Some(slots))
}

/// Unmounts an XFS on its rabbits, which copied data into it; `None` once no rabbit has it mounted.
fn unmount_rabbits(group: &Group, all: &[Allocation]) -> Option<Progress> {
    let is_rabbit = |node: &str| all.iter().any(|allocation| allocation.rabbit == node);
    let mounts = group.mounts.values().filter(|mount| is_rabbit(&mount.spec.node));
    let mounted: Vec<_> = mounts.filter(|mount| !says_unmounted(mount)).collect();
    let rabbits = mounted.iter().map(|mount| mount.spec.node.as_str());
    let wait = Progress::wait_on("unmount on", rabbits);
    let changes = mounted.iter().filter_map(|mount| desire(mount, MountState::Unmounted));
    (!mounted.is_empty()).then(|| wait.with(changes))
}

/// Unmounts a storage everywhere, and withdraws access.
pub fn unmount_and_withdraw(site: &Site, group: &Group) -> Progress {
    unmount_all(site, group).and(withdraw_access(site, group))
}

/// Unmounts a storage everywhere.
pub fn unmount_all(site: &Site, group: &Group) -> Progress {
    let mut changes: Vec<Change> = Vec::new();
    let mut waited = MountProgress::default();
    // The desired state of mounts changes also on nodes that are down, so that these nodes unmount when they come
    // back. The plan does not wait for these nodes.
    for mount in group.mounts.values().filter(|mount| !says_unmounted(mount)) {
        changes.extend(desire(mount, MountState::Unmounted));
        if !site.is_down(&mount.spec.node) {
            waited.nodes.insert(mount.spec.node.clone());
        }
    }
    waited.progress(group, "unmount on").with(changes)
}

/// Returns the error for the first object that cannot be read.
pub fn unreadable_error<'a>(
    mut places: impl Iterator<Item = &'a ObjectKey>,
) -> Option<ResourceError> {
    let (namespace, name) = places.next()?;
    Some(transient_error(format!(
        "{namespace}/{name} cannot be read, and may ask for a mount: correct or delete the object; until then no access is withdrawn and nothing is removed"
    )))
}

/// Withdraws the access of all nodes, except nodes that may still have the storage mounted.
pub fn withdraw_access(site: &Site, group: &Group) -> Progress {
    if let Some(error) = unreadable_error(group.unreadable.iter()) {
        return Progress::failed(error);
    }
    let mounted = still_mounted(site, group);
    let mut progress = Progress::default();
    for block in group.blocks.values() {
        let change = set_access(block, |allocation| keep_access(block, allocation, &mounted));
        progress = progress.with(change);
        let rabbit = block.namespace().unwrap_or_default();
        if mounted.is_empty() && !is_alone(block, &rabbit) && !is_deleted(block) {
            progress =
                progress.and(Progress::wait_on("withdrawal of computes' access on", [&*rabbit]));
        }
    }
    progress
}

/// Returns the nodes that may have the storage mounted.
pub fn still_mounted<'a>(site: &Site, group: &'a Group) -> BTreeSet<&'a str> {
    let mounts = group.mounts.values().filter(|mount| !is_unmounted(site, mount));
    mounts.map(|mount| mount.spec.node.as_str()).collect()
}

/// Returns the nodes in an allocation's `access` that may have the storage mounted.
pub fn keep_access(
    block: &NnfNodeBlockStorage,
    allocation: usize,
    mounted: &BTreeSet<&str>,
) -> Vec<String> {
    let now = block.spec.allocations.get(allocation).map(|allocation| allocation.access.iter());
    now.into_iter().flatten().filter(|node| mounted.contains(node.as_str())).cloned().collect()
}

/// Sets the desired state of a mount; `None` for a deleted mount, whose agent unmounts it anyway.
pub fn desire(mount: &ClientMount, state: MountState) -> Option<Change> {
    if mount.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut after = mount.clone();
    after.spec.desired_state = state;
    Change::patch(mount, &after)
}

/// Gives access to each allocation of a block storage: to the rabbit, and to the nodes that `computes_of` returns
/// for the allocation's index.
pub fn set_access(
    block: &NnfNodeBlockStorage,
    computes_of: impl Fn(usize) -> Vec<String>,
) -> Option<Change> {
    let rabbit = block.namespace().unwrap_or_default();
    let access = |index| -> Vec<String> {
        let computes = computes_of(index).into_iter().filter(|node| *node != rabbit);
        std::iter::once(rabbit.clone()).chain(computes).collect()
    };
    let allocations = &block.spec.allocations;
    let access_lists: Vec<_> = (0..allocations.len()).map(access).collect();
    // Each plan calls this function for each rabbit of the job, and the access is almost always right already: skip
    // copying and comparing whole objects.
    let is_there = allocations.iter().map(|allocation| &allocation.access).eq(&access_lists);
    if is_there || is_deleted(block) {
        return None;
    }
    let mut after = block.clone();
    for (allocation, access) in after.spec.allocations.iter_mut().zip(access_lists) {
        allocation.access = access;
    }
    Change::patch(block, &after)
}

/// Returns the computes to which access to an allocation is given: all computes of the block storage if its allocations
/// are shared, else the compute of this allocation.
pub fn computes_granted(
    block: &NnfNodeBlockStorage,
    allocation: usize,
    computes_of: &BTreeMap<&Slot, &str>,
) -> Vec<String> {
    let (rabbit, name) = (block.namespace().unwrap_or_default(), block.name_any());
    let slot = |index| Slot { rabbit: rabbit.clone(), name: name.clone(), index };
    let (first, last) = if block.spec.shared_allocation {
        (slot(i64::MIN), slot(i64::MAX))
    } else {
        let Ok(index) = i64::try_from(allocation) else { return Vec::new() };
        (slot(index), slot(index))
    };
    computes_of.range::<Slot, _>(&first..=&last).map(|(_, compute)| (*compute).to_owned()).collect()
}

/// Groups the allocations by rabbit.
pub(crate) fn allocations_by_rabbit(all: &[Allocation]) -> BTreeMap<&str, Vec<&Allocation>> {
    let mut by_rabbit: BTreeMap<&str, Vec<&Allocation>> = BTreeMap::new();
    for allocation in all {
        by_rabbit.entry(&allocation.rabbit).or_default().push(allocation);
    }
    by_rabbit
}
