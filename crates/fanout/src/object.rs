//! API objects as the fanout keeps them: the few fields that it decides by, and the JSON that it sends to nodes.

use std::collections::BTreeMap;

use api::ClientMountStatus;
use api::names::{finalizer, label};
use controller::precedes;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
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
    pub uid: String,
    pub generation: i64,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
}

/// One ClientMount.
#[derive(Clone, Debug, PartialEq)]
pub struct MountObject {
    pub key: Key,
    pub version: Version,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    pub finalizers: Vec<String>,
    /// `spec.node`, the node that the object is meant for.
    pub node: String,
    /// `spec.desiredState`: `mounted` or `unmounted`.
    pub desired_state: String,
    /// Number of entries of `spec.mounts`; the status must have as many.
    pub mounts: usize,
    pub status: Option<Value>,
    /// The whole object as the API gave it, without `managedFields`.
    pub json: Vec<u8>,
}

/// One NnfStorageProfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileObject {
    pub key: Key,
    pub resource_version: String,
    /// The whole object as the API gave it, without `managedFields`.
    pub json: Vec<u8>,
}

impl MountObject {
    /// Reads a ClientMount, or names the field that is missing although every object of an API server has it.
    pub fn read(mut object: DynamicObject) -> Result<Self, String> {
        let (key, resource_version) = identity("ClientMount", &mut object)?;
        let json = json(&object);
        let at = |pointer: &str| object.data.pointer(pointer);
        let text =
            |pointer: &str| at(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let metadata = &object.metadata;
        let no_uid = || format!("read ClientMount {key}: no metadata.uid");
        Ok(Self {
            version: Version {
                uid: metadata.uid.clone().ok_or_else(no_uid)?,
                generation: metadata.generation.unwrap_or_default(),
                deleting: metadata.deletion_timestamp.is_some(),
                labels: metadata.labels.clone().unwrap_or_default(),
            },
            resource_version,
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            node: text("/spec/node"),
            desired_state: text("/spec/desiredState"),
            mounts: at("/spec/mounts").and_then(Value::as_array).map_or(0, Vec::len),
            status: at("/status").filter(|status| !status.is_null()).cloned(),
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
    pub(crate) fn is_provably_unmounted(&self) -> bool {
        self.version.deleting
            && self.has_finalizer()
            && self.desired_state == "unmounted"
            && self.says_unmounted()
    }

    /// Whether the object has no other finalizer than the ClientMount's.
    pub(crate) fn has_no_other_finalizer(&self) -> bool {
        self.finalizers.iter().all(|name| name == finalizer::CLIENT_MOUNT)
    }

    /// The pinned profile that the object's labels name, or a text for the user that names the missing label.
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
    /// Reads a NnfStorageProfile, or names the field that is missing although every object of an API server has it.
    pub fn read(mut object: DynamicObject) -> Result<Self, String> {
        let (key, resource_version) = identity("NnfStorageProfile", &mut object)?;
        Ok(Self { key, resource_version, json: json(&object) })
    }
}

fn json(object: &DynamicObject) -> Vec<u8> {
    serde_json::to_vec(object).expect("metadata and a JSON value always encode")
}

fn identity(kind: &str, object: &mut DynamicObject) -> Result<(Key, String), String> {
    let metadata = &mut object.metadata;
    metadata.managed_fields = None;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let key = Key { namespace: text(&metadata.namespace), name: text(&metadata.name) };
    let version = text(&metadata.resource_version);
    let fields =
        [("name", &key.name), ("namespace", &key.namespace), ("resourceVersion", &version)];
    let missing = fields.into_iter().find(|(_, value)| value.is_empty()).map(|(field, _)| field);
    match missing {
        Some(field) => Err(format!("read {kind} {key}: no metadata.{field}")),
        None => Ok((key, version)),
    }
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
