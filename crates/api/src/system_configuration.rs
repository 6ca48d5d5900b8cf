//! `SystemConfiguration`: rabbits and the computes that each serves. Administrators fill it in.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ResourceError;
use crate::number_or_text::NumberOrText;
use crate::schema;

/// Rabbits and computes of the system.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "SystemConfiguration",
    namespaced,
    status = "SystemConfigurationStatus",
    derive = "PartialEq",
    doc = "The rabbits and computes of the system, and how they are wired",
    printcolumn(
        name = "READY",
        type_ = "boolean",
        json_path = ".status.ready",
        description = "True if SystemConfiguration is reconciled"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_cooldown)]
pub struct SystemConfigurationSpec {
    /// Computes that no rabbit serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_compute_nodes: Vec<ExternalComputeNode>,
    /// Rabbits of the system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_nodes: Vec<StorageNode>,
    /// Ports of the rabbits for jobs' containers: single numbers, or `START-END` with both ends included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<NumberOrText>,
    /// Seconds until a released port is given to another job: the kernel keeps a closed port in TIME_WAIT that long.
    #[serde(default = "default_cooldown")]
    #[schemars(schema_with = "schema::int")]
    pub ports_cooldown_in_seconds: i64,
}

fn default_cooldown() -> i64 {
    60
}

fn require_cooldown(spec: &mut schemars::Schema) {
    schema::require(spec, &["portsCooldownInSeconds"]);
}

impl Default for SystemConfigurationSpec {
    fn default() -> Self {
        Self {
            external_compute_nodes: Vec::new(),
            storage_nodes: Vec::new(),
            ports: Vec::new(),
            ports_cooldown_in_seconds: default_cooldown(),
        }
    }
}

/// A compute that no rabbit serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExternalComputeNode {
    /// Host name of the compute.
    pub name: String,
}

/// A rabbit and the computes in its chassis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageNode {
    /// Type of the storage node: `Rabbit`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Host name of the rabbit.
    pub name: String,
    /// Computes in the rabbit's chassis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computes_access: Vec<ComputeAccess>,
}

/// A compute and its port of the PCIe switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputeAccess {
    /// Host name of the compute.
    pub name: String,
    /// Port of the PCIe switch, 0 to 15: `Compute <index>` there, endpoint `index + 1`. Gaps are normal.
    #[schemars(schema_with = "schema::int")]
    pub index: i64,
}

/// Progress of the controller that reads the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemConfigurationStatus {
    /// True once the controller has applied the configuration.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// Fault of the configuration; absent without fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResourceError>,
}
