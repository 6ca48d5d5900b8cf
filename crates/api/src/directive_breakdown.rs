//! `DirectiveBreakdown`: storage and computes that one directive needs; the workload manager reads it to place the job.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// Spread of allocations over rabbits.
    pub enum AllocationStrategy {
        /// One allocation for each compute, on the rabbit of that compute.
        PerCompute = "AllocatePerCompute",
        /// One allocation for each rabbit. Part of the schema; no directive asks for it.
        PerServer = "AllocatePerServer",
        /// A single allocation on one rabbit.
        SingleServer = "AllocateSingleServer",
        /// Any number of allocations that together have the capacity.
        AcrossServers = "AllocateAcrossServers",
    }
}

string_enum! {
    /// Lifetime of storage.
    pub enum StorageLifetime {
        /// The storage is deleted with the job.
        Job = "job",
        /// The storage stays until a `destroy_persistent` directive deletes it.
        Persistent = "persistent",
    }
}

string_enum! {
    /// Path from a compute to the storage.
    pub enum AccessType {
        /// Over PCI Express, within one chassis.
        Physical = "physical",
        /// Over the network, from any compute.
        Network = "network",
    }
}

string_enum! {
    /// Strength of a requirement on the computes.
    pub enum AccessPriority {
        /// The workload manager must meet it.
        Mandatory = "mandatory",
        /// The workload manager should meet it.
        BestEffort = "bestEffort",
    }
}

string_enum! {
    /// Rule for allocations that share a rabbit.
    pub enum ColocationType {
        /// No two allocations with the same key share a rabbit.
        Exclusive = "exclusive",
    }
}

/// The directive and its user.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "DirectiveBreakdown",
    namespaced,
    status = "DirectiveBreakdownStatus",
    derive = "PartialEq",
    doc = "Storage and computes that one directive needs",
    printcolumn(
        name = "READY",
        type_ = "boolean",
        json_path = ".status.ready",
        description = "True if allocation sets have been generated"
    ),
    printcolumn(name = "ERROR", type_ = "string", json_path = ".status.error.severity"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct DirectiveBreakdownSpec {
    /// The `#DW` line of the job script.
    pub directive: String,
    /// User id (UID) of the job's owner.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
}

/// Storage and computes that the directive needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = schema::require_ready)]
pub struct DirectiveBreakdownStatus {
    /// Storage that the directive needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageBreakdown>,
    /// Requirements on the computes of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<ComputeBreakdown>,
    /// True once `storage` and `compute` are complete.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// Words of the directive's `requires` argument, for the workload manager.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// Fault that keeps the directive from being broken down; absent without fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// Storage that the directive needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageBreakdown {
    /// Lifetime of the storage: `job` or `persistent`.
    #[serde(default = "StorageLifetime::absent")]
    #[schemars(!default)]
    pub lifetime: StorageLifetime,
    /// Reference to the Servers object in which the workload manager enters the rabbits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Option<ObjectReference>,
    /// Allocation sets: each holds allocations of one size and label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocation_sets: Vec<StorageAllocationSet>,
}

/// Allocations of one size and label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageAllocationSet {
    /// Spread of the allocations over rabbits.
    #[serde(default = "AllocationStrategy::absent")]
    #[schemars(!default)]
    pub allocation_strategy: AllocationStrategy,
    /// Bytes: of each allocation with AllocatePerCompute, else of all allocations together.
    #[serde(default)]
    #[schemars(!default, extend("minimum" = 1))]
    pub minimum_capacity: i64,
    /// Purpose of the allocations: `xfs`, `gfs2`, `raw`, `mgt`, `mdt`, `mgtmdt` or `ost`.
    #[serde(default)]
    #[schemars(!default, extend("enum" = ["raw", "xfs", "gfs2", "mgt", "mdt", "mgtmdt", "ost"]))]
    pub label: String,
    /// Rabbits that the workload manager may choose.
    #[serde(default)]
    #[schemars(!default)]
    pub constraints: AllocationSetConstraints,
}

/// Rabbits that the workload manager may choose for an allocation set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationSetConstraints {
    /// Labels that the rabbit's Storage object must have, as `key=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Number of rabbits to use, from few (1) to many (10); a hint.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1, "maximum" = 10))]
    pub scale: i64,
    /// Exact number of allocations; absent for no such limit.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1))]
    pub count: i64,
    /// Allocations that must not share a rabbit with these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub colocation: Vec<AllocationSetColocation>,
}

/// Allocations that must not share a rabbit: those with the same key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationSetColocation {
    /// Rule: `exclusive` allows one allocation with the key on a rabbit.
    #[serde(rename = "type", default = "ColocationType::absent")]
    #[schemars(!default)]
    pub kind: ColocationType,
    /// Key by which allocations are compared.
    #[serde(default)]
    #[schemars(!default)]
    pub key: String,
}

/// Requirements on the computes of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComputeBreakdown {
    /// Requirements that each compute must meet.
    #[serde(default)]
    #[schemars(!default)]
    pub constraints: ComputeConstraints,
}

/// Requirements that each compute must meet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComputeConstraints {
    /// Requirements for each allocation set of the storage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub location: Vec<ComputeLocationConstraint>,
}

/// Requirement on the path from a compute to one allocation set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputeLocationConstraint {
    /// Paths that satisfy the requirement, with their strength.
    #[serde(default)]
    #[schemars(!default)]
    pub access: Vec<ComputeLocationAccess>,
    /// Allocation set, as a reference to a field of a Servers object.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: ObjectReference,
}

/// A path from a compute to the storage, and whether it is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputeLocationAccess {
    /// Path: `physical` (PCI Express) or `network`.
    #[serde(rename = "type", default = "AccessType::absent")]
    #[schemars(!default)]
    pub kind: AccessType,
    /// Strength: `mandatory` or `bestEffort`.
    #[serde(default = "AccessPriority::absent")]
    #[schemars(!default)]
    pub priority: AccessPriority,
}
