//! `NnfPortManager`: who has which ports of rabbits. The sites' controllers keep one for all rabbits, Warren one for each.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// What became of a request.
    pub enum NnfPortManagerAllocationStatus {
        /// The requester has the ports.
        InUse = "InUse",
        /// Nobody has them.
        Free = "Free",
        /// Nobody has them, and nobody gets them yet.
        Cooldown = "Cooldown",
        /// The site lists no ports.
        InvalidConfiguration = "InvalidConfiguration",
        /// Not enough are free.
        InsufficientResources = "InsufficientResources",
    }
}

string_enum! {
    /// Whether ports can be given.
    pub enum NnfPortManagerState {
        /// They can.
        Ready = "Ready",
        /// No SystemConfiguration lists any.
        SystemConfigurationNotFound = "SystemConfigurationNotFound",
    }
}

/// Who asks for ports.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfPortManager",
    namespaced,
    status = "NnfPortManagerStatus",
    derive = "PartialEq",
    doc = "Who has which ports of rabbits"
)]
#[serde(rename_all = "camelCase")]
pub struct NnfPortManagerSpec {
    /// The SystemConfiguration that lists the ports.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-map-type" = "atomic"))]
    pub system_configuration: ObjectReference,
    /// The requests; Warren's engine makes none, and writes the empty list: the sites' definition requires it.
    #[serde(default)]
    #[schemars(!default)]
    pub allocations: Vec<NnfPortManagerRequest>,
}

/// A request for ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_count)]
pub struct NnfPortManagerRequest {
    /// Who asks.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-map-type" = "atomic"))]
    pub requester: ObjectReference,
    /// How many.
    #[serde(default = "one")]
    #[schemars(schema_with = "schema::int")]
    pub count: i64,
}

fn one() -> i64 {
    1
}

fn require_count(request: &mut schemars::Schema) {
    schema::require(request, &["count"]);
}

/// Who has ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfPortManagerStatus {
    /// By requester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfPortManagerAllocation>,
    /// Whether ports can be given.
    #[serde(default = "NnfPortManagerState::unsaid")]
    #[schemars(!default)]
    pub status: NnfPortManagerState,
}

/// Ports of one requester.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfPortManagerAllocation {
    /// Who has them, or had them last.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub requester: Nested<ObjectReference>,
    /// Port numbers. Any integer is read, so that one entry never hides the record of a rabbit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::ints")]
    pub ports: Vec<i64>,
    /// Whether they are in use.
    #[serde(default = "NnfPortManagerAllocationStatus::unsaid")]
    #[schemars(!default)]
    pub status: NnfPortManagerAllocationStatus,
    /// Since when nobody has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub time_unallocated: Option<Time>,
}
