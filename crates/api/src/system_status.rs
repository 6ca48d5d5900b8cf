//! `SystemStatus`: nodes that the workload manager counts as usable. Its body is under `data`; it has no status.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::Nested;
use crate::string_enum::string_enum;

string_enum! {
    /// Usability of a node.
    pub enum SystemNodeStatus {
        /// The node is usable.
        Enabled = "Enabled",
        /// The node is not usable; no state of a workflow waits for it.
        Disabled = "Disabled",
    }
}

/// Fields of the object beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "SystemStatus",
    plural = "systemstatuses",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "Usability of nodes as the workload manager knows it"
)]
#[serde(default)]
pub struct SystemStatusBody {
    /// Usability of nodes.
    #[serde(skip_serializing_if = "Nested::is_absent")]
    pub data: Nested<SystemStatusData>,
}

/// Usability of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SystemStatusData {
    /// Enabled or Disabled, by the node's name; nodes that are not listed count as usable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, SystemNodeStatus>,
}
