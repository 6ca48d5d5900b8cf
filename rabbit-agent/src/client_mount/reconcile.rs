//! Brings one ClientMount of this rabbit to what it asks for.

use controller::{describe, has_finalizer, patch::WriteError};
use std::sync::Arc;

use api::{ClientMount, client_mount::ClientMountDeviceReference, names::finalizer};
use clientmount_agent::{
    claims::{Claimant, Claims},
    desired::{self, Goal, MountUnits, ReferenceError},
    error::Failure,
    reconcile::{self, Earlier, Outcome, mount_points_of},
    report,
    site::Site,
};
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
    /// Bring these units to their goal.
    Units(MountUnits),
    /// Tell why nothing is done.
    Refuse(Goal, Failure),
    /// It is to be unmounted and never was mounted: its paths are another object's.
    NeverMounted,
}

/// The units of an object, or why there are none. Pure.
///
/// # Errors
/// When the object as a whole cannot be worked on.
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

/// The namespaces behind a reference: those of the block storage of that name, the only one when it is shared.
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

/// What was found out before a pass over an object.
#[derive(Debug)]
pub struct Prepared {
    /// What to do about it.
    pub work: Work,
    /// What to do before.
    pub former: Earlier,
    /// The uids of others whose standing this changed.
    pub moved: Vec<String>,
}

fn former(object: &ClientMount, cache: &Cache, site: &Site) -> Earlier {
    let versions = cache.former.of(object.metadata.uid.as_deref().unwrap_or_default()).iter();
    let units = |version: &ClientMount| units(version, Goal::Unmounted, cache, site);
    versions.map(|version| (version.clone(), units(version))).collect()
}

/// Every mount point of what an object asked for earlier.
pub fn former_points(object: &ClientMount, cache: &Cache, site: &Site) -> Vec<MountPoint> {
    mount_points_of(&former(object, cache, site)).cloned().collect()
}

/// Notes what an object asked for before it was changed, where that can be mounted for it.
pub fn note_change(
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
        mount.is_some_and(|mount| !claims.is_anothers(&uid, &mount.target))
    };
    cache.former.changed(before, Some(after), had);
}

/// What to do about an object now, its mount points claimed.
pub fn prepare(object: &ClientMount, cache: &Cache, site: &Site, claims: &mut Claims) -> Prepared {
    match Goal::of(object) {
        Ok(goal) => prepare_for(object, goal, cache, site, claims),
        Err(error) => {
            let work = Work::Refuse(Goal::Mounted, Failure::from(&error));
            Prepared { work, former: Vec::new(), moved: Vec::new() }
        }
    }
}

/// The same for a goal that the object does not name: one that is gone is to be unmounted.
pub fn prepare_for(
    object: &ClientMount,
    goal: Goal,
    cache: &Cache,
    site: &Site,
    claims: &mut Claims,
) -> Prepared {
    let claimant = Claimant::of(object);
    let uid = claimant.uid.clone();
    let former = former(object, cache, site);
    let points: Vec<_> = mount_points_of(&former).cloned().collect();
    // Of an object that asks for what cannot be nothing is changed, but when it goes.
    let nothing = |goal| if goal == Goal::Unmounted { former.clone() } else { Vec::new() };
    let units = match units(object, goal, cache, site) {
        Ok(units) => units,
        Err(failure) => {
            let moved = claims.set(claimant, goal, Vec::new(), points);
            let work = Work::Refuse(goal, failure);
            return Prepared { work, former: nothing(goal), moved };
        }
    };
    if units.refused() {
        let moved = claims.set(claimant, goal, Vec::new(), points);
        return Prepared { work: Work::Units(units), former: nothing(goal), moved };
    }
    let mut moved =
        claims.set(claimant.clone(), goal, units.mount_points().cloned().collect(), points.clone());
    if claims.never_had(&uid) {
        moved.extend(claims.set(claimant, goal, Vec::new(), points));
        return Prepared { work: Work::NeverMounted, former, moved };
    }
    let work = match claims.conflict(&uid) {
        Some(conflict) => Work::Refuse(goal, Failure::from(&conflict)),
        None => Work::Units(units),
    };
    Prepared { work, former, moved }
}

/// A ClientMount and what to do about it.
#[derive(Debug)]
pub struct View {
    /// Itself.
    pub object: Arc<ClientMount>,
    /// What to do.
    pub work: Work,
    /// Whose allocations it may show.
    pub computes: Computes,
    /// What to do before.
    pub former: Earlier,
    /// Why there is no profile, if there is none.
    pub profile: Option<NoProfile>,
}

/// Mounts or unmounts, and says how it went; on deletion lets the object go when nothing of it is left.
///
/// # Errors
/// When a write did not happen.
pub async fn reconcile(context: &Context, view: View, pass: &mut Pass) -> Result<(), WriteError> {
    let View { object, work, computes, former, profile } = view;
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
    // Without it nothing is made, and what goes goes without its hooks.
    if let (true, Some(no_profile)) = (asks, &profile)
        && context.profile_exists(no_profile).await?
    {
        pass.wait();
        return Ok(());
    }
    let count = object.spec.mounts.len();
    let now = match work {
        // What cannot be understood was never mounted, unless the object was changed to that.
        Work::Refuse(..) if deleted => {
            pass.may_leave_mounts = true;
            Err(Outcome::absent(count))
        }
        Work::Refuse(goal, failure) => Err(Outcome::refused(goal, count, failure)),
        Work::NeverMounted => Err(Outcome::absent(count)),
        Work::Units(mut units) => {
            pass.may_leave_mounts = deleted && units.mounts.iter().any(Result::is_err)
                || (0..count).any(|place| units.is_untold(place));
            computes::add(context, &computes, &object, &mut units, pass).await;
            match servers::add(context, &object, &mut units).await? {
                Ok(()) => Ok(Arc::new(units)),
                Err(error) => Err(Outcome::refused(units.goal, count, Failure::from(&error))),
            }
        }
    };
    let outcome = carry_out(context, &object, former, now, pass).await;
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
    former: Earlier,
    now: Result<Arc<MountUnits>, Outcome>,
    pass: &mut Pass,
) -> Outcome {
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let work = reconcile::Work { uid, object: Some(object.clone()), former, now };
    let (converger, records) = (Arc::clone(&context.converger), Arc::clone(&context.records));
    let worked = context.blocking(move || work.carry_out(&converger, &records)).await;
    pass.gone = worked.gone;
    worked.outcome
}

/// One line in the log, whatever the number of mounts.
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

/// Once, when the object goes: until then a pass may come any moment.
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

/// Unmounts what an object left behind that went away without our doing.
pub async fn clean_up(
    context: &Context,
    object: &ClientMount,
    (work, former): (Work, Earlier),
    pass: &mut Pass,
) {
    let now = match work {
        Work::Units(units) => {
            pass.may_leave_mounts = (0..units.mounts.len()).any(|place| units.is_untold(place));
            Ok(Arc::new(units))
        }
        Work::Refuse(..) => {
            pass.may_leave_mounts = true;
            Err(Outcome::absent(object.spec.mounts.len()))
        }
        Work::NeverMounted => Err(Outcome::absent(object.spec.mounts.len())),
    };
    let outcome = carry_out(context, object, former, now, pass).await;
    log_unreadable(object, &outcome);
    note(object, &outcome, pass);
}
