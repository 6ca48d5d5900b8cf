//! Teardown: removes everything from the nodes, in an order that takes no data and no device away from a mount.
//!
//! Access is withdrawn only after ClientMounts are gone or provably unmounted; storage is removed only when its
//! rabbit alone has access.

use std::collections::BTreeSet;

use api::{ClientMount, NnfNodeBlockStorage, names::finalizer};
use controller::{ObjectKey, has_finalizer};
use kube::ResourceExt;

use crate::{
    change::Change,
    names::WORKFLOW_FINALIZER,
    objects::{
        block::{is_alone, is_deleted},
        mount::is_unmounted,
        site::Site,
        view::{Group, View},
    },
    plan::{lustre, mounts::withdraw_access, without_finalizer},
    progress::{Outcome, Progress},
};

/// Removes the objects of a storage from nodes.
pub fn remove_group(site: &Site, group: &Group) -> Progress {
    let mut changes: Vec<Change> =
        remove_mounts(site, group.mounts.values().map(|mount| &**mount)).changes;
    let withdrawn = withdraw_access(site, group);
    if !group.unreadable.is_empty() {
        return withdrawn.with(changes);
    }
    if group.mounts.values().all(|mount| is_unmounted(site, mount)) {
        if lustre::teardown::is_needed(group) {
            let next = lustre::teardown::remove_next(group);
            return removal_progress(group).and(next).with(withdrawn.changes).with(changes);
        }
        let all = group.blocks.keys().chain(group.file_systems.keys()).collect::<BTreeSet<_>>();
        changes.extend(all.into_iter().flat_map(|at| remove_allocation(group, at)));
    }
    removal_progress(group).with(withdrawn.changes).with(changes)
}

/// Deletes a file system and its block storage, once no other node has access.
pub fn remove_allocation(group: &Group, at: &ObjectKey) -> Vec<Change> {
    let (block, file_system) = (group.blocks.get(at), group.file_systems.get(at));
    if block.is_some_and(|block| !is_deleted(block) && !is_withdrawn(block, &at.0)) {
        return Vec::new();
    }
    let block = block.and_then(|block| Change::delete(&**block));
    block.into_iter().chain(file_system.and_then(|storage| Change::delete(&**storage))).collect()
}

/// Unmounts by deleting the ClientMounts.
pub fn remove_mounts<'a>(site: &Site, mounts: impl Iterator<Item = &'a ClientMount>) -> Progress {
    let mut progress = Progress::default();
    for mount in mounts {
        let waits = Progress::wait_on("removal on", [&*mount.spec.node]);
        progress = progress
            .and(waits.with(Change::delete(mount)).with(release_mount_of_down_node(site, mount)));
    }
    progress
}

/// Returns true if no node but the rabbit has access, and `access` of each allocation lists at most one node.
fn is_withdrawn(block: &NnfNodeBlockStorage, rabbit: &str) -> bool {
    is_alone(block, rabbit)
        && block.spec.allocations.iter().all(|allocation| allocation.access.len() <= 1)
}

/// Waits for the objects of a storage that still exist, or returns the error that blocks their removal.
pub fn removal_progress(group: &Group) -> Progress {
    if group.is_gone() {
        return Progress::default();
    }
    // An error from before the deletion of an object says nothing about its removal.
    if let Some(error) = group.error_of(|object| object.deletion_timestamp.is_some()) {
        return Progress::failed(error);
    }
    let nodes: BTreeSet<&str> = group
        .mounts
        .keys()
        .chain(group.file_systems.keys())
        .chain(group.blocks.keys())
        .chain(group.mgts.keys())
        .chain(group.pools.keys())
        .map(|(node, _)| node.as_str())
        .collect();
    Progress::wait_on("removal on", nodes)
}

/// Takes the finalizer off a deleted mount of a node that is down, because the node's agent cannot do so. When the node
/// comes back, its agent unmounts every mount that no object names.
fn release_mount_of_down_node(site: &Site, mount: &ClientMount) -> Option<Change> {
    let is_waited_for = mount.metadata.deletion_timestamp.is_some()
        && has_finalizer(mount, finalizer::CLIENT_MOUNT);
    let is_down = is_waited_for && site.is_down(&mount.spec.node);
    is_down.then(|| without_finalizer(mount, finalizer::CLIENT_MOUNT)).flatten()
}

/// Takes the engine's finalizer off a Servers whose storage is gone.
pub fn release_servers(group: &Group) -> Option<Change> {
    let servers = group.servers.as_ref().filter(|_| is_held(group))?;
    debug_assert!(group.is_gone(), "{}: its volumes still exist", servers.name_any());
    without_finalizer(&**servers, finalizer::SERVERS)
}

/// Returns true if the Servers has the engine's finalizer.
pub fn is_held(group: &Group) -> bool {
    group.servers.as_ref().is_some_and(|servers| has_finalizer(&**servers, finalizer::SERVERS))
}

/// Takes the finalizer off a deleted workflow, once nothing of the workflow is left on any node.
pub fn release_workflow(view: &View<'_>, outcomes: &[Outcome]) -> Vec<Change> {
    let is_gone = outcomes.iter().all(|outcome| *outcome == Outcome::Done)
        && view.leftovers.is_empty()
        && view.orphans.is_empty();
    if !is_gone {
        return Vec::new();
    }
    let own = view.directives.iter().filter(|directive| directive.persistent.is_none());
    let groups = own.map(|directive| &directive.storage);
    let servers: Vec<Change> = groups.flat_map(release_servers).collect();
    if servers.is_empty() {
        without_finalizer(&*view.workflow, WORKFLOW_FINALIZER).into_iter().collect()
    } else {
        servers
    }
}
