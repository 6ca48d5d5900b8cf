//! Where allocations go when nobody says so: the engine fills Servers itself, from the computes and what the rabbits have free.

use std::collections::BTreeMap;

use api::{
    ResourceError, Servers,
    directive_breakdown::{AllocationStrategy, StorageAllocationSet},
    servers::{ServersAllocationSet, ServersStorage},
};
use directive::{
    breakdown::Strategy,
    placement::{PlacedSet, Served, Wanted, place},
};

use crate::{
    change::Change,
    names::persistent_of,
    plan::{checks, lustre},
    progress::{Outcome, Progress, wlm_error},
    view::View,
};

/// Bytes of the smallest allocation that is placed. What a file system needs at least its mkfs says.
const LEAST: u64 = 1;

/// Fills Servers in.
pub fn fill(view: &View<'_>, servers: &Servers, sets: &[StorageAllocationSet]) -> Progress {
    let after = match placed(view, servers, sets) {
        Ok(placed) => placed,
        Err(outcome) => return outcome.into(),
    };
    if let Err(outcome) = checks::space(view, &after) {
        return outcome.into();
    }
    Progress::default().with(Change::patch(servers, &after))
}

/// The Servers of a directive as the engine would fill it in now; `None` for one that is filled, or that nothing is known of.
pub fn unfilled(view: &View<'_>, index: usize) -> Option<Result<Servers, Outcome>> {
    let of = &view.directives[index];
    let sets = of.breakdown.as_ref()?.status.as_ref()?.storage.as_ref()?;
    let servers = of.storage.servers.as_ref()?;
    servers.spec.allocation_sets.is_empty().then(|| placed(view, servers, &sets.allocation_sets))
}

fn placed(
    view: &View<'_>,
    servers: &Servers,
    sets: &[StorageAllocationSet],
) -> Result<Servers, Outcome> {
    let mut placed = servers.clone();
    placed.spec.allocation_sets = placed_sets(view, servers, sets)?;
    Ok(placed)
}

fn placed_sets(
    view: &View<'_>,
    servers: &Servers,
    sets: &[StorageAllocationSet],
) -> Result<Vec<ServersAllocationSet>, Outcome> {
    let is_lustre = sets.iter().any(|set| lustre::place::is_lustre(&set.label));
    // A file system that outlives its job lies beside no job's computes.
    let is_anywhere = is_lustre && persistent_of(servers).is_some();
    if view.computes().next().is_none() && !is_anywhere {
        let (namespace, name) =
            (view.namespace(), servers.metadata.name.as_deref().unwrap_or_default());
        return Err(Outcome::Failed(wlm_error(format!(
            "Servers {namespace}/{name} names no rabbit and Computes no compute: fill Servers, or fill Computes and the engine places the storage beside them"
        ))));
    }
    if is_lustre {
        return lustre::place::placed(view, servers, sets);
    }
    let served = served(view)?;
    let wanted = sets.iter().map(wanted).collect::<Result<Vec<Wanted>, _>>()?;
    let placed = place(&wanted, &served, LEAST).map_err(|error| wlm_error(error.to_string()))?;
    Ok(placed.into_iter().map(set).collect())
}

/// How many of the job's computes each rabbit serves, rabbits in the job's order.
fn served(view: &View<'_>) -> Result<Vec<Served>, ResourceError> {
    let mut order: Vec<&str> = Vec::new();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for compute in view.computes() {
        let rabbit = view.site.rabbit_of.get(compute).ok_or_else(|| {
            wlm_error(format!(
                "Computes names {compute}, which no rabbit serves: name computes that SystemConfiguration default/default lists under a rabbit, or fill Servers"
            ))
        })?;
        let count = counts.entry(rabbit).or_default();
        if *count == 0 {
            order.push(rabbit);
        }
        *count += 1;
    }
    let one = |rabbit: &str| Served {
        rabbit: rabbit.to_owned(),
        computes: counts.get(rabbit).copied().unwrap_or_default(),
    };
    Ok(order.into_iter().map(one).collect())
}

/// A set as the strategies know it.
///
/// # Errors
/// When what it asks for cannot be meant.
pub fn wanted(set: &StorageAllocationSet) -> Result<Wanted, ResourceError> {
    Ok(Wanted {
        label: set.label.clone(),
        strategy: match set.allocation_strategy {
            AllocationStrategy::PerCompute => Strategy::PerCompute,
            AllocationStrategy::SingleServer => Strategy::SingleServer,
            AllocationStrategy::AcrossServers
            | AllocationStrategy::PerServer
            | AllocationStrategy::Other(_) => Strategy::AcrossServers,
        },
        minimum_capacity: checks::minimum(set)?,
        count: u32::try_from(set.constraints.count).ok().filter(|count| *count > 0),
    })
}

/// A set as it stands in Servers.
pub fn set(placed: PlacedSet) -> ServersAllocationSet {
    let storage = placed
        .storage
        .into_iter()
        .map(|one| ServersStorage { name: one.rabbit, allocation_count: i64::from(one.count) });
    ServersAllocationSet {
        label: placed.label,
        allocation_size: i64::try_from(placed.allocation_size).unwrap_or(i64::MAX),
        storage: storage.collect(),
    }
}
