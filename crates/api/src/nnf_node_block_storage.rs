//! `NnfNodeBlockStorage`: NVMe namespaces of one rabbit, and the nodes that they are attached to.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;

/// NVMe namespaces that the rabbit shall create and attach.
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
    /// Whether a single allocation holds all file systems of the `NnfNodeStorage` of the same name.
    pub shared_allocation: bool,
    /// Allocations to create; each consists of NVMe namespaces on several drives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfNodeBlockStorageAllocationSpec>,
}

/// One allocation to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeBlockStorageAllocationSpec {
    /// Size of the allocation over all drives together, in bytes.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    pub capacity: i64,
    /// Nodes that the devices are attached to: the rabbit first, then the computes that mount at present.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<String>,
}

/// NVMe namespaces that the rabbit has created and attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfNodeBlockStorageStatus {
    /// Allocations that exist, one entry for each entry of `spec.allocations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfNodeBlockStorageAllocationStatus>,
    /// Fault that keeps the storage from being created or attached; absent without fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
    /// Start time of the agent that wrote this status: device paths of an earlier start are
    /// invalid. Absent until known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub pod_start_time: Option<Time>,
    /// True once all allocations exist and are attached as the spec asks.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
}

/// One allocation that exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NnfNodeBlockStorageAllocationStatus {
    /// Nodes that the allocation is attached to, by node name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub accesses: BTreeMap<String, NnfNodeBlockStorageAccessStatus>,
    /// NVMe namespaces of the allocation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<NnfNodeBlockStorageDeviceStatus>,
    /// Size over all drives together in bytes, rounded up to the drives' granularity.
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
    /// Paths of the devices on the rabbit; empty for computes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_paths: Vec<String>,
    /// Id of the storage group; a non-empty id means that access is granted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_group_id: String,
}

/// One NVMe namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfNodeBlockStorageDeviceStatus {
    /// NQN of the drive's NVMe subsystem.
    #[serde(default, rename = "NQN")]
    #[schemars(!default)]
    pub nqn: String,
    /// NVMe namespace id, as decimal text.
    #[serde(default)]
    #[schemars(!default)]
    pub namespace_id: String,
    /// Size of the namespace, in bytes.
    #[serde(default, skip_serializing_if = "crate::omit::is_zero")]
    pub capacity_allocated: i64,
}
