//! API objects as the fanout keeps them: the few fields that it decides by, and the JSON that it sends to nodes.

use std::collections::BTreeMap;

use api::ClientMountStatus;
use api::names::{finalizer, label};
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The fields of a ClientMount that a node acts on: two objects with equal versions ask the same of the node, whatever their
/// status or annotations say. The API raises `generation` with every change of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
}

/// One ClientMount.
#[derive(Clone, Debug, PartialEq)]
pub struct MountObject {
    /// Namespace and name.
    pub key: Key,
    /// The fields that a node acts on.
    pub version: Version,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// `spec.node`, the node that the object is meant for.
    pub node: String,
    /// `spec.desiredState`.
    pub desired_state: String,
    /// Number of entries of `spec.mounts`; the status must have as many.
    pub mounts: usize,
    /// `status`.
    pub status: Option<Value>,
    /// The whole object as the API gave it, without `managedFields`.
    pub json: Vec<u8>,
}

/// One NnfStorageProfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileObject {
    /// Namespace and name.
    pub key: Key,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// The whole object as the API gave it, without `managedFields`.
    pub json: Vec<u8>,
}

/// An object lacks a field that every object of an API server has.
#[derive(Debug, Error)]
#[error("read {kind} {namespace}/{name}: no {field}")]
pub struct IncompleteObject {
    kind: &'static str,
    namespace: String,
    name: String,
    field: &'static str,
}

impl MountObject {
    /// Reads a ClientMount.
    ///
    /// # Errors
    /// When it lacks name, namespace, uid, resourceVersion, or cannot be encoded.
    pub fn read(mut object: DynamicObject) -> Result<Self, IncompleteObject> {
        let (key, resource_version) = identity("ClientMount", &mut object)?;
        let missing = |field| incomplete("ClientMount", &key, field);
        let json = serde_json::to_vec(&object).map_err(|_| missing("encodable content"))?;
        let metadata = object.metadata;
        let spec = object.data.get("spec");
        let text = |field| {
            spec.and_then(|spec| spec.get(field))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Self {
            version: Version {
                uid: metadata.uid.ok_or_else(|| missing("metadata.uid"))?,
                generation: metadata.generation.unwrap_or_default(),
                deleting: metadata.deletion_timestamp.is_some(),
                labels: metadata.labels.unwrap_or_default(),
            },
            resource_version,
            finalizers: metadata.finalizers.unwrap_or_default(),
            node: text("node"),
            desired_state: text("desiredState"),
            mounts: spec
                .and_then(|spec| spec.get("mounts"))
                .and_then(Value::as_array)
                .map_or(0, Vec::len),
            status: object.data.get("status").filter(|status| !status.is_null()).cloned(),
            json,
            key,
        })
    }

    /// Whether the object carries the ClientMount finalizer.
    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|name| name == finalizer::CLIENT_MOUNT)
    }

    /// Whether the status says that nothing of the object is mounted on the node.
    pub(crate) fn says_unmounted(&self) -> bool {
        let status = self.status.clone().map(ClientMountStatus::deserialize);
        status.is_some_and(|status| status.is_ok_and(|status| status.says_unmounted(self.mounts)))
    }

    /// Whether a node that receives the object may mount something.
    pub(crate) fn may_be_mounted(&self) -> bool {
        !self.version.deleting && self.desired_state != "unmounted"
    }

    /// Whether the finalizer may go although the node is not connected: the object is deleted, and its status proves that the node
    /// has nothing of it mounted.
    ///
    /// The status is proof because of two rules. A report is written only to the generation that the node reported on: a patch
    /// names the resourceVersion, and the writer drops a status for another generation. And a coordinator takes the statement back
    /// in the status before it sends a node an object that it may mount; an agent in direct mode does the same, and so does the Go
    /// daemon, which resets the status first. So nothing can be mounted while the statement stands.
    pub(crate) fn is_left_by_node(&self) -> bool {
        self.version.deleting
            && self.has_finalizer()
            && self.desired_state == "unmounted"
            && self.says_unmounted()
    }

    /// Whether the object has no other finalizer than the ClientMount's.
    pub(crate) fn has_no_other_finalizer(&self) -> bool {
        self.finalizers.iter().all(|name| name == finalizer::CLIENT_MOUNT)
    }

    /// The pinned profile that the object's labels name.
    ///
    /// # Errors
    /// With a text for the user that names the missing label.
    pub(crate) fn profile(&self) -> Result<Key, String> {
        let get = |key: &str| {
            self.version.labels.get(key).filter(|value| !value.is_empty()).ok_or_else(|| {
                format!(
                    "ClientMount {} has no label {key}: add it, with the pinned NnfStorageProfile of the workflow",
                    self.key
                )
            })
        };
        Ok(Key::new(get(label::PINNED_PROFILE_NAMESPACE)?, get(label::PINNED_PROFILE_NAME)?))
    }

    /// Whether this is an earlier version of the same object than `other`.
    pub(crate) fn older_than(&self, other: &Self) -> bool {
        self.version.uid == other.version.uid
            && precedes(&self.resource_version, &other.resource_version)
    }
}

impl ProfileObject {
    /// Reads a NnfStorageProfile.
    ///
    /// # Errors
    /// When it lacks name, namespace, resourceVersion, or cannot be encoded.
    pub fn read(mut object: DynamicObject) -> Result<Self, IncompleteObject> {
        let (key, resource_version) = identity("NnfStorageProfile", &mut object)?;
        let json = serde_json::to_vec(&object)
            .map_err(|_| incomplete("NnfStorageProfile", &key, "encodable content"))?;
        Ok(Self { key, resource_version, json })
    }
}

/// Whether resourceVersion `left` is earlier than `right`. They are decimal numbers that grow (Kubernetes documentation,
/// "Resource versions", since 1.35); anything else is never earlier.
pub(crate) fn precedes(left: &str, right: &str) -> bool {
    matches!((left.parse::<u64>(), right.parse::<u64>()), (Ok(left), Ok(right)) if left < right)
}

fn identity(
    kind: &'static str,
    object: &mut DynamicObject,
) -> Result<(Key, String), IncompleteObject> {
    let metadata = &mut object.metadata;
    metadata.managed_fields = None;
    let key = Key {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    if key.name.is_empty() {
        return Err(incomplete(kind, &key, "metadata.name"));
    }
    if key.namespace.is_empty() {
        return Err(incomplete(kind, &key, "metadata.namespace"));
    }
    let version = metadata
        .resource_version
        .clone()
        .ok_or_else(|| incomplete(kind, &key, "metadata.resourceVersion"))?;
    Ok((key, version))
}

fn incomplete(kind: &'static str, key: &Key, field: &'static str) -> IncompleteObject {
    IncompleteObject { kind, namespace: key.namespace.clone(), name: key.name.clone(), field }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A ClientMount of `node` in the given state of life.
    pub(crate) fn mount(
        node: &str,
        name: &str,
        generation: i64,
        resource_version: u64,
    ) -> MountObject {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7",
            "kind": "ClientMount",
            "metadata": {
                "namespace": node, "name": name, "uid": format!("uid-{name}"),
                "generation": generation, "resourceVersion": resource_version.to_string(),
                "finalizers": [finalizer::CLIENT_MOUNT],
                "labels": {
                    label::PINNED_PROFILE_NAME: "pinned",
                    label::PINNED_PROFILE_NAMESPACE: "default",
                },
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"node": node, "desiredState": "mounted", "mounts": [{"mountPath": "/mnt/nnf/a"}], "later": 1},
        }))
        .unwrap();
        MountObject::read(object).unwrap()
    }

    #[test]
    fn unknown_fields_travel_and_managed_fields_do_not() {
        let json: Value = serde_json::from_slice(&mount("n1", "a", 1, 5).json).unwrap();
        assert_eq!(json["spec"]["later"], 1);
        assert_eq!(json["kind"], "ClientMount");
        assert!(json["metadata"].get("managedFields").is_none());
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(precedes("9", "10"));
        assert!(!precedes("10", "10"));
        assert!(!precedes("x", "10"));
        assert!(mount("n1", "a", 1, 9).older_than(&mount("n1", "a", 1, 10)));
        assert!(!mount("n1", "b", 1, 9).older_than(&mount("n1", "a", 1, 10)));
    }

    #[test]
    fn missing_profile_label_is_named() {
        let mut object = mount("n1", "a", 1, 1);
        assert_eq!(object.profile().unwrap(), Key::new("default", "pinned"));
        object.version.labels.remove(label::PINNED_PROFILE_NAME);
        assert!(object.profile().unwrap_err().contains("pinned_storage_profile_name"));
    }
}
