//! A PersistentVolume of Kubernetes, as controllers watch, create and delete it.

use std::borrow::Cow;

use k8s_openapi::{
    api::core::v1::PersistentVolume as Whole, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Serialize};

/// A PersistentVolume of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersistentVolume(pub Whole);

/// PersistentVolumes are in no namespace. As for `KubernetesNode`, lists and watches over all namespaces of a namespaced kind ask the
/// same paths; who creates or deletes one addresses it without a namespace.
impl Resource for PersistentVolume {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "PersistentVolume".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "persistentvolumes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}
