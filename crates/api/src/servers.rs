//! `Servers`: which rabbits a directive's allocations were put on, filled in by the workload manager. Agents only read it.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::micro_time::MicroTime;
use crate::schema;

/// Who holds what.
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
    #[schemars(!default, extend("minimum" = 1))]
    pub allocation_size: i64,
    /// Where they are.
    #[serde(default)]
    #[schemars(!default)]
    pub storage: Vec<ServersStorage>,
}

/// Allocations on one rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServersStorage {
    /// The rabbit.
    pub name: String,
    /// How many of them.
    #[schemars(schema_with = "schema::int", extend("minimum" = 1))]
    pub allocation_count: i64,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = schema::require_ready)]
pub struct ServersStatus {
    /// Whether all of them were made; it stays so.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// When the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<MicroTime>,
    /// As in the spec, with what was allocated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_sets: Vec<ServersStatusAllocationSet>,
    /// What went wrong, if anything did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// What was allocated of one label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServersStatusAllocationSet {
    /// As in the spec.
    #[serde(default)]
    #[schemars(!default)]
    pub label: String,
    /// By rabbit.
    #[serde(default)]
    #[schemars(!default)]
    pub storage: BTreeMap<String, ServersStatusStorage>,
}

/// What was allocated on one rabbit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServersStatusStorage {
    /// Bytes over all drives, of all allocations of the label.
    #[serde(default)]
    #[schemars(!default)]
    pub allocation_size: i64,
    /// Whether they are usable.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
}
