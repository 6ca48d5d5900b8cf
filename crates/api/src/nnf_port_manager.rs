//! `NnfPortManager`: the ports of rabbits and their holders. The sites' controllers keep one object for all rabbits,
//! Warren keeps one for each rabbit.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// State of an allocation of ports.
    pub enum NnfPortManagerAllocationStatus {
        /// The requester holds the ports.
        InUse = "InUse",
        /// The ports are free.
        Free = "Free",
        /// The ports were released and may not be allocated again yet.
        Cooldown = "Cooldown",
        /// SystemConfiguration lists no ports.
        InvalidConfiguration = "InvalidConfiguration",
        /// Not enough ports are free.
        InsufficientResources = "InsufficientResources",
    }
}

string_enum! {
    /// Ability to allocate ports.
    pub enum NnfPortManagerState {
        /// SystemConfiguration lists ports.
        Ready = "Ready",
        /// No SystemConfiguration lists any ports.
        SystemConfigurationNotFound = "SystemConfigurationNotFound",
    }
}

/// Requests for ports.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nnf.cray.hpe.com",
    version = "v1alpha11",
    kind = "NnfPortManager",
    namespaced,
    status = "NnfPortManagerStatus",
    derive = "PartialEq",
    doc = "The ports of rabbits and their holders"
)]
#[serde(rename_all = "camelCase")]
pub struct NnfPortManagerSpec {
    /// Reference to the SystemConfiguration that lists the ports.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-map-type" = "atomic"))]
    pub system_configuration: ObjectReference,
    /// Requests for ports. Warren's engine writes the empty list, because the sites' CRD requires the field.
    #[serde(default)]
    #[schemars(!default)]
    pub allocations: Vec<NnfPortManagerRequest>,
}

/// A request for ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_count)]
pub struct NnfPortManagerRequest {
    /// Reference to the object that requests the ports.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-map-type" = "atomic"))]
    pub requester: ObjectReference,
    /// Number of ports.
    #[serde(default = "default_count")]
    #[schemars(schema_with = "schema::int")]
    pub count: i64,
}

fn default_count() -> i64 {
    1
}

fn require_count(request: &mut schemars::Schema) {
    schema::require(request, &["count"]);
}

/// Allocated ports and their holders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfPortManagerStatus {
    /// Allocations, one entry for each requester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NnfPortManagerAllocation>,
    /// Ready once SystemConfiguration lists ports.
    #[serde(default = "NnfPortManagerState::absent")]
    #[schemars(!default)]
    pub status: NnfPortManagerState,
}

/// Ports of one requester.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NnfPortManagerAllocation {
    /// Reference to the object that holds the ports or held them last.
    #[serde(default, skip_serializing_if = "Nested::is_absent")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub requester: Nested<ObjectReference>,
    /// Numbers of the ports. Any integer is read, so that one entry never makes the whole record unreadable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::ints")]
    pub ports: Vec<i64>,
    /// State of the ports: InUse, Free, Cooldown, InvalidConfiguration or InsufficientResources.
    #[serde(default = "NnfPortManagerAllocationStatus::absent")]
    #[schemars(!default)]
    pub status: NnfPortManagerAllocationStatus,
    /// Time at which the ports were released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub time_unallocated: Option<Time>,
}
