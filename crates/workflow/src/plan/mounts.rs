//! PreRun and PostRun: access for the computes, and their mounts; and the same backwards.
//!
//! Each compute is on its way by itself: it has its mount as soon as its rabbit gave it access, whatever the others do.
//! Access is withdrawn only from who has provably unmounted, or is down.

mod maker;

use std::collections::{BTreeMap, BTreeSet};

use api::{ClientMount, NnfNodeBlockStorage, ResourceError, client_mount::MountState};
use controller::ObjectKey;
use directive::{FileSystem, Jobdw};
use kube::ResourceExt;

pub use self::maker::{Maker, MountProgress};
use crate::{
    change::Change,
    names::{job_id, of_directive},
    plan::{
        allocation::{Allocation, Slot, allocations, assigned},
        checks, lustre,
        proposal::without_servers,
        setup::lost,
    },
    profile::overrides,
    progress::{Progress, transient_error, wlm_error},
    site::Site,
    view::{Group, View},
};

/// Which allocation each compute has.
pub type Slots<'a> = BTreeMap<&'a str, Slot>;

/// Which compute has which allocation.
pub fn by_slot<'a>(slots: &'a Slots<'_>) -> BTreeMap<&'a Slot, &'a str> {
    slots.iter().map(|(compute, slot)| (slot, *compute)).collect()
}

/// Mounts the storage of a directive on all computes, and shows it on its rabbits where they may have it mounted too.
pub fn mounted(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let group = &view.directives[index].storage;
    let (progress, slots) = clients(view, index, jobdw);
    let Some(slots) = slots else { return progress };
    let still = still_mounted(view.site, group);
    let of = by_slot(&slots);
    let access = group.blocks.values().filter_map(|block| {
        access(block, |allocation| {
            let mut of = granted(block, allocation, &of);
            // A compute that left Computes keeps access until it has unmounted. While a mount cannot be read, nobody loses access.
            let others = if group.unreadable.is_empty() {
                kept(block, allocation, &still)
            } else {
                block.spec.allocations[allocation].access.clone()
            };
            of.extend(others.into_iter().filter(|node| !slots.contains_key(node.as_str())));
            of
        })
    });
    progress.with(access)
}

/// The mounts of a directive's storage, without access to it; and which computes are to have which access, unless that cannot be
/// said.
pub fn clients<'a>(
    view: &'a View<'_>,
    index: usize,
    jobdw: &Jobdw,
) -> (Progress, Option<Slots<'a>>) {
    let group = &view.directives[index].storage;
    let Some(servers) = &group.servers else {
        let servers = (view.namespace(), of_directive(&view.workflow, index));
        return (without_servers(view.site, &servers), None);
    };
    if let Err(error) = servers.spec.allocation_sets.iter().try_for_each(checks::counts) {
        return (Progress::failed(error), None);
    }
    let all = allocations(servers);
    if let Some(error) = lost(group, &all) {
        return (Progress::failed(error), None);
    }
    if jobdw.file_system == FileSystem::Lustre {
        // Its clients come over the network: nobody needs access to a device.
        return (lustre::mounts::mounted(view, index, servers, &all), Some(Slots::new()));
    }
    if !all.is_empty() && view.computes().next().is_none() {
        let error = wlm_error(
            "Computes names no compute, and each allocation of Servers is for one: fill Computes with the job's computes",
        );
        return (Progress::failed(error), None);
    }
    let slots = match assigned(view.site, group, &all, view.computes()) {
        Ok(slots) => slots,
        Err(error) => return (Progress::failed(error), None),
    };
    let maker = Maker { view, index, file_system: jobdw.file_system, group };
    let of = by_slot(&slots);
    let computes = slots.iter().map(|(compute, slot)| maker.compute(compute, slot));
    // An XFS is mounted by one node at a time. A rabbit that serves none of the computes has nothing to show.
    let is_shared = jobdw.file_system != FileSystem::Xfs;
    let used: BTreeSet<&str> = slots.values().map(|slot| slot.rabbit.as_str()).collect();
    let rabbits =
        rabbits(&all).into_iter().filter(|(rabbit, _)| is_shared && used.contains(rabbit));
    let rabbits = rabbits.map(|(rabbit, here)| maker.rabbit(rabbit, &here, &of));
    let waited = computes.chain(rabbits).fold(MountProgress::default(), MountProgress::and);
    (waited.progress(group, "mount on"), Some(slots))
}

/// Unmounts it everywhere, and withdraws access.
pub fn unmounted(site: &Site, group: &Group) -> Progress {
    unmounts(site, group).and(withdrawn(site, group))
}

/// Unmounts it everywhere.
pub fn unmounts(site: &Site, group: &Group) -> Progress {
    let mut changes: Vec<Change> = Vec::new();
    let mut waited = MountProgress::default();
    // Also sets Unmounted for down nodes, for when they come back, without waiting for them.
    for mount in group.mounts.values().filter(|mount| !says_unmounted(mount)) {
        changes.extend(desire(mount, MountState::Unmounted));
        if !site.is_down(&mount.spec.node) {
            waited.nodes.insert(mount.spec.node.clone());
        }
    }
    waited.progress(group, "unmount on").with(changes)
}

/// What is to be done about an object that cannot be read.
pub fn unreadable<'a>(mut places: impl Iterator<Item = &'a ObjectKey>) -> Option<ResourceError> {
    let (namespace, name) = places.next()?;
    Some(transient_error(format!(
        "{namespace}/{name} cannot be read, and may ask for a mount: nothing is withdrawn or removed; correct the object or delete it"
    )))
}

/// Access of those that may still have something mounted, and of nobody else.
pub fn withdrawn(site: &Site, group: &Group) -> Progress {
    if let Some(error) = unreadable(group.unreadable.iter()) {
        return Progress::failed(error);
    }
    let still = still_mounted(site, group);
    let mut progress = Progress::default();
    for block in group.blocks.values() {
        let change = access(block, |allocation| kept(block, allocation, &still));
        progress = progress.with(change);
        let rabbit = block.namespace().unwrap_or_default();
        if still.is_empty() && !is_alone(block, &rabbit) && !is_going(block) {
            progress =
                progress.and(Progress::wait(format!("withdrawal of computes' access on {rabbit}")));
        }
    }
    progress
}

/// Whether somebody deleted it: its agent takes all access away, and asks no list.
pub fn is_going(block: &NnfNodeBlockStorage) -> bool {
    block.metadata.deletion_timestamp.is_some()
}

/// Nodes that may have something of it mounted.
pub fn still_mounted<'a>(site: &Site, group: &'a Group) -> BTreeSet<&'a str> {
    let mounts = group.mounts.values().filter(|mount| !is_unmounted(site, mount));
    mounts.map(|mount| mount.spec.node.as_str()).collect()
}

/// Of the nodes that an allocation is given to, those that may have it mounted.
pub fn kept(block: &NnfNodeBlockStorage, allocation: usize, still: &BTreeSet<&str>) -> Vec<String> {
    let now = block.spec.allocations.get(allocation).map(|one| one.access.iter());
    now.into_iter().flatten().filter(|node| still.contains(node.as_str())).cloned().collect()
}

/// Whether the rabbit alone has what an object allocated.
pub fn is_alone(block: &NnfNodeBlockStorage, rabbit: &str) -> bool {
    with_access(block).all(|node| node == rabbit)
}

/// Whether a node has access to something that an object allocated.
pub fn has_access(block: &NnfNodeBlockStorage, node: &str) -> bool {
    with_access(block).any(|one| one == node)
}

/// The nodes that have access to something that an object allocated.
pub fn with_access(block: &NnfNodeBlockStorage) -> impl Iterator<Item = &String> {
    let status = block.status.iter().flat_map(|status| &status.allocations);
    status.flat_map(|one| one.accesses.keys())
}

/// Whether a node has nothing of it mounted: it says so for what is asked of it now, or it is down.
pub fn is_unmounted(site: &Site, mount: &ClientMount) -> bool {
    says_unmounted(mount) || site.is_down(&mount.spec.node)
}

/// Whether it is to be unmounted, and its node says that it has nothing of it mounted.
pub fn says_unmounted(mount: &ClientMount) -> bool {
    mount.spec.desired_state == MountState::Unmounted && mount.has_reached_desired_state()
}

/// Whether it is to be mounted, and its node says that everything of it is.
pub fn is_mounted(mount: &ClientMount) -> bool {
    mount.spec.desired_state == MountState::Mounted && mount.has_reached_desired_state()
}

/// Asks for a state; a mount that is deleted is unmounted by that already.
pub fn desire(mount: &ClientMount, state: MountState) -> Option<Change> {
    if mount.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut after = mount.clone();
    after.spec.desired_state = state;
    Change::patch(mount, &after)
}

/// Gives each allocation to its rabbit and these computes.
pub fn access(block: &NnfNodeBlockStorage, of: impl Fn(usize) -> Vec<String>) -> Option<Change> {
    let rabbit = block.namespace().unwrap_or_default();
    let access = |index| -> Vec<String> {
        let computes = of(index).into_iter().filter(|node| *node != rabbit);
        std::iter::once(rabbit.clone()).chain(computes).collect()
    };
    let allocations = &block.spec.allocations;
    let wanted: Vec<_> = (0..allocations.len()).map(access).collect();
    // Each plan of a job asks for each of its rabbits, and finds nearly all as they are to be: those are neither copied nor compared
    // as a whole.
    let is_there = allocations.iter().map(|one| &one.access).eq(&wanted);
    if is_there || is_going(block) {
        return None;
    }
    let mut after = block.clone();
    for (allocation, access) in after.spec.allocations.iter_mut().zip(wanted) {
        allocation.access = access;
    }
    Change::patch(block, &after)
}

/// The computes that an allocation is for, by their place in it.
pub fn granted(
    block: &NnfNodeBlockStorage,
    allocation: usize,
    of: &BTreeMap<&Slot, &str>,
) -> Vec<String> {
    let (rabbit, name) = (block.namespace().unwrap_or_default(), block.name_any());
    let slot = |index| Slot { rabbit: rabbit.clone(), name: name.clone(), index };
    let (first, last) = if block.spec.shared_allocation {
        (slot(i64::MIN), slot(i64::MAX))
    } else {
        let Ok(index) = i64::try_from(allocation) else { return Vec::new() };
        (slot(index), slot(index))
    };
    of.range::<Slot, _>(&first..=&last).map(|(_, compute)| (*compute).to_owned()).collect()
}

/// The allocations of each rabbit.
fn rabbits(all: &[Allocation]) -> BTreeMap<&str, Vec<&Allocation>> {
    let mut of: BTreeMap<&str, Vec<&Allocation>> = BTreeMap::new();
    for one in all {
        of.entry(&one.rabbit).or_default().push(one);
    }
    of
}

/// Where computes see the storage of a directive.
pub fn path(view: &View<'_>, index: usize, file_system: FileSystem) -> String {
    let workflow = &view.workflow;
    let own = view.directives[index].storage.profile.as_ref();
    let given = own.and_then(|profile| overrides(profile, file_system).get("$MOUNT_PATH"));
    let Some(given) = given else {
        let uid = workflow.uid().unwrap_or_default();
        return format!("{}/{uid}-{index}", view.site.settings.mount_root);
    };
    // The longest name first: none of them is the beginning of another, should more come.
    let variables = [
        ("$DIRECTIVE_INDEX", index.to_string()),
        ("$WORKFLOW_UID", workflow.uid().unwrap_or_default()),
        ("$GROUPID", workflow.spec.group_id.to_string()),
        ("$USERID", workflow.spec.user_id.to_string()),
        ("$JOBID", job_id(workflow)),
    ];
    variables.into_iter().fold(given.clone(), |path, (name, value)| path.replace(name, &value))
}
