//! Places allocations when no workload manager does: fills Servers from the job's computes and the free
//! capacity of the rabbits.

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
    names::persistent_key,
    objects::{allocation::is_lustre, view::View},
    plan::{checks, lustre},
    progress::{Outcome, Progress, wlm_error},
};

/// Bytes of the smallest allocation that the engine places. Each file system needs more; mkfs checks that minimum.
const LEAST: u64 = 1;

/// Fills an empty Servers.
pub fn fill(view: &View<'_>, servers: &Servers, sets: &[StorageAllocationSet]) -> Progress {
    let after = match with_placement(view, servers, sets) {
        Ok(placed) => placed,
        Err(outcome) => return outcome.into(),
    };
    if let Err(outcome) = checks::space(view, &after) {
        return outcome.into();
    }
    Progress::default().with(Change::patch(servers, &after))
}

/// Returns a directive's Servers as the engine would fill it now; `None` if the Servers is filled already, and while
/// the Servers or the breakdown does not exist.
pub fn fill_if_empty(view: &View<'_>, index: usize) -> Option<Result<Servers, Outcome>> {
    let directive = &view.directives[index];
    let sets = directive.breakdown.as_ref()?.status.as_ref()?.storage.as_ref()?;
    let servers = directive.storage.servers.as_ref()?;
    servers
        .spec
        .allocation_sets
        .is_empty()
        .then(|| with_placement(view, servers, &sets.allocation_sets))
}

fn with_placement(
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
    let is_lustre = sets.iter().any(|set| is_lustre(&set.label));
    // A Lustre that outlives its job need not lie near the computes of any job.
    let is_anywhere = is_lustre && persistent_key(servers).is_some();
    if view.computes().next().is_none() && !is_anywhere {
        let (namespace, name) =
            (view.namespace(), servers.metadata.name.as_deref().unwrap_or_default());
        return Err(Outcome::Failed(wlm_error(format!(
            "Servers {namespace}/{name} names no rabbit, and Computes names no compute: fill Servers, or fill Computes and the engine places the storage beside them"
        ))));
    }
    if is_lustre {
        return lustre::place::place_sets(view, servers, sets);
    }
    let served = computes_by_rabbit(view)?;
    let wanted = sets.iter().map(to_wanted).collect::<Result<Vec<Wanted>, _>>()?;
    let placed = place(&wanted, &served, LEAST).map_err(|error| wlm_error(error.to_string()))?;
    Ok(placed.into_iter().map(to_servers_set).collect())
}

/// Returns how many of the job's computes each rabbit serves. The rabbits are in the order of the job's computes.
fn computes_by_rabbit(view: &View<'_>) -> Result<Vec<Served>, ResourceError> {
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
    let to_served = |rabbit: &str| Served {
        rabbit: rabbit.to_owned(),
        computes: counts.get(rabbit).copied().unwrap_or_default(),
    };
    Ok(order.into_iter().map(to_served).collect())
}

/// Converts an allocation set of the breakdown for the placement strategies.
///
/// # Errors
/// When its `minimumCapacity` is not positive.
pub fn to_wanted(set: &StorageAllocationSet) -> Result<Wanted, ResourceError> {
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

/// Converts a placed set for Servers.
pub fn to_servers_set(placed: PlacedSet) -> ServersAllocationSet {
    let storage = placed
        .storage
        .into_iter()
        .map(|part| ServersStorage { name: part.rabbit, allocation_count: i64::from(part.count) });
    ServersAllocationSet {
        label: placed.label,
        allocation_size: i64::try_from(placed.allocation_size).unwrap_or(i64::MAX),
        storage: storage.collect(),
    }
}
