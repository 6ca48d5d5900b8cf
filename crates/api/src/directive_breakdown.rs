//! `DirectiveBreakdown`: what one directive needs of the machine, for the workload manager that places it.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// How allocations are spread over rabbits.
    pub enum AllocationStrategy {
        /// One for each compute, on its rabbit.
        PerCompute = "AllocatePerCompute",
        /// One for each rabbit. In the schema, and asked for by no directive.
        PerServer = "AllocatePerServer",
        /// One.
        SingleServer = "AllocateSingleServer",
        /// Any number that together are large enough.
        AcrossServers = "AllocateAcrossServers",
    }
}

string_enum! {
    /// How long storage lives.
    pub enum StorageLifetime {
        /// As long as the job.
        Job = "job",
        /// Until a directive destroys it.
        Persistent = "persistent",
    }
}

string_enum! {
    /// How a compute reaches storage.
    pub enum AccessType {
        /// Over PCI Express, in one chassis.
        Physical = "physical",
        /// Over the network.
        Network = "network",
    }
}

string_enum! {
    /// Whether it must.
    pub enum AccessPriority {
        /// It must.
        Mandatory = "mandatory",
        /// It should.
        BestEffort = "bestEffort",
    }
}

string_enum! {
    /// Whether allocations may share a rabbit.
    pub enum ColocationType {
        /// No two with one key.
        Exclusive = "exclusive",
    }
}

/// The directive.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "DirectiveBreakdown",
    namespaced,
    status = "DirectiveBreakdownStatus",
    derive = "PartialEq",
    doc = "What one directive needs of the machine",
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
    /// The `#DW` line.
    pub directive: String,
    /// Who owns the job.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
}

/// What it needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = schema::require_ready)]
pub struct DirectiveBreakdownStatus {
    /// Storage to allocate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageBreakdown>,
    /// Where the computes must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<ComputeBreakdown>,
    /// Whether the rest is filled in.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// Words that the directive asked for with `requires`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// What went wrong, if anything did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}

/// Storage to allocate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageBreakdown {
    /// How long it lives.
    #[serde(default = "StorageLifetime::unsaid")]
    #[schemars(!default)]
    pub lifetime: StorageLifetime,
    /// The Servers to fill in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: Option<ObjectReference>,
    /// Sets of like allocations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocation_sets: Vec<StorageAllocationSet>,
}

/// A set of like allocations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageAllocationSet {
    /// How they are spread.
    #[serde(default = "AllocationStrategy::unsaid")]
    #[schemars(!default)]
    pub allocation_strategy: AllocationStrategy,
    /// Bytes: of each for one per compute, else of all together.
    #[serde(default)]
    #[schemars(!default, extend("minimum" = 1))]
    pub minimum_capacity: i64,
    /// What they are for: `xfs`, `gfs2`, `raw`, `mgt`, `mdt`, `mgtmdt` or `ost`.
    #[serde(default)]
    #[schemars(!default, extend("enum" = ["raw", "xfs", "gfs2", "mgt", "mdt", "mgtmdt", "ost"]))]
    pub label: String,
    /// Which rabbits will do.
    #[serde(default)]
    #[schemars(!default)]
    pub constraints: AllocationSetConstraints,
}

/// Which rabbits will do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationSetConstraints {
    /// Labels of the rabbit's Storage, as `key=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// From few (1) to many (10) rabbits; a hint.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1, "maximum" = 10))]
    pub scale: i64,
    /// Exactly so many allocations.
    #[serde(skip_serializing_if = "crate::omit::is_zero")]
    #[schemars(schema_with = "schema::int", extend("minimum" = 1))]
    pub count: i64,
    /// What they must not share a rabbit with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub colocation: Vec<AllocationSetColocation>,
}

/// What allocations must not share a rabbit with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationSetColocation {
    /// In which way.
    #[serde(rename = "type", default = "ColocationType::unsaid")]
    #[schemars(!default)]
    pub kind: ColocationType,
    /// With others of this key.
    #[serde(default)]
    #[schemars(!default)]
    pub key: String,
}

/// Where the computes must be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComputeBreakdown {
    /// What they must reach.
    #[serde(default)]
    #[schemars(!default)]
    pub constraints: ComputeConstraints,
}

/// What computes must reach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComputeConstraints {
    /// Each allocation set in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub location: Vec<ComputeLocationConstraint>,
}

/// How computes must reach an allocation set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputeLocationConstraint {
    /// In these ways.
    #[serde(default)]
    #[schemars(!default)]
    pub access: Vec<ComputeLocationAccess>,
    /// The allocation set, by a field of a Servers.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-map-type" = "atomic"))]
    pub reference: ObjectReference,
}

/// A way to reach storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputeLocationAccess {
    /// Which.
    #[serde(rename = "type", default = "AccessType::unsaid")]
    #[schemars(!default)]
    pub kind: AccessType,
    /// Whether it must be.
    #[serde(default = "AccessPriority::unsaid")]
    #[schemars(!default)]
    pub priority: AccessPriority,
}
