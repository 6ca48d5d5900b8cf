//! Sums the rabbits' free and total bytes for jobs, and names the computes of rabbits that give no storage.

use std::collections::BTreeSet;

use api::names::STORAGE_NAMESPACE;
use api::storage::{ResourceStatus, StorageState};
use api::{NnfNode, Storage};
use apiclient::list_readable;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use proto::v1::CapacityResponse;
use tonic::Status;
use workload::Refused;

use super::job::refusal_status;

/// Reads the capacity of all rabbits from the API.
///
/// # Errors
/// If the API does not answer. Rabbits whose objects cannot be read are left out of the sums.
pub(super) async fn read(client: &Client) -> Result<CapacityResponse, Status> {
    let failed = |what: &str| {
        let what = format!("list the {what}");
        move |source| refusal_status(&Refused { what, source })
    };
    let params = ListParams::default();
    let storages = list_readable(client.clone(), Some(STORAGE_NAMESPACE), &params).await;
    let storages = storages.map_err(failed("Storages"))?;
    let nodes = list_readable(client.clone(), None, &params).await.map_err(failed("NnfNodes"))?;
    storages.unreadable.iter().chain(&nodes.unreadable).for_each(|text| log::warn!("{text}"));
    Ok(sum(&storages.items, &nodes.items))
}

/// A rabbit with fewer free bytes is full.
const FULL: u64 = 1 << 30;

/// Sums the capacity of the rabbits that an administrator enabled and that are Ready or Degraded. The computes of other
/// rabbits, and of full ones, are to be avoided.
fn sum(storages: &[Storage], nodes: &[NnfNode]) -> CapacityResponse {
    let is_usable = |storage: &&Storage| {
        let status = storage.status.as_ref().and_then(|status| status.status.as_ref());
        storage.spec.state == StorageState::Enabled
            && matches!(status, Some(ResourceStatus::Ready | ResourceStatus::Degraded))
    };
    let usable: BTreeSet<String> =
        storages.iter().filter(is_usable).map(ResourceExt::name_any).collect();
    let mut capacity = CapacityResponse::default();
    let mut with_room = BTreeSet::new();
    for node in nodes {
        let rabbit = node.namespace().unwrap_or_default();
        let Some(status) = node.status.as_ref().filter(|_| usable.contains(&rabbit)) else {
            continue;
        };
        let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
        let (free, allocated) = (bytes(status.capacity), bytes(status.capacity_allocated));
        if free >= FULL {
            with_room.insert(rabbit);
        }
        capacity.free = capacity.free.saturating_add(free);
        capacity.total = capacity.total.saturating_add(free).saturating_add(allocated);
    }
    let without_room = storages.iter().filter(|storage| !with_room.contains(&storage.name_any()));
    let computes = without_room.filter_map(|storage| storage.status.as_ref());
    let computes = computes.flat_map(|status| &status.access.computes);
    let names: Vec<&str> = computes.map(|compute| compute.name.as_str()).collect();
    capacity.avoid = directive::hostlist::compress(&names);
    capacity
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn rabbit(name: &str, state: &str, status: &str, free: u64) -> (Storage, NnfNode) {
        let storage = json!({
            "metadata": {"name": name, "namespace": "default"}, "spec": {"state": state},
            "status": {"status": status, "capacity": 0, "access": {"computes": [{"name": format!("compute-{name}")}]}},
        });
        let node = json!({
            "metadata": {"name": "nnf-nlc", "namespace": name}, "spec": {"state": "Enable"},
            "status": {"capacity": free, "capacityAllocated": 12},
        });
        (from_value(storage).unwrap(), from_value(node).unwrap())
    }

    #[test]
    fn the_capacity_is_that_of_enabled_rabbits_that_are_ready_or_degraded() {
        let rabbits = [
            rabbit("1", "Enabled", "Ready", FULL),
            rabbit("2", "Disabled", "Ready", FULL),
            rabbit("3", "Enabled", "Offline", FULL),
            rabbit("4", "Enabled", "Degraded", FULL),
            rabbit("5", "Enabled", "Ready", FULL - 1),
        ];
        let (storages, nodes): (Vec<_>, Vec<_>) = rabbits.into_iter().unzip();
        let (free, avoid) = (3 * FULL - 1, "compute-[2-3,5]".to_owned());
        assert_eq!(sum(&storages, &nodes), CapacityResponse { total: free + 36, free, avoid });
        assert_eq!(sum(&[], &nodes), CapacityResponse::default());
    }
}
