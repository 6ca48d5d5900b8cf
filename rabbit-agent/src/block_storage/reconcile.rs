//! Brings one NnfNodeBlockStorage to what it asks for.

use std::collections::BTreeSet;

use api::{NnfNodeBlockStorage, names::finalizer};
use clientmount_agent::error::Failure;
use storage::{
    ConvergeError, Converged, Desired,
    desired::{Allocation, AllocationId, ObjectUid},
    observed::NamespaceOwner,
};

use super::{
    desired::{desired, uid},
    report::{self, AllocationError, Outcome},
};
use crate::{
    chassis::Chassis,
    failure::{self, combined, no_room},
    pass::{Context, Pass},
    world::Key,
    write::{WriteError, describe, has_finalizer},
};

/// Allocates and grants access, or on deletion gives everything back.
///
/// `in_use` tells whether the NnfNodeStorage on it exists.
///
/// # Errors
/// When a write did not happen.
pub async fn reconcile(
    context: &Context,
    object: &NnfNodeBlockStorage,
    chassis: &Chassis,
    in_use: bool,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if object.metadata.deletion_timestamp.is_some() {
        return leave(context, object, chassis, in_use, pass).await;
    }
    let object = pass.with_finalizer(context, object, finalizer::NNF_NODE_BLOCK_STORAGE).await?;
    allocate(context, &object, chassis, pass).await
}

async fn allocate(
    context: &Context,
    object: &NnfNodeBlockStorage,
    chassis: &Chassis,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let wanted = match desired(object, chassis) {
        Ok(wanted) => wanted,
        Err(error) => {
            return pass.refuse(context, object, &Failure::from(&error), report::refused).await;
        }
    };
    let owners = match owners_if_told(context, object).await {
        Ok(owners) => owners,
        Err(failure) => return pass.refuse(context, object, &failure, report::refused).await,
    };
    let mut lost: Vec<_> = wanted.iter().map(|it| report::lost(object, it.id, &owners)).collect();
    let there = wanted.iter().zip(&lost).filter(|(_, lost)| lost.is_none()).map(|(it, _)| it);
    let mut made =
        context.converge(there.cloned().map(Desired::Allocated).collect()).await.into_iter();
    let outcome = |lost: &mut Option<AllocationError>| match lost.take() {
        Some(lost) => Some(Err(lost)),
        None => made.next().map(|it| it.map_err(AllocationError::from)),
    };
    let outcomes: Vec<Outcome> = lost.iter_mut().filter_map(outcome).collect();
    tell(context, object, &wanted, &outcomes, pass).await
}

/// Whose each namespace on the drives is, if the object's status says that any of them is its own.
async fn owners_if_told(
    context: &Context,
    object: &NnfNodeBlockStorage,
) -> Result<Vec<NamespaceOwner>, Failure> {
    match &object.status {
        Some(status) if report::has_devices(status) => owners(context).await,
        _ => Ok(Vec::new()),
    }
}

/// Attaches what an object that is going away still has, and looks up its paths; what it has lost is not made again,
/// for it would be empty and soon be given back.
async fn keep(
    context: &Context,
    object: &NnfNodeBlockStorage,
    chassis: &Chassis,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let wanted = match desired(object, chassis) {
        Ok(wanted) => wanted,
        Err(error) => {
            return pass.refuse(context, object, &Failure::from(&error), report::refused).await;
        }
    };
    let owners = match owners(context).await {
        Ok(owners) => owners,
        Err(failure) => return pass.refuse(context, object, &failure, report::refused).await,
    };
    let exists = |it: &Allocation| owners.contains(&NamespaceOwner::Ours(it.id));
    let units = wanted.iter().filter(|it| exists(it)).cloned().map(Desired::Allocated).collect();
    let mut kept = context.converge(units).await.into_iter();
    let outcomes: Vec<Outcome> = wanted
        .iter()
        .map(|it| if exists(it) { kept.next() } else { None })
        .map(|outcome| Ok(outcome.unwrap_or_else(|| Ok(Converged::default()))?))
        .collect();
    for lost in wanted.iter().filter(|it| !exists(it)) {
        log::warn!(
            "{}: allocation {} has no namespaces, and gets none because the object is being deleted",
            describe(object),
            lost.id.index
        );
    }
    tell(context, object, &wanted, &outcomes, pass).await
}

/// Reports what became of the allocations, after giving back what came of them in vain.
async fn tell(
    context: &Context,
    object: &NnfNodeBlockStorage,
    wanted: &[Allocation],
    outcomes: &[Outcome],
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if outcomes.iter().flatten().any(|converged| !converged.steps.is_empty()) {
        pass.wakes.push(Key::Node);
    }
    let back = report::to_roll_back(object, wanted, outcomes);
    roll_back(context, object, &back, pass).await;
    let failure = failure(outcomes);
    if let Some(failure) = &failure {
        pass.failed(object, failure);
    }
    let error = failure.map(|it| context.resource_error(&it, ""));
    let status = report::status(object, wanted, outcomes, &back, &context.started, error);
    pass.report(context, object, status).await
}

/// A lack of room is the whole answer: what else failed beside it is given back anyway.
fn failure(outcomes: &[Outcome]) -> Option<Failure> {
    let failed: Vec<(usize, &AllocationError)> = outcomes
        .iter()
        .enumerate()
        .filter_map(|(index, outcome)| Some((index, outcome.as_ref().err()?)))
        .collect();
    let full = failed.iter().find_map(|(index, error)| match error {
        AllocationError::Converge(cause) if report::is_lack_of_room(error) => Some((*index, cause)),
        AllocationError::Converge(_) | AllocationError::Lost(_) => None,
    });
    if let Some((index, error)) = full {
        return Some(no_room(index, error));
    }
    let told = |(index, error): &(usize, &AllocationError)| {
        let failure = match error {
            AllocationError::Converge(error) => Failure::of_convergence(error),
            AllocationError::Lost(_) => failure::lost(error.to_string()),
        };
        (format!("allocation {index}"), failure)
    };
    combined(&failed.iter().map(told).collect::<Vec<_>>())
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
        pass.failed(object, &failure);
    }
}

/// Until the file systems on it are gone the devices stay, and their paths are kept right; then everything goes.
async fn leave(
    context: &Context,
    object: &NnfNodeBlockStorage,
    chassis: &Chassis,
    in_use: bool,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if !has_finalizer(object, finalizer::NNF_NODE_BLOCK_STORAGE) {
        return Ok(());
    }
    if has_finalizer(object, finalizer::NNF_NODE_STORAGE) {
        let status = object.status.as_ref();
        let to_refresh = status.is_some_and(|status| {
            report::has_devices(status) && !report::is_of(status, &context.started)
        });
        return match (in_use, to_refresh) {
            (true, true) => keep(context, object, chassis, pass).await,
            (true, false) => Ok(()),
            // Its NnfNodeStorage was removed by force; the finalizer is this agent's, and nobody else takes it off.
            (false, _) => {
                pass.wakes
                    .push(Key::BlockStorage(object.metadata.name.clone().unwrap_or_default()));
                pass.without_finalizer(context, object, finalizer::NNF_NODE_STORAGE).await
            }
        };
    }
    match release(context, object).await {
        Ok(()) => {
            pass.wakes.push(Key::Node);
            pass.without_finalizer(context, object, finalizer::NNF_NODE_BLOCK_STORAGE).await
        }
        Err(failure) => pass.refuse(context, object, &failure, report::refused).await,
    }
}

/// Gives back every namespace of the object: those its spec names, and whatever else its uid is on.
async fn release(context: &Context, object: &NnfNodeBlockStorage) -> Result<(), Failure> {
    let owner = uid(object).map_err(|error| Failure::from(&error))?;
    let ids = owned(context, owner).await?;
    let results = context.converge(ids.iter().copied().map(Desired::Released).collect()).await;
    let failed = |(id, result): (&AllocationId, &Result<_, ConvergeError>)| {
        Some((
            format!("give back allocation {}", id.index),
            Failure::of_convergence(result.as_ref().err()?),
        ))
    };
    let failures: Vec<_> = ids.iter().zip(&results).filter_map(failed).collect();
    combined(&failures).map_or(Ok(()), Err)
}

async fn owned(context: &Context, owner: ObjectUid) -> Result<BTreeSet<AllocationId>, Failure> {
    let owners = owners(context).await?;
    let ids = owners.iter().filter_map(|it| match it {
        NamespaceOwner::Ours(id) | NamespaceOwner::Partial(id) if id.owner == owner => Some(*id),
        NamespaceOwner::Ours(_) | NamespaceOwner::Partial(_) | NamespaceOwner::Foreign(_) => None,
    });
    Ok(ids.collect())
}

/// Whose each namespace on the drives is.
async fn owners(context: &Context) -> Result<Vec<NamespaceOwner>, Failure> {
    let results = context.converge(vec![Desired::Inventory]).await;
    let inventory = results.into_iter().next().expect("each unit that is converged has a result");
    let inventory = inventory.map_err(|error| Failure::of_convergence(&error))?;
    Ok(inventory.observed.namespaces.into_iter().map(|it| it.owner).collect())
}
