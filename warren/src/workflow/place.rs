//! Where a workflow's allocations go when the command is the workload manager: on the rabbits of its computes. Pure.

use api::SystemConfiguration;
use api::directive_breakdown::{AllocationStrategy, StorageAllocationSet, StorageBreakdown};
use api::servers::{ServersAllocationSet, ServersStorage};
use directive::breakdown::Strategy;
use directive::placement::{self, PlacedSet, Served, Wanted};

use crate::failure::Failure;
use nodeclient::Exit;

/// Which rabbit serves how many of the computes, in the order in which the computes name them.
///
/// # Errors
/// When no rabbit serves one of them.
pub(crate) fn served(
    system: &SystemConfiguration,
    computes: &[String],
) -> Result<Vec<Served>, Failure> {
    let mut served: Vec<Served> = Vec::new();
    let mut strangers = Vec::new();
    for compute in computes {
        let Some(rabbit) = rabbit_of(system, compute) else {
            strangers.push(compute.as_str());
            continue;
        };
        match served.iter_mut().find(|served| served.rabbit == rabbit) {
            Some(served) => served.computes += 1,
            None => served.push(Served { rabbit: rabbit.to_owned(), computes: 1 }),
        }
    }
    if strangers.is_empty() {
        return Ok(served);
    }
    let what = format!("--nodes: no rabbit serves {}", directive::hostlist::compress(&strangers));
    Err(Failure::new(Exit::Usage, what)
        .remedy("name computes of the SystemConfiguration: `warren get systemconfiguration default -o yaml`"))
}

fn rabbit_of<'a>(system: &'a SystemConfiguration, compute: &str) -> Option<&'a str> {
    let serves = |access: &api::system_configuration::ComputeAccess| access.name == compute;
    let rabbit =
        system.spec.storage_nodes.iter().find(|node| node.computes_access.iter().any(serves))?;
    Some(&rabbit.name)
}

/// The allocation sets for the Servers of a breakdown.
///
/// # Errors
/// When there is no rabbit, or the breakdown cannot be meant.
pub(crate) fn sets(
    breakdown: &StorageBreakdown,
    served: &[Served],
) -> Result<Vec<ServersAllocationSet>, Failure> {
    let wanted = breakdown.allocation_sets.iter().map(wanted).collect::<Result<Vec<_>, _>>()?;
    let placed = placement::place(&wanted, served, 1)
        .map_err(|error| Failure::new(Exit::Usage, "place the allocations").because(&error))?;
    placed.into_iter().map(in_servers).collect()
}

fn wanted(set: &StorageAllocationSet) -> Result<Wanted, Failure> {
    let minimum_capacity = u64::try_from(set.minimum_capacity).map_err(|error| {
        let what =
            format!("the breakdown's minimumCapacity of {} is {}", set.label, set.minimum_capacity);
        Failure::new(Exit::Failed, what).because(&error)
    })?;
    Ok(Wanted {
        label: set.label.clone(),
        strategy: match set.allocation_strategy {
            AllocationStrategy::PerCompute => Strategy::PerCompute,
            AllocationStrategy::SingleServer => Strategy::SingleServer,
            // As Flux takes what it does not know.
            AllocationStrategy::AcrossServers
            | AllocationStrategy::PerServer
            | AllocationStrategy::Other(_) => Strategy::AcrossServers,
        },
        minimum_capacity,
        count: u32::try_from(set.constraints.count).ok().filter(|count| *count > 0),
    })
}

fn in_servers(placed: PlacedSet) -> Result<ServersAllocationSet, Failure> {
    let allocation_size = i64::try_from(placed.allocation_size).map_err(|error| {
        Failure::new(Exit::Failed, format!("an allocation of {} bytes", placed.allocation_size))
            .because(&error)
    })?;
    let storage = placed.storage.into_iter().map(|placed| ServersStorage {
        name: placed.rabbit,
        allocation_count: i64::from(placed.count),
    });
    Ok(ServersAllocationSet { label: placed.label, allocation_size, storage: storage.collect() })
}

#[cfg(test)]
mod tests;
