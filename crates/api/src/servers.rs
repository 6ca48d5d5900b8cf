//! `Servers`: the rabbits that hold a directive's allocations. The workload manager fills it in; agents only read it.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::micro_time::MicroTime;
use crate::schema;

/// Rabbits that the workload manager has chosen for a directive's allocations.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "Servers",
    plural = "servers",
    namespaced,
    status = "ServersStatus",
    derive = "PartialEq",
    doc = "The rabbits that a directive's allocations are on",
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct ServersSpec {
    /// Allocation sets; several sets may have the same label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_sets: Vec<ServersAllocationSet>,
}

/// Allocations of one size and label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServersAllocationSet {
    /// Purpose of the allocations: `xfs`, `gfs2`, `raw`, `mgt`, `mdt`, `mgtmdt` or `ost`.
    pub label: String,
    /// Size of each allocation, in bytes.
    #[serde(default)]
    #[schemars(!default, extend("minimum" = 1))]
    pub allocation_size: i64,
    /// Rabbits that hold the allocations.
    #[serde(default)]
    #[schemars(!default)]
    pub storage: Vec<ServersStorage>,
}

/// Allocations on one rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServersStorage {
    /// Name of the rabbit.
    pub name: String,
    /// Number of allocations on the rabbit.
    #[schemars(schema_with = "schema::int", extend("minimum" = 1))]
    pub allocation_count: i64,
}

/// Allocations that the rabbits have made, by label and rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = schema::require_ready)]
pub struct ServersStatus {
    /// True once all allocations exist; stays true afterwards.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// Time at which the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<MicroTime>,
    /// Allocation sets of the spec, with the bytes that the rabbits have allocated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_sets: Vec<ServersStatusAllocationSet>,
    /// Fault that keeps the allocations from being made; absent without fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// Allocations that the rabbits have made for one label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServersStatusAllocationSet {
    /// Label of the allocation set in the spec.
    #[serde(default)]
    #[schemars(!default)]
    pub label: String,
    /// Allocations of each rabbit, by the rabbit's name.
    #[serde(default)]
    #[schemars(!default)]
    pub storage: BTreeMap<String, ServersStatusStorage>,
}

/// Allocations that one rabbit has made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServersStatusStorage {
    /// Bytes on all drives together, for all allocations of the label.
    #[serde(default)]
    #[schemars(!default)]
    pub allocation_size: i64,
    /// True once the allocations are usable.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
}
