//! API objects in the fanout: the fields by which the fanout decides, and the JSON that it sends to nodes.

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
    /// Creates the key of `namespace/name`.
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

/// The fields of a ClientMount that a node acts on: objects with equal versions request the same of the node, even if
/// their statuses or annotations differ. The API raises `generation` with every change of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub uid: String,
    pub generation: i64,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
}

/// The fields of a ClientMount that the fanout uses, and the whole object as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct MountObject {
    pub key: Key,
    pub version: Version,
    /// `metadata.resourceVersion` of the object.
    pub resource_version: String,
    pub finalizers: Vec<String>,
    /// `spec.node`, the node that is to mount the object's storage.
    pub node: String,
    /// `spec.desiredState`: `mounted` or `unmounted`.
    pub desired_state: String,
    /// Number of entries of `spec.mounts`; `status.mounts` must have as many entries.
    pub mounts: usize,
    pub status: Option<Value>,
    /// The whole object from the API, without `managedFields`.
    pub json: Vec<u8>,
}

/// The fields of an NnfStorageProfile that the fanout uses, and the whole object as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileObject {
    pub key: Key,
    pub resource_version: String,
    /// The whole object from the API, without `managedFields`.
    pub json: Vec<u8>,
}

impl MountObject {
    /// Reads a ClientMount. Fails if a field is missing that every API server sets; the error names the field.
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

    /// Returns whether the object carries the ClientMount finalizer.
    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|name| name == finalizer::CLIENT_MOUNT)
    }

    /// Returns whether the status says that all mounts of the object are unmounted.
    pub(crate) fn says_unmounted(&self) -> bool {
        let status = self.status.clone().map(ClientMountStatus::deserialize);
        status.is_some_and(|status| status.is_ok_and(|status| status.says_unmounted(self.mounts)))
    }

    /// Returns whether the object lets its node mount: the object is not deleted, and its desired
    /// state is not `unmounted`.
    pub(crate) fn may_be_mounted(&self) -> bool {
        !self.version.deleting && self.desired_state != "unmounted"
    }

    /// Returns whether the finalizer may be removed although the node is not connected: the object is deleted, and
    /// its status proves that the node has unmounted the object's storage.
    ///
    /// The status is proof because of two rules. First, a node's report is stored only while the object still has the
    /// generation that the node reported on: a patch names the resourceVersion, and the writer drops a status for
    /// another generation. Second, before a coordinator sends a node an object that may be mounted, the coordinator
    /// replaces a status that says "unmounted". An agent in direct mode (without a coordinator) replaces it too, and so
    /// does the Go daemon that Warren's agent replaces. So the object cannot be mounted while the status says
    /// "unmounted".
    pub(crate) fn is_provably_unmounted(&self) -> bool {
        self.version.deleting
            && self.has_finalizer()
            && self.desired_state == "unmounted"
            && self.says_unmounted()
    }

    /// Returns whether the object has no finalizer but the ClientMount's.
    pub(crate) fn has_no_other_finalizer(&self) -> bool {
        self.finalizers.iter().all(|name| name == finalizer::CLIENT_MOUNT)
    }

    /// Returns the pinned profile that the object's labels name, or a text for the user about the missing label.
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

    /// Returns whether both are versions of the same object, and this version is earlier than `other`.
    pub(crate) fn older_than(&self, other: &Self) -> bool {
        self.version.uid == other.version.uid
            && precedes(&self.resource_version, &other.resource_version)
    }
}

impl ProfileObject {
    /// Reads an NnfStorageProfile. Fails if a field is missing that every API server sets; the error names the field.
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

    /// Returns a ClientMount of `node` with this generation and resourceVersion.
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
    fn unknown_fields_are_sent_and_managed_fields_are_not() {
        let json: Value = serde_json::from_slice(&mount("n1", "a", 1, 5).json).unwrap();
        assert_eq!(json["spec"]["later"], 1);
        assert_eq!(json["kind"], "ClientMount");
        assert!(json["metadata"].get("managedFields").is_none());
    }

    #[test]
    fn of_two_versions_of_one_object_the_one_with_the_smaller_resource_version_is_older() {
        assert!(mount("n1", "a", 1, 9).older_than(&mount("n1", "a", 1, 10)));
        assert!(!mount("n1", "b", 1, 9).older_than(&mount("n1", "a", 1, 10)));
    }

    #[test]
    fn the_error_for_a_missing_profile_label_names_the_label() {
        let mut object = mount("n1", "a", 1, 1);
        assert_eq!(object.profile().unwrap(), Key::new("default", "pinned"));
        object.version.labels.remove(label::PINNED_PROFILE_NAME);
        assert!(object.profile().unwrap_err().contains("pinned_storage_profile_name"));
    }
}
