//! Of a Kubernetes Node, what the workflow engine reads: its taints. The whole object would hold every image of every node in memory.

use k8s_openapi::{api::core::v1::NodeSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::cluster_kind::cluster_kind;

/// A Kubernetes Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KubernetesNode {
    /// Name and version.
    pub metadata: ObjectMeta,
    /// Taints among others.
    #[serde(default)]
    pub spec: NodeSpec,
}

cluster_kind!(KubernetesNode, "Node", "nodes", metadata);

impl KubernetesNode {
    /// The key of a taint that begins so, if the Node has one.
    #[must_use]
    pub fn taint(&self, prefix: &str) -> Option<&str> {
        let mut keys = self.spec.taints.iter().flatten().map(|taint| taint.key.as_str());
        keys.find(|key| key.starts_with(prefix))
    }
}
