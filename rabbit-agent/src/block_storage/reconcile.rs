//! Brings one NnfNodeBlockStorage to its desired state.

use controller::{describe, has_finalizer, patch::WriteError};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use agent::error::Failure;
use api::{NnfNodeBlockStorage, names::finalizer};
use daemon::chain;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use storage::{
    Converged, Desired, Observed, Step,
    desired::{Allocation, AllocationId, Endpoint, NamespaceId, ObjectUid},
    observed::NamespaceOwner,
    plan::missing_namespaces,
};

use super::{
    desired::{AllocationPolicy, BlockStorageError, Elsewhere, from_status, uid, without_fenced},
    events,
    report::{self, Outcome},
};
use crate::{
    cache::{Cache, Key},
    chassis::Chassis,
    failure::{self, combined, no_room},
    fence::{Fences, is_shared},
    pass::{Context, Pass, converge},
};

/// The part of the cache that a pass over a NnfNodeBlockStorage reads.
#[derive(Debug)]
pub struct BlockStorageView {
    pub object: Arc<NnfNodeBlockStorage>,
    pub chassis: Chassis,
    pub elsewhere: Elsewhere,
    /// Whether a NnfNodeStorage uses the block storage.
    pub in_use: bool,
    /// Names of the ClientMounts of this rabbit that use the block storage's allocations.
    pub mounts: Vec<String>,
}

/// The work of a pass over a NnfNodeBlockStorage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Makes the allocations, and attaches their namespaces.
    Allocate,
    /// The object is being deleted, but file systems lie on its devices: waits for their tear-down. With `to_refresh`,
    /// attaches the namespaces again and looks up their device paths.
    Keep { to_refresh: bool },
    /// Removes the finalizer of a NnfNodeStorage that is gone.
    Unlock,
    /// Releases all namespaces.
    Release,
    /// The object is being deleted, and the agent has released all namespaces.
    Nothing,
}

impl BlockStorageView {
    /// Returns the view of the object with this name; `None` if the cache has no such object.
    pub fn new(cache: &Cache, name: &str) -> Option<Self> {
        Some(Self {
            object: Arc::clone(cache.block_storage(name)?),
            chassis: cache.chassis(),
            elsewhere: cache.reported_elsewhere(name),
            in_use: cache.is_in_use(name),
            mounts: cache.mounts_on(name),
        })
    }

    /// Returns the work of a pass of the agent that started at `started`.
    pub fn work(&self, started: &Time) -> Work {
        let object = &*self.object;
        if object.metadata.deletion_timestamp.is_none() {
            return Work::Allocate;
        }
        if !has_finalizer(object, finalizer::NNF_NODE_BLOCK_STORAGE) {
            return Work::Nothing;
        }
        if !has_finalizer(object, finalizer::NNF_NODE_STORAGE) {
            return Work::Release;
        }
        if !self.in_use {
            return Work::Unlock;
        }
        // Devices that failed may be back, and the tear-down of the file systems needs them.
        let to_refresh = object.status.as_ref().is_some_and(|status| {
            let is_seen = report::is_observed_by(status, started) && status.error.is_none();
            report::has_devices(status) && !is_seen
        });
        Work::Keep { to_refresh }
    }

    /// Returns the allocations that the object asks for.
    pub fn allocations(
        &self,
        fences: &Fences,
        policy: AllocationPolicy,
    ) -> Result<Vec<Allocation>, BlockStorageError> {
        without_fenced(&self.object, &self.chassis, policy, &self.elsewhere, fences)
    }

    /// Converges the units. For a GFS2, uses the converger that asks for permission before each attachment: a
    /// compute that was fenced after the pass began gets no access.
    async fn allocate(&self, context: &Context, units: Vec<Desired>) -> Vec<Outcome> {
        let is_shared = is_shared(&self.object.metadata);
        converge(if is_shared { &context.gated } else { &context.converger }, units).await
    }
}

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
    let outcomes = view.allocate(context, units).await;
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
    let mut kept = view.allocate(context, units).await.into_iter();
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
    let seen = inventory(context).await?;
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

/// Returns the allocations in the object's status that have a namespace without an entry in the ledger.
pub fn without_record(
    view: &BlockStorageView,
    policy: AllocationPolicy,
    seen: &Observed,
) -> BTreeMap<AllocationId, Allocation> {
    let mut lost = BTreeMap::new();
    match from_status(&view.object, policy, &view.elsewhere) {
        Ok(reported) => {
            lost.extend(reported.into_iter().map(|allocation| (allocation.id, allocation)));
        }
        Err(error) => log::warn!(
            "{}: namespaces without a record cannot be found through the status: {}",
            describe(&*view.object),
            chain(&error)
        ),
    }
    lost.retain(|_, allocation| {
        allocation.reported.iter().any(|reported| has_no_record(&reported.id, seen))
    });
    lost
}

fn has_no_record(id: &NamespaceId, seen: &Observed) -> bool {
    let mut same_id = seen.namespaces.iter().filter(|namespace| namespace.id == *id);
    same_id.any(|namespace| namespace.owner == NamespaceOwner::Unknown)
}

async fn inventory(context: &Context) -> Result<Observed, Failure> {
    let results = context.converge(vec![Desired::Inventory]).await;
    let inventory = results.into_iter().next().expect("each unit that is converged has a result");
    inventory.map(|converged| converged.observed).map_err(|error| Failure::of_convergence(&error))
}

/// Returns the object's allocations that have an entry in a ledger. An allocation counts even if its namespace is gone
/// from the drive: otherwise the entry would outlive the object.
pub fn owned(seen: &Observed, owner: ObjectUid) -> impl Iterator<Item = AllocationId> {
    let owners =
        seen.namespaces.iter().map(|namespace| &namespace.owner).chain(seen.vanished.values());
    owners.filter_map(NamespaceOwner::allocation).filter(move |id| id.owner == owner)
}

#[cfg(test)]
mod tests;
