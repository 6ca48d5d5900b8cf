//! Traits of the objects that controllers read and patch.

use std::fmt::Debug;

use kube::{Resource, ResourceExt, core::NamespaceResourceScope};
use serde::{Serialize, de::DeserializeOwned};

/// A namespaced kind that controllers read and patch.
pub trait Object: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Value {}
impl<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Value> Object for K {}

/// The other properties of such an object.
pub trait Value: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<V: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static> Value for V {}

/// Returns kind, namespace and name of an object, for logs and messages.
#[must_use]
pub fn describe<K: Object>(object: &K) -> String {
    format!("{} {}/{}", K::kind(&()), object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns whether the object has this finalizer.
#[must_use]
pub fn has_finalizer<K: Object>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|name| name == finalizer)
}
