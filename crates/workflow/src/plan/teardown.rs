//! Teardown: everything on nodes goes, in an order that no data and no device is pulled from under a mount.
//!
//! ClientMounts are unmounted and gone, or provably unmounted, before any access is withdrawn; storage goes only when its rabbit
//! alone has it.

use std::collections::BTreeSet;

use api::{ClientMount, NnfNodeBlockStorage, names::finalizer};
use controller::{ObjectKey, has_finalizer};
use kube::ResourceExt;

use crate::{
    change::Change,
    names::{SERVERS_FINALIZER, WORKFLOW_FINALIZER},
    plan::{
        lustre,
        mounts::{is_alone, is_going, is_unmounted, withdrawn},
        without_finalizer,
    },
    progress::{Outcome, Progress, some_of},
    site::Site,
    view::{Group, View},
};

/// Removes what a group has on nodes.
pub fn group(site: &Site, group: &Group) -> Progress {
    let mut changes: Vec<Change> = mounts(site, group.mounts.values().map(|one| &**one)).changes;
    let withdrawn = withdrawn(site, group);
    if !group.unreadable.is_empty() {
        return withdrawn.with(changes);
    }
    if group.mounts.values().all(|mount| is_unmounted(site, mount)) {
        if lustre::teardown::is_needed(group) {
            let next = lustre::teardown::next(group);
            return progress(group).and(next).with(withdrawn.changes).with(changes);
        }
        let all = group.blocks.keys().chain(group.file_systems.keys()).collect::<BTreeSet<_>>();
        changes.extend(all.into_iter().flat_map(|at| removed(group, at)));
    }
    progress(group).with(withdrawn.changes).with(changes)
}

/// What a rabbit made goes, file systems and their devices, once nobody else has access.
pub fn removed(group: &Group, at: &ObjectKey) -> Vec<Change> {
    let (block, file_system) = (group.blocks.get(at), group.file_systems.get(at));
    if block.is_some_and(|block| !is_going(block) && !is_withdrawn(block, &at.0)) {
        return Vec::new();
    }
    let block = block.and_then(|block| Change::delete(&**block));
    block.into_iter().chain(file_system.and_then(|one| Change::delete(&**one))).collect()
}

/// Unmounts, by deleting the mounts.
pub fn mounts<'a>(site: &Site, mounts: impl Iterator<Item = &'a ClientMount>) -> Progress {
    let mut progress = Progress::default();
    for mount in mounts {
        let waits = Progress::wait(format!("removal on {}", mount.spec.node));
        progress = progress.and(waits.with(Change::delete(mount)).with(given_up(site, mount)));
    }
    progress
}

/// Whether the rabbit alone may have it, and does.
fn is_withdrawn(block: &NnfNodeBlockStorage, rabbit: &str) -> bool {
    is_alone(block, rabbit) && block.spec.allocations.iter().all(|one| one.access.len() <= 1)
}

/// What is still there, and why.
pub fn progress(group: &Group) -> Progress {
    if group.is_gone() {
        return Progress::default();
    }
    // An error from before somebody deleted the object is not about its end.
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
    Progress::wait(format!("removal on {}", some_of(nodes)))
}

/// The agent of a node that is down takes no finalizer off. When the node comes back, its agent cleans up what no object names.
fn given_up(site: &Site, mount: &ClientMount) -> Option<Change> {
    let is_waited_for = mount.metadata.deletion_timestamp.is_some()
        && has_finalizer(mount, finalizer::CLIENT_MOUNT);
    let is_down = is_waited_for && site.is_down(&mount.spec.node);
    is_down.then(|| without_finalizer(mount, finalizer::CLIENT_MOUNT)).flatten()
}

/// Lets go of a Servers whose storage is gone.
pub fn release_servers(group: &Group) -> Option<Change> {
    let servers = group.servers.as_ref().filter(|_| is_held(group))?;
    debug_assert!(group.is_gone(), "{}: volumes are named after it", servers.name_any());
    without_finalizer(&**servers, SERVERS_FINALIZER)
}

/// Whether Servers still holds volumes' names.
pub fn is_held(group: &Group) -> bool {
    group.servers.as_ref().is_some_and(|servers| has_finalizer(&**servers, SERVERS_FINALIZER))
}

/// Lets a deleted workflow go, once nothing of it is left on any node.
pub fn release(view: &View<'_>, outcomes: &[Outcome]) -> Vec<Change> {
    let is_gone = outcomes.iter().all(|outcome| *outcome == Outcome::Done)
        && view.leftovers.is_empty()
        && view.left.is_empty();
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
