//! `NnfNodeBlockStorage`: the NVMe namespaces one rabbit makes, and the nodes they are attached to.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;

/// The block storage to make.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfNodeBlockStorage",
    namespaced,
    status = "NnfNodeBlockStorageStatus",
    derive = "PartialEq",
    doc = "Block storage on one rabbit's drives, and the nodes it is attached to",
    printcolumn(name = "READY", type_ = "string", json_path = ".status.ready"),
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NnfNodeBlockStorageSpec {
    /// Whether one allocation carries all file systems of the `NnfNodeStorage` of the same name.
    pub shared_allocation: bool,
    /// What to allocate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfNodeBlockStorageAllocationSpec>,
}

/// One allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeBlockStorageAllocationSpec {
    /// Bytes over all drives.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// Nodes that get the devices: the rabbit first, then the computes that mount now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<String>,
}

/// What was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfNodeBlockStorageStatus {
    /// One entry per entry of `spec.allocations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfNodeBlockStorageAllocationStatus>,
    /// What went wrong, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
    /// When the agent that made this status started: device paths of an earlier start do not hold. Left out until known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub pod_start_time: Option<Time>,
    /// Whether everything is allocated and attached as asked.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
}

/// One allocation as made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeBlockStorageAllocationStatus {
    /// The nodes that have it, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub accesses: BTreeMap<String, NnfNodeBlockStorageAccessStatus>,
    /// The namespaces it is made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<NnfNodeBlockStorageDeviceStatus>,
    /// Bytes over all drives, rounded up to what the drives can do.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity_allocated: i64,
    /// Id of the storage pool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_pool_id: String,
}

/// One node's access to an allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeBlockStorageAccessStatus {
    /// Device paths on the rabbit; empty for computes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_paths: Vec<String>,
    /// Id of the storage group: not empty means access is granted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_group_id: String,
}

/// One NVMe namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfNodeBlockStorageDeviceStatus {
    /// NQN of the drive's subsystem.
    #[serde(default, rename = "NQN")]
    #[schemars(!default)]
    pub nqn: String,
    /// Namespace id, decimal.
    #[serde(default)]
    #[schemars(!default)]
    pub namespace_id: String,
    /// Bytes of the namespace.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    pub capacity_allocated: i64,
}
