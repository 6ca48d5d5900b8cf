//! `Servers`: which rabbits a directive's allocations were put on, filled in by the workload manager.
//!
//! Agents only read it, and whoever makes it brings its definition: it is not among [`crate::crds`].

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Who holds what.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "Servers",
    plural = "servers",
    namespaced,
    derive = "PartialEq",
    doc = "The rabbits that a directive's allocations are on"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ServersSpec {
    /// Sets of like allocations; one label may come more than once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_sets: Vec<ServersAllocationSet>,
}

/// Allocations of one label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServersAllocationSet {
    /// What they are for: `xfs`, `gfs2`, `raw`, `mgt`, `mdt`, `mgtmdt` or `ost`.
    pub label: String,
    /// Bytes of each.
    #[serde(default)]
    pub allocation_size: i64,
    /// Where they are.
    #[serde(default)]
    pub storage: Vec<ServersStorage>,
}

/// Allocations on one rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServersStorage {
    /// The rabbit.
    pub name: String,
    /// How many of them.
    #[schemars(schema_with = "schema::int")]
    pub allocation_count: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_as_a_workload_manager_fills_it_is_read() {
        let object: Servers = serde_json::from_value(serde_json::json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Servers",
            "metadata": {"name": "fluxjob-4-0", "namespace": "default"},
            "spec": {"allocationSets": [{
                "allocationSize": 100_000_000_000_u64, "label": "ost",
                "storage": [{"allocationCount": 2, "name": "rabbit-1"}]}]},
            "status": {"ready": true, "lastUpdate": "2026-11-20T12:00:07.348548Z", "allocationSets": [
                {"label": "ost", "storage": {"rabbit-1": {"allocationSize": 200_000_012_288_u64, "ready": true}}}]}
        }))
        .unwrap();
        let set = &object.spec.allocation_sets[0];
        assert_eq!((&*set.label, set.allocation_size), ("ost", 100_000_000_000));
        let storage = ServersStorage { name: "rabbit-1".into(), allocation_count: 2 };
        assert_eq!(set.storage, [storage]);
    }
}
