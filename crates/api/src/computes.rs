//! `Computes`: the nodes of a job, filled in by the workload manager. Its body is under `data`; it has no status.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields of the object beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "Computes",
    plural = "computes",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "The compute nodes of one job, in the job's order"
)]
#[serde(default)]
pub struct ComputesBody {
    /// Compute nodes, in the job's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<ComputesData>,
}

/// One compute node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputesData {
    /// Host name of the node.
    pub name: String,
}

impl Computes {
    /// Returns the host names of the computes, in the job's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.spec.data.iter().map(|compute| compute.name.as_str())
    }
}
