//! One API object: metadata, which the server interprets, and a body, which only the schema of its kind describes.

use crate::status::Status;
use crate::value::{self, type_name};
use hyper::body::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Finalizer of an owner that waits for its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependents are to be orphaned.
pub(crate) const ORPHAN: &str = "orphan";

/// Identity of an object. Keys are ordered as kube-apiserver lists objects: by resource, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) resource: Arc<str>,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    /// Returns the key of a cluster-scoped object.
    pub(crate) fn global(resource: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: String::new(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.resource, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.resource, self.name),
        }
    }
}

/// A decoded object: type, metadata and body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) meta: ObjectMeta,
    /// All members but `apiVersion`, `kind` and `metadata`.
    pub(crate) body: Map<String, Value>,
}

/// Replaces null values of labels, annotations and finalizers by empty strings, as Go's decoder does.
fn without_nulls(mut meta: Value) -> Value {
    let empty = |value: &mut Value| {
        if value.is_null() {
            *value = json!("");
        }
    };
    for field in ["labels", "annotations"] {
        let members = meta.get_mut(field).and_then(Value::as_object_mut);
        members.into_iter().flat_map(Map::values_mut).for_each(empty);
    }
    let finalizers = meta.get_mut("finalizers").and_then(Value::as_array_mut);
    finalizers.into_iter().flatten().for_each(empty);
    meta
}

impl Object {
    /// Splits a JSON value into type, metadata and body.
    pub(crate) fn from_value(value: Value) -> Result<Self, Status> {
        let Value::Object(mut body) = value else {
            return Err(Status::bad_request(format!(
                "the body must be a JSON object, not {}",
                type_name(&value)
            )));
        };
        let api_version = take_string(&mut body, "apiVersion")?;
        let kind = take_string(&mut body, "kind")?;
        let meta = match body.remove("metadata") {
            None | Some(Value::Null) => ObjectMeta::default(),
            Some(meta) => serde_json::from_value(without_nulls(meta)).map_err(|error| {
                Status::bad_request(format!("json: cannot unmarshal metadata: {error}"))
            })?,
        };
        Ok(Self { api_version, kind, meta, body })
    }

    pub(crate) fn from_json(json: &[u8]) -> Result<Self, Status> {
        let value = serde_json::from_slice(json)
            .map_err(|error| Status::internal(format!("stored object: {error}")))?;
        Self::from_value(value)
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut value = self.body.clone();
        value.insert("apiVersion".to_owned(), json!(self.api_version));
        value.insert("kind".to_owned(), json!(self.kind));
        value.insert("metadata".to_owned(), json!(self.meta));
        Value::Object(value)
    }

    pub(crate) fn to_json(&self) -> Bytes {
        Bytes::from(
            serde_json::to_vec(self)
                .expect("maps with string keys and finite numbers always encode"),
        )
    }

    pub(crate) fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    pub(crate) fn finalizers(&self) -> &[String] {
        self.meta.finalizers.as_deref().unwrap_or_default()
    }

    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == name)
    }

    pub(crate) fn add_finalizer(&mut self, name: &str) {
        if !self.has_finalizer(name) {
            self.meta.finalizers.get_or_insert_default().push(name.to_owned());
        }
    }

    pub(crate) fn remove_finalizer(&mut self, name: &str) {
        if let Some(finalizers) = &mut self.meta.finalizers {
            finalizers.retain(|finalizer| finalizer != name);
            if finalizers.is_empty() {
                self.meta.finalizers = None;
            }
        }
    }

    /// Drops empty maps and lists of metadata, so that they compare as equal to absent ones, as in Go.
    pub(crate) fn drop_empty_metadata(&mut self) {
        let meta = &mut self.meta;
        meta.labels.take_if(|labels| labels.is_empty());
        meta.annotations.take_if(|annotations| annotations.is_empty());
        meta.finalizers.take_if(|finalizers| finalizers.is_empty());
        meta.owner_references.take_if(|owners| owners.is_empty());
        meta.generate_name.take_if(|prefix| prefix.is_empty());
        meta.generation.take_if(|generation| *generation == 0);
    }

    /// Converts the numbers of the body to the form in which they are stored.
    pub(crate) fn canonicalise(&mut self) {
        self.body.values_mut().for_each(value::canonical);
    }

    /// Sets the deletion timestamp, and raises the generation, because controllers react to a new generation. Changes
    /// nothing if the object is being deleted already.
    pub(crate) fn mark_deleting(&mut self) {
        if self.is_deleting() {
            return;
        }
        self.meta.deletion_timestamp = Some(now());
        self.meta.deletion_grace_period_seconds = Some(0);
        self.meta.generation = self.meta.generation.map(|generation| generation.saturating_add(1));
    }

    /// Returns whether two objects are equal except for their resourceVersion.
    pub(crate) fn same_content(&self, other: &Self) -> bool {
        let same_meta = || {
            let (mut left, mut right) = (self.meta.clone(), other.meta.clone());
            left.resource_version = None;
            right.resource_version = None;
            left == right
        };
        self.api_version == other.api_version && self.body == other.body && same_meta()
    }

    /// Returns whether two objects are equal without their metadata and, with `ignore_status`, without their status.
    pub(crate) fn same_spec(&self, other: &Self, ignore_status: bool) -> bool {
        let relevant = |object: &Self| {
            let mut body = object.body.clone();
            body.retain(|key, _| !(ignore_status && key == "status"));
            body
        };
        relevant(self) == relevant(other)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.body.len() + 3))?;
        map.serialize_entry("apiVersion", &self.api_version)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("metadata", &self.meta)?;
        for (key, value) in &self.body {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A stored object: its JSON, encoded once, and the values that selectors and the garbage collector need.
#[derive(Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) json: Bytes,
    pub(crate) revision: u64,
    pub(crate) uid: String,
    pub(crate) labels: Vec<(String, String)>,
    /// Values of the fields that a field selector may name; an absent field has no entry.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) deleting: bool,
}

/// An owner reference, reduced to the members that garbage collection needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owner {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) blocks: bool,
}

impl Stored {
    /// Builds a stored object whose selectable fields have these values.
    pub(crate) fn new(object: &Object, fields: Vec<(String, String)>, revision: u64) -> Self {
        let group =
            |api_version: &str| api_version.split_once('/').unwrap_or_default().0.to_owned();
        let owners = object.meta.owner_references.iter().flatten().map(|owner| Owner {
            group: group(&owner.api_version),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            blocks: owner.block_owner_deletion.unwrap_or(false),
        });
        let labels = object.meta.labels.clone().unwrap_or_default().into_iter().collect();
        Self { labels, fields, owners: owners.collect(), ..Self::opaque(object, revision) }
    }

    /// Builds a stored object of a kind that is no longer served.
    pub(crate) fn opaque(object: &Object, revision: u64) -> Self {
        Self {
            json: object.to_json(),
            revision,
            uid: object.uid().to_owned(),
            labels: Vec::new(),
            fields: Vec::new(),
            owners: Vec::new(),
            deleting: object.is_deleting(),
        }
    }

    pub(crate) fn decode(&self) -> Result<Object, Status> {
        Object::from_json(&self.json)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn field(&self, path: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == path).map(|(_, value)| value.as_str())
    }
}

/// Returns the time in whole seconds, the precision of times in API objects.
pub(crate) fn now() -> Time {
    let now = k8s_openapi::jiff::Timestamp::now();
    Time(k8s_openapi::jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
}

fn take_string(body: &mut Map<String, Value>, key: &str) -> Result<String, Status> {
    match body.remove(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(other) => {
            Err(Status::bad_request(format!("{key} must be a string, not {}", type_name(&other))))
        }
    }
}
