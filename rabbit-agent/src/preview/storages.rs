//! Plans for a NnfNodeStorage.

use std::sync::Arc;

use agent::error::Failure;
use storage::{Converger, Desired};

use super::{Planned, cost::DataOwner, plan_unit};
use crate::{
    core::{Context, cache::block_name},
    kinds::node_storage::{
        report::is_syncing,
        unit::{in_order_to_make, in_order_to_tear_down},
        view::{Base, NodeStorageView, Removal, no_block, units, units_to_tear_down},
    },
};

pub(super) async fn plan(context: &Context, view: NodeStorageView) -> Planned {
    if view.object.metadata.deletion_timestamp.is_some() {
        return plan_removal(context, view).await;
    }
    let block = match view.base(&context.started) {
        Base::Missing => return Planned::refused(&no_block(&view.object)),
        Base::Unreported => return Planned::waiting(waits_for_devices(&view)),
        Base::Reported(block) => block,
    };
    match units(context, &view, block, true) {
        Ok(units) => plan_all(context, &view, in_order_to_make(&units)).await,
        Err(failure) => Planned::refused(&failure),
    }
}

fn waits_for_devices(view: &NodeStorageView) -> String {
    format!("waits for the devices of NnfNodeBlockStorage {}", block_name(&view.object))
}

async fn plan_removal(context: &Context, view: NodeStorageView) -> Planned {
    let waiting = view.still_mounted();
    let waiting =
        waiting.map(|_| format!("waits until ClientMount {} is unmounted", view.mounts.join(", ")));
    let block = match view.removal() {
        Removal::Nothing => return Planned::default(),
        Removal::NoBlock | Removal::Release => return Planned { waiting, ..Planned::default() },
        Removal::Unreadable(failure) => return Planned::refused(&failure),
        Removal::TearDown(block) => block,
    };
    let units = match units_to_tear_down(context, &view, block) {
        Ok(Some(units)) => units,
        Ok(None) => return Planned::waiting(waits_for_devices(&view)),
        Err(failure) => return Planned::refused(&failure),
    };
    let planned = plan_all(context, &view, in_order_to_tear_down(&units)).await;
    match waiting {
        None => planned,
        // A refusal may be due to the mounts that the tear-down waits for.
        Some(_) if planned.rejection.is_some() => Planned { waiting, ..Planned::default() },
        Some(_) => Planned { waiting, ..planned },
    }
}

async fn plan_all(
    context: &Context,
    view: &NodeStorageView,
    units: Vec<(usize, Desired)>,
) -> Planned {
    let (converger, owner) = (Arc::clone(&context.converger), DataOwner::of_storage(&view.object));
    daemon::blocking(move || plan_units(&converger, &units, &owner)).await
}

fn plan_units(converger: &Converger, units: &[(usize, Desired)], owner: &DataOwner) -> Planned {
    let mut planned = Planned::default();
    for (place, unit) in units {
        match plan_unit(converger, unit, owner) {
            // Not a failure: the pass waits for the drives.
            Err(error) if is_syncing(&error) => {
                planned.waiting = Some(format!("waits: {}", Failure::of_convergence(&error).debug));
            }
            result => planned.add(&format!("file system {place}"), result),
        }
    }
    planned
}
