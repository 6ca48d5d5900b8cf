//! Brings one NnfNodeStorage to its desired state.

use controller::patch::WriteError;

use super::{
    progress::progress,
    report::{self, UnitState, is_syncing},
    unit::{self, Outcome, Unit},
    view::{Base, NodeStorageView, Removal, no_block, units, units_to_tear_down},
};
use crate::core::{Context, Pass, cache::block_name, failure::combined};
use agent::error::Failure;
use api::{NnfNodeBlockStorage, NnfNodeStorage, NnfNodeStorageStatus, names::finalizer};
use kube::ResourceExt;
use storage::{ConvergeError, Rejection};

/// Makes and sets up the file systems; if the object is deleted, tears them down.
pub async fn reconcile(
    context: &Context,
    view: &NodeStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if view.object.metadata.deletion_timestamp.is_some() {
        return delete(context, view, pass).await;
    }
    let object = pass.with_finalizer(context, &*view.object, finalizer::NNF_NODE_STORAGE).await?;
    let block = match view.base(&context.started) {
        Base::Missing => return report_no_block(context, &object, pass).await,
        // The pass over the block storage will report the devices, and its report wakes this object. Until then the
        // status has no error.
        Base::Unreported => {
            let waiting =
                object.status.clone().map(|status| NnfNodeStorageStatus { error: None, ..status });
            let waiting = NnfNodeStorage { status: waiting, ..object.clone() };
            return pass.status(context, &object, &waiting).await;
        }
        Base::Reported(block) => block,
    };
    if let Err(no_profile) = &view.profile
        && context.profile_exists(no_profile).await?
    {
        pass.wait_for_watch();
        return Ok(());
    }
    pass.with_finalizer(context, block, finalizer::NNF_NODE_STORAGE).await?;
    match units(context, view, block, true) {
        Ok(units) => make(context, &object, units, pass).await,
        Err(failure) => pass.refuse(context, &object, &failure, report::with_error).await,
    }
}

async fn report_no_block(
    context: &Context,
    object: &NnfNodeStorage,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let namespace = object.namespace().unwrap_or_default();
    if context.exists::<NnfNodeBlockStorage>(&namespace, &block_name(object)).await? {
        pass.wait_for_watch();
        return Ok(());
    }
    pass.refuse(context, object, &no_block(object), report::with_error).await
}

async fn make(
    context: &Context,
    object: &NnfNodeStorage,
    units: Vec<Unit>,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let results = unit::make(context, units.clone()).await;
    let reported = object.status.iter().flat_map(|status| &status.allocations);
    let was_ready: Vec<_> = reported.map(|allocation| allocation.ready).collect();
    let state = |(index, (unit, outcome))| {
        UnitState::of_unit(unit, was_ready.get(index) == Some(&true), outcome)
    };
    let states: Vec<_> = units.iter().zip(&results).enumerate().map(state).collect();
    let failure = failure(object, &results);
    pass.progress = Some(progress(&results));
    if results.iter().flatten().any(|result| result.as_ref().is_err_and(is_syncing)) {
        pass.wait_for_watch();
    }
    if let Some(failure) = &failure {
        pass.add_failure(object, failure);
    }
    let error =
        failure.map(|failure| context.resource_error(&failure, "unable to create file system"));
    pass.report(context, object, report::status(&states, error)).await
}

/// Tears down the file systems, then removes the finalizers from the block storage and the object.
async fn delete(
    context: &Context,
    view: &NodeStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = &*view.object;
    let removal = view.removal();
    if let Removal::Nothing = removal {
        return Ok(());
    }
    if let Some(failure) = view.still_mounted() {
        return pass.refuse(context, object, &failure, report::with_error).await;
    }
    match removal {
        Removal::Nothing | Removal::Release => {}
        Removal::Unreadable(failure) => {
            return pass.refuse(context, object, &failure, report::with_error).await;
        }
        Removal::NoBlock => {
            let namespace = object.namespace().unwrap_or_default();
            if context.exists::<NnfNodeBlockStorage>(&namespace, &block_name(object)).await? {
                pass.wait_for_watch();
                return Ok(());
            }
        }
        Removal::TearDown(block) => match tear_down(context, view, block).await {
            Ok(TearDown::Done) => {
                pass.without_finalizer(context, block, finalizer::NNF_NODE_STORAGE).await?;
            }
            Ok(TearDown::NotYet) => return Ok(()),
            Err(failure) => {
                return pass.refuse(context, object, &failure, report::with_error).await;
            }
        },
    }
    pass.without_finalizer(context, object, finalizer::NNF_NODE_STORAGE).await
}

enum TearDown {
    Done,
    /// The block storage does not report its devices yet; its next status wakes this object.
    NotYet,
}

async fn tear_down(
    context: &Context,
    view: &NodeStorageView,
    block: &NnfNodeBlockStorage,
) -> Result<TearDown, Failure> {
    let Some(units) = units_to_tear_down(context, view, block)? else {
        return Ok(TearDown::NotYet);
    };
    let results = unit::tear_down(context, units).await;
    failure(&view.object, &results).map_or(Ok(TearDown::Done), Err)
}

fn failure(object: &NnfNodeStorage, results: &[Outcome]) -> Option<Failure> {
    let errors = results.iter().enumerate();
    let errors =
        errors.filter_map(|(index, outcome)| Some((index, outcome.as_ref()?.as_ref().err()?)));
    let failed = errors.filter(|(_, error)| !is_syncing(error)).map(|(index, error)| {
        (describe_unit(object, index, error), Failure::of_convergence(error))
    });
    combined(&failed.collect::<Vec<_>>())
}

/// Returns the index of the file system, and if its size is too small, the field with the size.
fn describe_unit(object: &NnfNodeStorage, index: usize, error: &ConvergeError) -> String {
    match error {
        ConvergeError::Rejected(Rejection::TooSmall(_)) => {
            format!("spec.capacity is {} bytes: file system {index}", object.spec.capacity)
        }
        _ => format!("file system {index}"),
    }
}

#[cfg(test)]
mod tests {
    use api::Severity;
    use controller::Retry;
    use storage::{desired::FileSystemKind, host::TooSmall};

    use super::*;
    use crate::samples;

    #[test]
    fn the_error_for_too_small_a_capacity_names_field_value_and_remedy() {
        let mut object = samples::node_storage(1, "xfs");
        object.spec.capacity = 1;
        let refused = TooSmall {
            device: "/dev/loop7".into(),
            kind: FileSystemKind::Xfs,
            size: 4096,
            least: FileSystemKind::Xfs.least(),
            why: "size 1 of data subvolume is too small, minimum 4096 blocks".into(),
        };
        let refused = ConvergeError::Rejected(Rejection::TooSmall(refused));
        let failure = failure(&object, &[Some(Err(refused))]).unwrap();
        assert_eq!((failure.severity, failure.retry), (Severity::Fatal, Retry::OnChange));
        let reported = "spec.capacity is 1 bytes: file system 0: /dev/loop7 has 4096 bytes, on which no xfs can be made (size 1 of \
                    data subvolume is too small, minimum 4096 blocks): ask for at least 314572800 bytes";
        assert_eq!(failure.user, reported);
    }
}
