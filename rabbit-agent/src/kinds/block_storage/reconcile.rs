//! Brings one NnfNodeBlockStorage to its desired state.

use controller::{describe, patch::WriteError};
use std::collections::BTreeSet;

use agent::error::Failure;
use api::{NnfNodeBlockStorage, names::finalizer};
use fence::is_shared;
use storage::{
    Converged, Desired, Observed, Step,
    desired::{Allocation, AllocationId, Endpoint},
    plan::missing_namespaces,
};

use super::{
    desired::{AllocationPolicy, uid},
    events,
    report::{self, Outcome},
    view::{BlockStorageView, Work, owned, without_record},
};
use crate::core::{
    Context, Key, Pass,
    failure::{self, combined, no_room},
    pass::converge,
};

/// Allocates and attaches namespaces; releases all of them when the object is deleted.
pub async fn reconcile(
    context: &Context,
    view: &BlockStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    match view.work(&context.started) {
        Work::Allocate => allocate(context, view, pass).await,
        Work::Keep { to_refresh: true } => keep_attached(context, view, pass).await,
        Work::Keep { to_refresh: false } | Work::Nothing => Ok(()),
        Work::Unlock => unlock(context, view, pass).await,
        Work::Release => release_all(context, view, pass).await,
    }
}

async fn allocate(
    context: &Context,
    view: &BlockStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let finalizer = finalizer::NNF_NODE_BLOCK_STORAGE;
    let object = pass.with_finalizer(context, &*view.object, finalizer).await?;
    let allocations = match view.allocations(&context.fences, context.policy) {
        Ok(allocations) => allocations,
        Err(error) => {
            return pass.refuse(context, &object, &Failure::from(&error), report::with_error).await;
        }
    };
    let units = allocations.iter().cloned().map(Desired::Allocated).collect();
    let outcomes = converge_allocations(context, view, units).await;
    // This pass attached a compute, so the agent may know now which compute uses which allocation. The index trees of
    // these ClientMounts show that, so their passes run again.
    if context.site.index_root.is_some() && outcomes.iter().flatten().any(attached_a_compute) {
        pass.wakes.extend(view.mounts.iter().cloned().map(Key::ClientMount));
    }
    write_report(context, &object, &allocations, &outcomes, pass).await
}

fn attached_a_compute(converged: &Converged) -> bool {
    let gives = |step: &Step| matches!(step, Step::Attach { endpoint: Endpoint::Compute(_), .. });
    converged.steps.iter().any(gives)
}

/// Converges the units. For a GFS2, uses the converger that asks for permission before each attachment: a
/// compute that was fenced after the pass began gets no access.
async fn converge_allocations(
    context: &Context,
    view: &BlockStorageView,
    units: Vec<Desired>,
) -> Vec<Outcome> {
    let is_shared = is_shared(&view.object.metadata);
    converge(if is_shared { &context.gated } else { &context.converger }, units).await
}

/// Attaches the namespaces that a deleted object still has, and looks up their device paths. Does not replace lost
/// namespaces: the replacements would be empty, and would soon be deleted.
async fn keep_attached(
    context: &Context,
    view: &BlockStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = &*view.object;
    let policy = AllocationPolicy { replace: false, ..context.policy };
    let allocations = match view.allocations(&context.fences, policy) {
        Ok(allocations) => allocations,
        Err(error) => {
            return pass.refuse(context, object, &Failure::from(&error), report::with_error).await;
        }
    };
    let reported = |allocation: &&Allocation| !allocation.reported.is_empty();
    let units = allocations.iter().filter(reported).cloned().map(Desired::Allocated).collect();
    let mut kept = converge_allocations(context, view, units).await.into_iter();
    let outcome = |allocation: &Allocation| match if reported(&allocation) {
        kept.next()
    } else {
        None
    } {
        None => Ok(Converged::default()),
        Some(Err(error)) if report::is_deleted(&error) => {
            log::warn!(
                "{}: allocation {} has no namespaces, and gets none because the object is being deleted",
                describe(object),
                allocation.id.index
            );
            Ok(Converged::default())
        }
        Some(outcome) => outcome,
    };
    let outcomes: Vec<Outcome> = allocations.iter().map(outcome).collect();
    write_report(context, object, &allocations, &outcomes, pass).await
}

/// Reports the result. If the object cannot have all of its allocations, first releases those that are new.
async fn write_report(
    context: &Context,
    object: &NnfNodeBlockStorage,
    allocations: &[Allocation],
    outcomes: &[Outcome],
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if outcomes.iter().flatten().any(|converged| !converged.steps.is_empty()) {
        pass.wakes.push(Key::Node);
    }
    let back = report::to_roll_back(object, allocations, outcomes);
    roll_back(context, object, &back, pass).await;
    let failure = failure(allocations, outcomes);
    if let Some(failure) = &failure {
        pass.add_failure(object, failure);
    }
    let event = events::event(outcomes, failure.as_ref());
    let error = failure.map(|failure| context.resource_error(&failure, ""));
    let status = report::status(object, allocations, outcomes, &back, &context.started, error);
    pass.report(context, object, status).await?;
    context.events.queue(object, event);
    Ok(())
}

/// Returns the failure of a pass. If an allocation found no room, the failure names only this allocation: the pass
/// releases its other new allocations.
fn failure(allocations: &[Allocation], outcomes: &[Outcome]) -> Option<Failure> {
    let full =
        outcomes.iter().position(|outcome| outcome.as_ref().is_err_and(report::is_lack_of_room));
    if let Some((index, Err(error))) = full.map(|index| (index, &outcomes[index])) {
        return Some(no_room(index, error));
    }
    let reported = |(index, (allocation, outcome)): (usize, (&Allocation, &Outcome))| {
        let failure = match outcome {
            Ok(converged) => {
                failure::degraded(&missing_namespaces(allocation, &converged.observed))?
            }
            Err(error) => Failure::of_convergence(error),
        };
        Some((format!("allocation {index}"), failure))
    };
    let all: Vec<_> = allocations.iter().zip(outcomes).enumerate().filter_map(reported).collect();
    combined(&all)
}

async fn roll_back(
    context: &Context,
    object: &NnfNodeBlockStorage,
    back: &[AllocationId],
    pass: &mut Pass,
) {
    if back.is_empty() {
        return;
    }
    let results = context.converge(back.iter().copied().map(Desired::Released).collect()).await;
    pass.wakes.push(Key::Node);
    for (id, error) in
        back.iter().zip(&results).filter_map(|(id, result)| Some((id, result.as_ref().err()?)))
    {
        let mut failure = Failure::of_convergence(error);
        failure.debug = format!("give back allocation {id}: {}", failure.debug);
        pass.add_failure(object, &failure);
    }
}

/// Removes the finalizer of a NnfNodeStorage that is gone although this agent did not release it: the finalizer on the
/// NnfNodeStorage was removed by force. The same finalizer on the block storage remains, and no other program removes
/// it.
async fn unlock(
    context: &Context,
    view: &BlockStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = &*view.object;
    pass.wakes.push(Key::BlockStorage(object.metadata.name.clone().unwrap_or_default()));
    pass.without_finalizer(context, object, finalizer::NNF_NODE_STORAGE).await
}

/// Releases all namespaces of a deleted object.
async fn release_all(
    context: &Context,
    view: &BlockStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = &*view.object;
    match release(context, view).await {
        Ok(()) => {
            pass.wakes.push(Key::Node);
            pass.without_finalizer(context, object, finalizer::NNF_NODE_BLOCK_STORAGE).await
        }
        Err(failure) => pass.refuse(context, object, &failure, report::with_error).await,
    }
}

/// Releases every namespace of the object: those that a drive's ledger (the record of the drive's namespaces) assigns
/// to the object's uid, and those that only the object's status names.
async fn release(context: &Context, view: &BlockStorageView) -> Result<(), Failure> {
    let owner = uid(&view.object).map_err(|error| Failure::from(&error))?;
    let seen = context.inventory().await?;
    if let Some(failure) = report::drives_unreadable(&view.object, &seen) {
        return Err(failure);
    }
    let mut ids = adopt(context, view, &seen).await?;
    ids.extend(owned(&seen, owner));
    let results = context.converge(ids.iter().copied().map(Desired::Released).collect()).await;
    all_done("give back", &ids, &results)
}

fn all_done(what: &str, ids: &BTreeSet<AllocationId>, results: &[Outcome]) -> Result<(), Failure> {
    let failed = |(id, result): (&AllocationId, &Outcome)| {
        let failure = Failure::of_convergence(result.as_ref().err()?);
        Some((format!("{what} allocation {}", id.index), failure))
    };
    let failures: Vec<_> = ids.iter().zip(results).filter_map(failed).collect();
    combined(&failures).map_or(Ok(()), Err)
}

/// Records the object again as the owner of namespaces that lost their entry in the ledger: once the object is gone, no
/// object would name their owner, and the namespaces would stay for ever. Returns the allocations that have such
/// namespaces.
async fn adopt(
    context: &Context,
    view: &BlockStorageView,
    seen: &Observed,
) -> Result<BTreeSet<AllocationId>, Failure> {
    let lost = without_record(view, context.policy, seen);
    let ids: BTreeSet<_> = lost.keys().copied().collect();
    let results = context.converge(lost.into_values().map(Desired::Adopted).collect()).await;
    all_done("adopt", &ids, &results).map(|()| ids)
}
