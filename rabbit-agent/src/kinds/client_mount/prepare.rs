//! Determines the work for a ClientMount before its pass. Does no I/O.

use agent::{
    desired::{self, Goal, MountUnits, ReferenceError},
    error::Failure,
    reconcile::{DroppedUnits, mount_points_of},
    site::Site,
    targets::{Requester, TargetsInUse},
};
use api::{ClientMount, client_mount::ClientMountDeviceReference};
use storage::desired::{MountPoint, NamespaceId};

use crate::{core::Cache, kinds::node_storage::desired::namespaces};

/// The work for a ClientMount.
#[derive(Debug)]
pub enum Work {
    Units(MountUnits),
    Refuse(Goal, Failure),
    /// The object asks for an unmount but was never mounted: its mount points are reserved for another object.
    NeverMounted,
}

/// Returns the units of an object: the mounts to make or remove. Does no I/O.
pub fn units(
    object: &ClientMount,
    goal: Goal,
    cache: &Cache,
    site: &Site,
) -> Result<MountUnits, Failure> {
    let profile = cache.profile(object).map_err(|why| why.to_string());
    let profile = profile.as_ref().map(|profile| &**profile).map_err(String::as_str);
    let references = |reference: &ClientMountDeviceReference| namespaces_of(reference, cache, site);
    desired::units(object, goal, profile, &references, site).map_err(|error| Failure::from(&error))
}

/// Returns the namespaces behind a reference: those of the referenced allocation in the block storage of that name. A
/// shared block storage has only one allocation.
fn namespaces_of(
    reference: &ClientMountDeviceReference,
    cache: &Cache,
    site: &Site,
) -> Result<Vec<NamespaceId>, ReferenceError> {
    let not_ready = |why: String| ReferenceError::NotReady(why);
    let name = reference.object_reference.name.as_deref().unwrap_or_default();
    let namespace = reference.object_reference.namespace.as_deref().unwrap_or_default();
    if namespace != site.node.as_str() {
        return Err(not_ready(format!(
            "{namespace}/{name} is not on this rabbit: refer to an object in namespace {}",
            site.node
        )));
    }
    let block = cache.block_storage(name);
    let block = block.ok_or_else(|| {
        not_ready(format!("NnfNodeBlockStorage {namespace}/{name} does not exist"))
    })?;
    let index = usize::try_from(reference.allocation_index()).unwrap_or(usize::MAX);
    let place = if block.spec.shared_allocation { 0 } else { index };
    let found = namespaces(block, place).map_err(|error| not_ready(daemon::chain(&error)))?;
    if found.is_empty() {
        return Err(not_ready(format!(
            "NnfNodeBlockStorage {namespace}/{name} has no devices for allocation {place} yet"
        )));
    }
    Ok(found)
}

/// The work for a ClientMount, determined before its pass.
#[derive(Debug)]
pub struct Prepared {
    pub work: Work,
    /// Units of the object's earlier versions, which are unmounted first.
    pub dropped: DroppedUnits,
    /// Uids of other objects that this preparation brought into a conflict over mount points, or freed from one.
    pub moved: Vec<String>,
}

fn dropped(object: &ClientMount, cache: &Cache, site: &Site) -> DroppedUnits {
    let versions =
        cache.dropped.of_object(object.metadata.uid.as_deref().unwrap_or_default()).iter();
    let units = |version: &ClientMount| units(version, Goal::Unmounted, cache, site);
    versions.map(|version| (version.clone(), units(version))).collect()
}

pub fn former_points(object: &ClientMount, cache: &Cache, site: &Site) -> Vec<MountPoint> {
    mount_points_of(&dropped(object, cache, site)).cloned().collect()
}

/// Records the version before a change, with the mounts that may exist for it.
pub fn record_change(
    before: &ClientMount,
    after: &ClientMount,
    cache: &mut Cache,
    site: &Site,
    targets_in_use: &TargetsInUse,
) {
    let uid = before.metadata.uid.clone().unwrap_or_default();
    let units = units(before, Goal::Unmounted, cache, site).ok();
    let had = |place: usize| {
        let mount = units.as_ref().and_then(|units| units.mounts.get(place)?.as_ref().ok());
        mount.is_some_and(|mount| !targets_in_use.belongs_to_other(&uid, &mount.target))
    };
    cache.dropped.record_change(before, Some(after), had);
}

/// Reserves the mount points of every object.
pub fn prepare_all(cache: &Cache, site: &Site, targets_in_use: &mut TargetsInUse) {
    let mounts: Vec<_> = cache.client_mounts.iter().cloned().collect();
    for mount in mounts {
        prepare(&mount, cache, site, targets_in_use);
    }
}

/// Reserves the object's mount points, and determines its work.
pub fn prepare(
    object: &ClientMount,
    cache: &Cache,
    site: &Site,
    targets_in_use: &mut TargetsInUse,
) -> Prepared {
    match Goal::of(object) {
        Ok(goal) => prepare_for(object, goal, cache, site, targets_in_use),
        Err(error) => {
            let work = Work::Refuse(Goal::Mounted, Failure::from(&error));
            Prepared { work, dropped: Vec::new(), moved: Vec::new() }
        }
    }
}

/// Determines an object's work for this goal, which may differ from the goal in the object's spec: an object that
/// disappeared is unmounted.
pub fn prepare_for(
    object: &ClientMount,
    goal: Goal,
    cache: &Cache,
    site: &Site,
    targets_in_use: &mut TargetsInUse,
) -> Prepared {
    let requester = Requester::new(object);
    let uid = requester.uid.clone();
    let dropped = dropped(object, cache, site);
    let points: Vec<_> = mount_points_of(&dropped).cloned().collect();
    // While an object is invalid, its earlier mounts stay, unless the goal is to unmount them.
    let nothing = |goal| if goal == Goal::Unmounted { dropped.clone() } else { Vec::new() };
    let units = match units(object, goal, cache, site) {
        Ok(units) => units,
        Err(failure) => {
            let moved = targets_in_use.set(requester, goal, Vec::new(), points);
            let work = Work::Refuse(goal, failure);
            return Prepared { work, dropped: nothing(goal), moved };
        }
    };
    if units.are_refused() {
        let moved = targets_in_use.set(requester, goal, Vec::new(), points);
        return Prepared { work: Work::Units(units), dropped: nothing(goal), moved };
    }
    let mut moved = targets_in_use.set(
        requester.clone(),
        goal,
        units.mount_points().cloned().collect(),
        points.clone(),
    );
    if targets_in_use.owns_nothing(&uid) {
        moved.extend(targets_in_use.set(requester, goal, Vec::new(), points));
        return Prepared { work: Work::NeverMounted, dropped, moved };
    }
    let work = match targets_in_use.conflict(&uid) {
        Some(conflict) => Work::Refuse(goal, Failure::from(&conflict)),
        None => Work::Units(units),
    };
    Prepared { work, dropped, moved }
}
