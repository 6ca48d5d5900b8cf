//! Of a Kubernetes Node, what the workflow engine reads: its taints. The whole object would hold every image of every node in memory.

use std::borrow::Cow;

use k8s_openapi::{api::core::v1::NodeSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Serialize};

/// A Kubernetes Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KubernetesNode {
    /// Name and version.
    pub metadata: ObjectMeta,
    /// Taints among others.
    #[serde(default)]
    pub spec: NodeSpec,
}

/// Nodes are in no namespace. Lists and watches over all namespaces of a namespaced kind ask the same paths, and these are all that
/// controllers make.
impl Resource for KubernetesNode {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl KubernetesNode {
    /// The key of a taint that begins so, if the Node has one.
    #[must_use]
    pub fn taint(&self, prefix: &str) -> Option<&str> {
        let mut keys = self.spec.taints.iter().flatten().map(|taint| taint.key.as_str());
        keys.find(|key| key.starts_with(prefix))
    }
}
