//! Plans for a NnfNodeBlockStorage.

use std::{collections::BTreeSet, sync::Arc};

use agent::error::Failure;
use storage::{
    ConvergeError, Converger, Desired, Observed, Step,
    desired::{Allocation, AllocationId},
    observed::{NamespaceOwner, Unready},
    plan::first_steps,
};

use super::{
    Planned,
    cost::{DataOwner, Stake, with_cost},
};
use crate::{
    core::{Cache, Context},
    kinds::block_storage::{
        desired::{AllocationPolicy, uid},
        report::{drives_unreadable, is_lack_of_room},
        view::{BlockStorageView, Work, owned, without_record},
    },
};

pub(super) async fn plan(context: &Context, cache: &Cache, view: BlockStorageView) -> Planned {
    let owner = DataOwner::of_block(&view.object, cache);
    match view.work(&context.started) {
        Work::Nothing => Planned::default(),
        Work::Allocate => match view.allocations(&context.fences, context.policy) {
            Ok(allocations) => {
                let converger = Arc::clone(&context.converger);
                daemon::blocking(move || allocate(&converger, &allocations, &owner)).await
            }
            Err(error) => Planned::refused(&Failure::from(&error)),
        },
        Work::Keep { .. } => {
            let name = view.object.metadata.name.clone().unwrap_or_default();
            let storages: Vec<_> = cache
                .storages_on(&name)
                .filter_map(|storage| storage.metadata.name.clone())
                .collect();
            let waiting = format!("waits until NnfNodeStorage {} is gone", storages.join(", "));
            Planned { waiting: Some(waiting), ..release(context, view, owner).await }
        }
        Work::Unlock | Work::Release => release(context, view, owner).await,
    }
}

/// Plans the allocations, each as if those before it were made already.
fn allocate(converger: &Converger, allocations: &[Allocation], owner: &DataOwner) -> Planned {
    let (mut planned, mut made, mut lacks_room) = (Planned::default(), Vec::new(), false);
    for (index, allocation) in allocations.iter().enumerate() {
        match allocate_one(converger, allocation, &made) {
            Ok((steps, observed)) => {
                let stake = Stake { owner, observed: &observed, is_removed: false };
                let texts = steps.iter().map(|step| with_cost(step, stake));
                planned.steps.extend(texts);
                planned.steps.extend(attachments(allocation, &steps));
                made.extend(steps);
            }
            Err(error) => {
                lacks_room |= is_lack_of_room(&error);
                planned.add(&format!("allocation {index}"), Err(error));
            }
        }
    }
    if lacks_room {
        // A pass gives everything back that it made for an object that cannot have all of its allocations.
        planned.steps.clear();
    }
    planned
}

fn allocate_one(
    converger: &Converger,
    allocation: &Allocation,
    made: &[Step],
) -> Result<(Vec<Step>, Observed), ConvergeError> {
    let unit = Desired::Allocated(allocation.clone());
    let mut observed = converger.observe(&unit).map_err(ConvergeError::Observe)?;
    made.iter().for_each(|step| occupy(&mut observed, step));
    let mut steps = first_steps(&unit, &observed)?;
    if adopt(&mut observed, &steps) {
        steps.extend(first_steps(&unit, &observed)?);
    }
    Ok((steps, observed))
}

/// Carries out in an observation what an earlier allocation needs: its drives are ready, and its namespaces take bytes.
fn occupy(observed: &mut Observed, step: &Step) {
    let Some(nqn) = step.drive() else { return };
    for drive in observed.drives.iter_mut().filter(|drive| drive.nqn == *nqn) {
        drive.unready = Unready::default();
        if let Step::CreateNamespace { size, .. } = step {
            drive.allocated = drive.allocated.saturating_add(*size);
        }
    }
    if let (Step::CreateNamespace { size, .. }, Some(pool)) = (step, &mut observed.pool) {
        pool.promised = pool.promised.saturating_add(*size);
    }
}

/// Carries out the adoptions among `steps` in an observation, and returns whether there are any.
fn adopt(observed: &mut Observed, steps: &[Step]) -> bool {
    let mut has_adopted = false;
    for step in steps {
        let Step::AdoptNamespace { id, allocation, .. } = step else { continue };
        let same = observed.namespaces.iter_mut().filter(|namespace| namespace.id == *id);
        same.for_each(|namespace| namespace.owner = NamespaceOwner::Ours(*allocation));
        has_adopted = true;
    }
    has_adopted
}

/// Returns texts about the attachments of new namespaces. These steps are planned only once the drives have chosen the
/// NSIDs.
fn attachments(allocation: &Allocation, steps: &[Step]) -> Vec<String> {
    let is_new = |step: &&Step| matches!(step, Step::CreateNamespace { .. });
    if !steps.iter().any(|step| is_new(&step)) {
        return Vec::new();
    }
    let count = steps.iter().filter(is_new).count();
    let what = if count == 1 {
        "the new namespace".to_owned()
    } else {
        format!("the {count} new namespaces")
    };
    let attach = |access: &storage::desired::Access| {
        format!("attach {what} to {} (endpoint {})", access.node, access.endpoint.number())
    };
    allocation.access.iter().map(attach).collect()
}

async fn release(context: &Context, view: BlockStorageView, owner: DataOwner) -> Planned {
    let (converger, policy) = (Arc::clone(&context.converger), context.policy);
    let released = daemon::blocking(move || release_all(&converger, &view, policy, &owner)).await;
    released.unwrap_or_else(|failure| Planned::refused(&failure))
}

/// Plans the release of every namespace of the object.
fn release_all(
    converger: &Converger,
    view: &BlockStorageView,
    policy: AllocationPolicy,
    owner: &DataOwner,
) -> Result<Planned, Failure> {
    let failed = |error| Failure::of_convergence(&ConvergeError::Observe(error));
    let object = uid(&view.object).map_err(|error| Failure::from(&error))?;
    let seen = converger.observe(&Desired::Inventory).map_err(failed)?;
    if let Some(failure) = drives_unreadable(&view.object, &seen) {
        return Err(failure);
    }
    let lost = without_record(view, policy, &seen);
    let ids: BTreeSet<_> = lost.keys().copied().chain(owned(&seen, object)).collect();
    let mut planned = Planned::default();
    for id in ids {
        let part = format!("allocation {}", id.index);
        planned.add(&part, release_one(converger, id, lost.get(&id), owner));
    }
    Ok(planned)
}

fn release_one(
    converger: &Converger,
    id: AllocationId,
    lost: Option<&Allocation>,
    owner: &DataOwner,
) -> Result<Vec<String>, ConvergeError> {
    let unit = Desired::Released(id);
    let mut observed = converger.observe(&unit).map_err(ConvergeError::Observe)?;
    let adoption = lost.map(|allocation| Desired::Adopted(allocation.clone()));
    let adoption = adoption.map_or(Ok(Vec::new()), |unit| converger.plan(&unit))?;
    adopt(&mut observed, &adoption);
    let steps = adoption.into_iter().chain(first_steps(&unit, &observed)?);
    let stake = Stake::of_unit(&unit, owner, &observed);
    Ok(steps.map(|step| with_cost(&step, stake)).collect())
}
