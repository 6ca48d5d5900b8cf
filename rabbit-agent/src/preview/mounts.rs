//! Plans for a ClientMount of the rabbit.

use std::sync::Arc;

use agent::{
    desired::{Goal, MountUnits},
    reconcile::{DroppedUnits, operator_text, plan as plan_mounts},
};
use api::names::finalizer;
use controller::{has_finalizer, patch::WriteError};
use kube::ResourceExt;
use storage::Converger;

use super::{Planned, Snapshot};
use crate::{
    core::{Context, Pass},
    kinds::client_mount::{
        prepare::{Prepared, Work, prepare_for},
        reconcile::{ClientMountView, complete},
    },
};

/// Returns the plan for a ClientMount; `None` if the agent does not know it.
pub(super) async fn plan(snapshot: &mut Snapshot, name: &str) -> Option<Planned> {
    let object = Arc::clone(snapshot.cache.client_mount(name)?);
    let (site, targets) = (&snapshot.context.site, &mut snapshot.targets_in_use);
    let (view, _) = ClientMountView::new(object, &snapshot.cache, site, targets);
    let (uid, goal) = (view.object.uid().unwrap_or_default(), Goal::of(&view.object).ok());
    let planned = plan_view(&snapshot.context, view).await;
    if planned.is_at_rest() && goal == Some(Goal::Mounted) {
        snapshot.mounted.insert(uid);
    }
    Some(planned)
}

async fn plan_view(context: &Context, view: ClientMountView) -> Planned {
    let ClientMountView { object, work, computes, dropped, profile: _ } = view;
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    if is_deleted && !has_finalizer(&*object, finalizer::CLIENT_MOUNT) {
        return Planned::default();
    }
    let units = match work {
        // An invalid object was never mounted, unless a change of a mounted object made it invalid.
        Work::Refuse(..) if is_deleted => None,
        Work::Refuse(_, failure) => return Planned::refused(&failure),
        Work::NeverMounted => None,
        Work::Units(units) => {
            match complete(context, &computes, &object, units, &mut Pass::default()).await {
                Ok(Ok(units)) => Some(units),
                Ok(Err(failure)) => return Planned::refused(&failure),
                Err(error) => {
                    return Planned { rejection: Some(no_answer(&error)), ..Planned::default() };
                }
            }
        }
    };
    plan_units(context, dropped, units).await
}

fn no_answer(error: &WriteError) -> String {
    format!("{}: the API does not say what the plan depends on", daemon::chain(error))
}

/// Returns the plan for a ClientMount that disappeared although it may be mounted.
pub(super) async fn plan_vanished(snapshot: &mut Snapshot, uid: &str) -> Option<Planned> {
    let object = Arc::clone(snapshot.cache.vanished(uid)?);
    let (site, targets) = (&snapshot.context.site, &mut snapshot.targets_in_use);
    let Prepared { work, dropped, .. } =
        prepare_for(&object, Goal::Unmounted, &snapshot.cache, site, targets);
    let units = match work {
        Work::Units(units) => Some(units),
        Work::Refuse(..) | Work::NeverMounted => None,
    };
    Some(plan_units(&snapshot.context, dropped, units).await)
}

async fn plan_units(
    context: &Context,
    dropped: DroppedUnits,
    units: Option<MountUnits>,
) -> Planned {
    let converger = Arc::clone(&context.converger);
    daemon::blocking(move || {
        let mut planned = Planned::default();
        // The agent first unmounts the mounts of earlier versions.
        let earlier = dropped.iter().filter_map(|(_, units)| units.as_ref().ok());
        earlier.chain(&units).for_each(|units| add_units(&converger, units, &mut planned));
        planned
    })
    .await
}

fn add_units(converger: &Converger, units: &MountUnits, planned: &mut Planned) {
    match plan_mounts(converger, units) {
        Ok(steps) => planned.steps.extend(steps.iter().map(ToString::to_string)),
        Err(failures) => planned.rejection = Some(operator_text(&failures)),
    }
}
