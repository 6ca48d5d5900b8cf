//! Brings one ClientMount of this rabbit to its desired state.

use controller::{describe, has_finalizer, patch::WriteError};
use std::sync::Arc;

use agent::{
    desired::{Goal, MountUnits},
    error::Failure,
    reconcile::{self, DroppedUnits, Outcome},
    report,
    site::Site,
    targets::TargetsInUse,
};
use api::{ClientMount, names::finalizer};
use kube::ResourceExt;

use super::{
    computes::{self, Computes},
    prepare::{Prepared, Work, prepare},
    servers,
};
use crate::core::{Cache, Context, Pass, cache::NoProfile, failure::combined};

/// The prepared work and the part of the cache that a pass over a ClientMount reads.
#[derive(Debug)]
pub struct ClientMountView {
    pub object: Arc<ClientMount>,
    pub work: Work,
    /// Computes that may use the object's allocations.
    pub computes: Computes,
    /// Units of the object's earlier versions, which are unmounted first.
    pub dropped: DroppedUnits,
    /// Why the object has no profile; `None` if it has one.
    pub profile: Option<NoProfile>,
}

impl ClientMountView {
    /// Returns the view of an object, after reserving its mount points. Also returns the uids of the other objects
    /// whose conflicts over mount points this changes.
    pub fn new(
        object: Arc<ClientMount>,
        cache: &Cache,
        site: &Site,
        targets_in_use: &mut TargetsInUse,
    ) -> (Self, Vec<String>) {
        let Prepared { work, dropped, moved } = prepare(&object, cache, site, targets_in_use);
        let profile = cache.profile(&*object).err();
        let computes = Computes::new(&object, cache);
        (Self { object, work, computes, dropped, profile }, moved)
    }
}

/// Mounts or unmounts, and reports the result. A deleted object loses the agent's finalizer once
/// it is completely unmounted.
pub async fn reconcile(
    context: &Context,
    view: ClientMountView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let ClientMountView { object, work, computes, dropped, profile } = view;
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
    let needs_profile = match &work {
        Work::Refuse(..) => !deleted,
        Work::Units(units) => units.profile_lost.is_some(),
        Work::NeverMounted => false,
    };
    // Without the profile the agent mounts nothing, and its unmounts run no hooks. So it first asks the API whether the
    // profile exists.
    if let (true, Some(no_profile)) = (needs_profile, &profile)
        && context.profile_exists(no_profile).await?
    {
        pass.wait_for_watch();
        return Ok(());
    }
    let count = object.spec.mounts.len();
    let units = match work {
        // An invalid object was never mounted, unless a change of a mounted object made it invalid.
        Work::Refuse(..) if deleted => {
            pass.may_leave_mounts = true;
            Err(Outcome::absent(count))
        }
        Work::Refuse(goal, failure) => Err(Outcome::refused(goal, count, failure)),
        Work::NeverMounted => Err(Outcome::absent(count)),
        Work::Units(units) => {
            pass.may_leave_mounts = deleted && units.mounts.iter().any(Result::is_err)
                || (0..count).any(|place| units.has_unknown_path(place));
            let goal = units.goal;
            match complete(context, &computes, &object, units, pass).await? {
                Ok(units) => Ok(Arc::new(units)),
                Err(failure) => Err(Outcome::refused(goal, count, failure)),
            }
        }
    };
    let outcome = carry_out(context, &object, dropped, units, pass).await;
    if deleted && outcome.is_done() {
        log_unreadable(&object, &outcome);
        return release(context, &object, pass).await;
    }
    record_result(&object, &outcome, pass);
    pass.report(context, &object, report::status(&context.node, &outcome)).await
}

/// Adds to the units what only the API says: the links of the computes, and the components of a Lustre file system.
///
/// # Errors
/// An error if the API does not answer; an inner error if its answer is unusable.
pub async fn complete(
    context: &Context,
    computes: &Computes,
    object: &ClientMount,
    mut units: MountUnits,
    pass: &mut Pass,
) -> Result<Result<MountUnits, Failure>, WriteError> {
    computes::add_links(context, computes, object, &mut units, pass).await;
    let added = servers::add_file(context, object, &mut units).await?;
    Ok(added.map(|()| units).map_err(|error| Failure::from(&error)))
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
    pass.unmounted_versions = result.unmounted;
    result.outcome
}

/// Records the result. All failures together become one log line, however many mounts failed.
fn record_result(object: &ClientMount, outcome: &Outcome, pass: &mut Pass) {
    let failures: Vec<_> = outcome
        .failures
        .iter()
        .map(|failed| {
            (failed.path.clone().unwrap_or_else(|| "all mounts".to_owned()), failed.failure.clone())
        })
        .collect();
    match combined(&failures) {
        Some(failure) => pass.add_failure(object, &failure),
        None if outcome.goal == Goal::Unmounted => pass.unmounted = object.uid(),
        None => pass.mounted = object.uid(),
    }
}

/// Logs why the agent unmounted without the profile, or without some of the profile's lines. Does so only once, when
/// the object disappears: until then a later pass may be able to read the profile and run the lines.
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

/// Unmounts all mounts of an object that disappeared.
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
    record_result(object, &outcome, pass);
}
