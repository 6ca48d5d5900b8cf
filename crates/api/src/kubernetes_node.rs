//! A Kubernetes Node reduced to the fields that the workflow engine reads. The whole object would keep the image list
//! of every node in memory.

use k8s_openapi::{api::core::v1::NodeSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::cluster_kind::cluster_kind;

/// A Kubernetes Node without its status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KubernetesNode {
    /// Metadata: name, labels and resource version.
    pub metadata: ObjectMeta,
    /// Spec, of which the engine reads the taints.
    #[serde(default)]
    pub spec: NodeSpec,
}

cluster_kind!(KubernetesNode, "Node", "nodes", metadata);

impl KubernetesNode {
    /// Returns the key of the Node's first taint whose key begins with `prefix`.
    #[must_use]
    pub fn taint_with_prefix(&self, prefix: &str) -> Option<&str> {
        let mut keys = self.spec.taints.iter().flatten().map(|taint| taint.key.as_str());
        keys.find(|key| key.starts_with(prefix))
    }
}
