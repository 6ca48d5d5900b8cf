//! Computes the status of a NnfNodeBlockStorage from the observation of the drives. Does no I/O.

mod roll_back;
mod start;
#[cfg(test)]
mod tests;

pub use roll_back::{drives_unreadable, is_deleted, is_lack_of_room, is_lost, to_roll_back};
pub use start::{is_current, is_observed_by, latest_start, started_after};

use std::collections::{BTreeMap, BTreeSet};

use api::{
    NnfNodeBlockStorage, NnfNodeBlockStorageStatus, ResourceError,
    nnf_node_block_storage::{
        NnfNodeBlockStorageAccessStatus, NnfNodeBlockStorageAllocationStatus,
        NnfNodeBlockStorageDeviceStatus,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use storage::{
    ConvergeError, Converged, Observed,
    desired::{Allocation, AllocationId, Endpoint, NamespaceId},
    observed::{Namespace, NamespaceOwner},
    plan::missing_namespaces,
};

pub type Outcome = Result<Converged, ConvergeError>;

/// Returns the status after every allocation converged or failed.
///
/// `podStartTime` says that the agent that started at this time found all device paths in the status. A failed
/// allocation keeps its last report, whose paths may be outdated: so `podStartTime` becomes `started` only when all
/// allocations were observed. An allocation whose drives are all away counts as observed: its report has
/// no paths, and the other allocations are used or torn down without it. `rolled_back` allocations are reported as if
/// they had never been made.
pub fn status(
    object: &NnfNodeBlockStorage,
    allocations: &[Allocation],
    outcomes: &[Outcome],
    rolled_back: &[AllocationId],
    started: &Time,
    error: Option<ResourceError>,
) -> NnfNodeBlockStorageStatus {
    let before = object.status.clone().unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let allocations: Vec<_> = allocations
        .iter()
        .zip(outcomes)
        .enumerate()
        .map(|(index, (allocation, outcome))| match outcome {
            _ if rolled_back.contains(&allocation.id) => {
                NnfNodeBlockStorageAllocationStatus::default()
            }
            Ok(converged) => {
                allocation_status(&format!("{name}-{index}"), allocation, &converged.observed)
            }
            Err(error) => {
                let known = before.allocations.get(index).cloned().unwrap_or_default();
                if is_lost(error) { without_paths(known) } else { known }
            }
        })
        .collect();
    let all_made = outcomes.iter().all(Result::is_ok);
    let all_seen = outcomes.iter().all(|outcome| outcome.as_ref().err().is_none_or(is_lost));
    NnfNodeBlockStorageStatus {
        ready: allocations.iter().all(|allocation| !allocation.devices.is_empty())
            && (all_made || before.ready),
        pod_start_time: if all_seen { Some(started.clone()) } else { before.pod_start_time },
        allocations,
        error,
    }
}

/// Returns the status of an invalid object: the present status, with the error.
pub fn with_error(object: &NnfNodeBlockStorage, error: ResourceError) -> NnfNodeBlockStorageStatus {
    NnfNodeBlockStorageStatus { error: Some(error), ..object.status.clone().unwrap_or_default() }
}

/// Removes the device paths. Keeps the list of computes: a drive that this rabbit cannot reach may
/// still serve the computes.
fn without_paths(
    mut known: NnfNodeBlockStorageAllocationStatus,
) -> NnfNodeBlockStorageAllocationStatus {
    known.accesses.values_mut().for_each(|access| access.device_paths.clear());
    known
}

fn allocation_status(
    pool: &str,
    allocation: &Allocation,
    observed: &Observed,
) -> NnfNodeBlockStorageAllocationStatus {
    let missing: BTreeSet<_> = missing_namespaces(allocation, observed)
        .into_iter()
        .map(|namespace| namespace.id)
        .collect();
    let ours = NamespaceOwner::Ours(allocation.id);
    // A namespace that must still be zeroed is no part of the allocation yet.
    let is_usable = |namespace: &&Namespace| namespace.owner == ours && !namespace.needs_zeroing;
    let ours: Vec<&Namespace> = observed.namespaces.iter().filter(is_usable).collect();
    if ours.is_empty() {
        return NnfNodeBlockStorageAllocationStatus::default();
    }
    let mut devices: BTreeMap<_, _> = ours
        .iter()
        .map(|namespace| (namespace.id.clone(), device(&namespace.id, namespace.size)))
        .collect();
    // A reported namespace that is missing stays listed, because the agent does not replace it. It is listed with the
    // size of the allocation's other namespaces, whatever size the status gives.
    let each = ours.iter().map(|namespace| namespace.size).max().unwrap_or_default();
    for reported in allocation.reported.iter().filter(|reported| missing.contains(&reported.id)) {
        devices.entry(reported.id.clone()).or_insert_with(|| device(&reported.id, each));
    }
    let mut reached = ours;
    reached.retain(|namespace| !missing.contains(&namespace.id));
    reached.sort_by(|a, b| a.id.cmp(&b.id));
    let devices: Vec<_> = devices.into_values().collect();
    NnfNodeBlockStorageAllocationStatus {
        accesses: accesses(pool, allocation, &reached),
        capacity_allocated: devices.iter().map(|device| device.capacity_allocated).sum(),
        storage_pool_id: pool.to_owned(),
        devices,
    }
}

/// Returns the hosts that have access to every namespace that the rabbit can reach.
fn accesses(
    pool: &str,
    allocation: &Allocation,
    reached: &[&Namespace],
) -> BTreeMap<String, NnfNodeBlockStorageAccessStatus> {
    if reached.is_empty() {
        return BTreeMap::new();
    }
    let granted = allocation
        .access
        .iter()
        .filter(|access| reached.iter().all(|namespace| namespace.is_attached_to(access)));
    let reported = granted.map(|access| {
        let device_paths = match access.endpoint {
            Endpoint::Rabbit => reached
                .iter()
                .filter_map(|namespace| Some(namespace.device.as_ref()?.display().to_string()))
                .collect(),
            Endpoint::Compute(_) => Vec::new(),
        };
        let storage_group_id = format!("{pool}-{}", access.endpoint.number());
        (
            access.node.to_string(),
            NnfNodeBlockStorageAccessStatus { device_paths, storage_group_id },
        )
    });
    reported.collect()
}

fn device(id: &NamespaceId, size: u64) -> NnfNodeBlockStorageDeviceStatus {
    NnfNodeBlockStorageDeviceStatus {
        nqn: id.subsystem.to_string(),
        namespace_id: id.nsid.to_string(),
        capacity_allocated: i64::try_from(size).unwrap_or(i64::MAX),
    }
}

pub fn has_devices(status: &NnfNodeBlockStorageStatus) -> bool {
    status.allocations.iter().any(|allocation| !allocation.devices.is_empty())
}
