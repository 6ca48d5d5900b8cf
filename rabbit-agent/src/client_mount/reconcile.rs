//! Brings one ClientMount of this rabbit to its desired state.

use controller::{describe, has_finalizer, patch::WriteError};
use std::sync::Arc;

use agent::{
    claims::{Claimant, Claims},
    desired::{self, Goal, MountUnits, ReferenceError},
    error::Failure,
    reconcile::{self, DroppedUnits, Outcome, mount_points_of},
    report,
    site::Site,
};
use api::{ClientMount, client_mount::ClientMountDeviceReference, names::finalizer};
use kube::ResourceExt;
use storage::desired::{MountPoint, NamespaceId};

use super::{
    computes::{self, Computes},
    servers,
};
use crate::{
    cache::{Cache, NoProfile},
    failure::combined,
    node_storage::desired::namespaces,
    pass::{Context, Pass},
};

/// What to do about a ClientMount.
#[derive(Debug)]
pub enum Work {
    Units(MountUnits),
    Refuse(Goal, Failure),
    /// The object is to be unmounted but was never mounted: its mount points are another object's.
    NeverMounted,
}

/// The units of an object. Does no I/O.
pub fn units(
    object: &ClientMount,
    goal: Goal,
    cache: &Cache,
    site: &Site,
) -> Result<MountUnits, Failure> {
    let profile = cache.profile(object).map_err(|why| why.to_string());
    let profile = profile.as_ref().map(|profile| &**profile).map_err(String::as_str);
    let references = |reference: &ClientMountDeviceReference| follow(reference, cache, site);
    desired::units(object, goal, profile, &references, site).map_err(|error| Failure::from(&error))
}

/// The namespaces behind a reference: those of its allocation in the block storage of that name, the only one when it
/// is shared.
fn follow(
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

/// A ClientMount's work, determined before its pass.
#[derive(Debug)]
pub struct Prepared {
    pub work: Work,
    /// Units of its earlier versions, to be unmounted first.
    pub dropped: DroppedUnits,
    /// Uids of other objects whose claims to mount points this changed.
    pub moved: Vec<String>,
}

fn dropped(object: &ClientMount, cache: &Cache, site: &Site) -> DroppedUnits {
    let versions = cache.dropped.of(object.metadata.uid.as_deref().unwrap_or_default()).iter();
    let units = |version: &ClientMount| units(version, Goal::Unmounted, cache, site);
    versions.map(|version| (version.clone(), units(version))).collect()
}

pub fn former_points(object: &ClientMount, cache: &Cache, site: &Site) -> Vec<MountPoint> {
    mount_points_of(&dropped(object, cache, site)).cloned().collect()
}

/// Records the version before a change, with the mounts that it may have.
pub fn record_change(
    before: &ClientMount,
    after: &ClientMount,
    cache: &mut Cache,
    site: &Site,
    claims: &Claims,
) {
    let uid = before.metadata.uid.clone().unwrap_or_default();
    let units = units(before, Goal::Unmounted, cache, site).ok();
    let had = |place: usize| {
        let mount = units.as_ref().and_then(|units| units.mounts.get(place)?.as_ref().ok());
        mount.is_some_and(|mount| !claims.belongs_to_other(&uid, &mount.target))
    };
    cache.dropped.changed(before, Some(after), had);
}

/// Claims the object's mount points, and determines its work.
pub fn prepare(object: &ClientMount, cache: &Cache, site: &Site, claims: &mut Claims) -> Prepared {
    match Goal::of(object) {
        Ok(goal) => prepare_for(object, goal, cache, site, claims),
        Err(error) => {
            let work = Work::Refuse(Goal::Mounted, Failure::from(&error));
            Prepared { work, dropped: Vec::new(), moved: Vec::new() }
        }
    }
}

/// The same for a goal that the object does not name: the mounts of a disappeared object are to be unmounted.
pub fn prepare_for(
    object: &ClientMount,
    goal: Goal,
    cache: &Cache,
    site: &Site,
    claims: &mut Claims,
) -> Prepared {
    let claimant = Claimant::of(object);
    let uid = claimant.uid.clone();
    let dropped = dropped(object, cache, site);
    let points: Vec<_> = mount_points_of(&dropped).cloned().collect();
    // While an object is invalid its earlier mounts stay, unless it is to be unmounted.
    let nothing = |goal| if goal == Goal::Unmounted { dropped.clone() } else { Vec::new() };
    let units = match units(object, goal, cache, site) {
        Ok(units) => units,
        Err(failure) => {
            let moved = claims.set(claimant, goal, Vec::new(), points);
            let work = Work::Refuse(goal, failure);
            return Prepared { work, dropped: nothing(goal), moved };
        }
    };
    if units.refused() {
        let moved = claims.set(claimant, goal, Vec::new(), points);
        return Prepared { work: Work::Units(units), dropped: nothing(goal), moved };
    }
    let mut moved =
        claims.set(claimant.clone(), goal, units.mount_points().cloned().collect(), points.clone());
    if claims.owns_nothing(&uid) {
        moved.extend(claims.set(claimant, goal, Vec::new(), points));
        return Prepared { work: Work::NeverMounted, dropped, moved };
    }
    let work = match claims.conflict(&uid) {
        Some(conflict) => Work::Refuse(goal, Failure::from(&conflict)),
        None => Work::Units(units),
    };
    Prepared { work, dropped, moved }
}

/// What a pass over a ClientMount reads.
#[derive(Debug)]
pub struct View {
    pub object: Arc<ClientMount>,
    pub work: Work,
    /// Computes that may use its allocations.
    pub computes: Computes,
    /// Units of its earlier versions, to be unmounted first.
    pub dropped: DroppedUnits,
    /// Why the object has no profile, if so.
    pub profile: Option<NoProfile>,
}

/// Mounts or unmounts, and reports the result. A deleted object loses the finalizer when nothing of it is left.
pub async fn reconcile(context: &Context, view: View, pass: &mut Pass) -> Result<(), WriteError> {
    let View { object, work, computes, dropped, profile } = view;
    let object = &*object;
    let deleted = object.metadata.deletion_timestamp.is_some();
    if deleted && !has_finalizer(object, finalizer::CLIENT_MOUNT) {
        pass.unmounted = object.uid();
        return Ok(());
    }
    let object = if deleted {
        object.clone()
    } else {
        pass.with_finalizer(context, object, finalizer::CLIENT_MOUNT).await?
    };
    let asks = match &work {
        Work::Refuse(..) => !deleted,
        Work::Units(units) => units.profile_lost.is_some(),
        Work::NeverMounted => false,
    };
    // Without the profile nothing is mounted, and unmounts run no hooks. So first ask the API whether it exists.
    if let (true, Some(no_profile)) = (asks, &profile)
        && context.profile_exists(no_profile).await?
    {
        pass.wait();
        return Ok(());
    }
    let count = object.spec.mounts.len();
    let units = match work {
        // An invalid object was never mounted, unless a change made it invalid.
        Work::Refuse(..) if deleted => {
            pass.may_leave_mounts = true;
            Err(Outcome::absent(count))
        }
        Work::Refuse(goal, failure) => Err(Outcome::refused(goal, count, failure)),
        Work::NeverMounted => Err(Outcome::absent(count)),
        Work::Units(mut units) => {
            pass.may_leave_mounts = deleted && units.mounts.iter().any(Result::is_err)
                || (0..count).any(|place| units.has_unknown_path(place));
            computes::add(context, &computes, &object, &mut units, pass).await;
            match servers::add(context, &object, &mut units).await? {
                Ok(()) => Ok(Arc::new(units)),
                Err(error) => Err(Outcome::refused(units.goal, count, Failure::from(&error))),
            }
        }
    };
    let outcome = carry_out(context, &object, dropped, units, pass).await;
    if deleted && outcome.done() {
        log_unreadable(&object, &outcome);
        return release(context, &object, pass).await;
    }
    note(&object, &outcome, pass);
    pass.report(context, &object, report::status(&context.node, &outcome)).await
}

async fn carry_out(
    context: &Context,
    object: &ClientMount,
    dropped: DroppedUnits,
    units: Result<Arc<MountUnits>, Outcome>,
    pass: &mut Pass,
) -> Outcome {
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let work = reconcile::Work { uid, object: Some(object.clone()), dropped, units };
    let (converger, records) = (Arc::clone(&context.converger), Arc::clone(&context.records));
    let result = daemon::blocking(move || work.carry_out(&converger, &records)).await;
    pass.gone = result.unmounted;
    result.outcome
}

/// Logs one line, however many mounts failed.
fn note(object: &ClientMount, outcome: &Outcome, pass: &mut Pass) {
    let failures: Vec<_> = outcome
        .failures
        .iter()
        .map(|failed| {
            (failed.path.clone().unwrap_or_else(|| "all mounts".to_owned()), failed.failure.clone())
        })
        .collect();
    match combined(&failures) {
        Some(failure) => pass.failed(object, &failure),
        None if outcome.goal == Goal::Unmounted => pass.unmounted = object.uid(),
        None => pass.mounted = object.uid(),
    }
}

/// Logged once, when the object goes: until then another pass may still be able to read it.
fn log_unreadable(object: &ClientMount, outcome: &Outcome) {
    if let Some(text) = report::unreadable(outcome) {
        log::warn!("{}: {text}", describe(object));
    }
}

async fn release(
    context: &Context,
    object: &ClientMount,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    pass.unmounted = object.uid();
    pass.without_finalizer(context, object, finalizer::CLIENT_MOUNT).await
}

/// Unmounts what a disappeared object left behind.
pub async fn clean_up(
    context: &Context,
    object: &ClientMount,
    (work, dropped): (Work, DroppedUnits),
    pass: &mut Pass,
) {
    let units = match work {
        Work::Units(units) => {
            pass.may_leave_mounts =
                (0..units.mounts.len()).any(|place| units.has_unknown_path(place));
            Ok(Arc::new(units))
        }
        Work::Refuse(..) => {
            pass.may_leave_mounts = true;
            Err(Outcome::absent(object.spec.mounts.len()))
        }
        Work::NeverMounted => Err(Outcome::absent(object.spec.mounts.len())),
    };
    let outcome = carry_out(context, object, dropped, units, pass).await;
    log_unreadable(object, &outcome);
    note(object, &outcome, pass);
}
