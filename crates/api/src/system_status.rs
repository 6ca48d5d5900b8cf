//! `SystemStatus`: which nodes the workload manager counts as usable. Its body is under `data`; it has no status.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::string_enum::string_enum;

string_enum! {
    /// Whether a node is usable.
    pub enum SystemNodeStatus {
        /// It is.
        Enabled = "Enabled",
        /// It is not, and nobody should wait for it.
        Disabled = "Disabled",
    }
}

/// What stands beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "SystemStatus",
    plural = "systemstatuses",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "Which nodes the workload manager counts as usable"
)]
#[serde(default)]
pub struct SystemStatusBody {
    /// The nodes.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub data: Nested<SystemStatusData>,
}

/// The nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SystemStatusData {
    /// Each node that was spoken of, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, SystemNodeStatus>,
}
