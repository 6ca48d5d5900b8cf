//! Puts the objects of a request into a snapshot, as if the API had them.

use api::{
    ClientMount, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, NodeContainers,
    SystemConfiguration,
    names::{SYSTEM_CONFIGURATION, finalizer},
};
use controller::Event;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{Resource, ResourceExt, core::object::HasStatus};
use proto::v1::{ObjectName, PlanRequest};
use serde::de::DeserializeOwned;
use serde_json::Value;
use storage::desired::NodeName;
use thiserror::Error;
use uuid::Uuid;

use super::Snapshot;
use crate::core::{Cache, Cached, Key};

/// Why a request cannot be answered.
#[derive(Debug, Error)]
pub enum RequestError {
    #[error("objects: send each object as JSON")]
    Json(#[from] serde_json::Error),
    #[error(
        "{kind} {name} cannot be read: give every field that it has in the API, the defaults too"
    )]
    Object {
        kind: String,
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "{0}: a rabbit plans for NnfNodeBlockStorage, NnfNodeStorage, ClientMount and NodeContainers only"
    )]
    Kind(String),
    #[error("{kind} {namespace}/{name} is not of this rabbit: set metadata.namespace to {node}")]
    Namespace { kind: String, namespace: String, name: String, node: NodeName },
    #[error(
        "{kind} {node}/{name} does not exist: check its name, or give the object in a file with -f"
    )]
    Unknown { kind: String, name: String, node: NodeName },
}

impl Snapshot {
    /// Puts the objects of the request into the snapshot, and returns the keys of the objects to plan for.
    pub fn take_request(&mut self, request: &PlanRequest) -> Result<Vec<Key>, RequestError> {
        let is_for_all = request.objects.is_empty() && request.names.is_empty();
        let keys = if is_for_all {
            self.keys()
        } else {
            take_objects(&mut self.cache, &self.context.node, request)?
        };
        if request.delete {
            let node = &self.context.node;
            keys.iter().for_each(|key| mark_deleted(&mut self.cache, node, key));
        }
        self.record_changes();
        Ok(keys)
    }
}

/// Puts the objects of the request into the cache, and returns the keys of these objects and of those that the request
/// names.
fn take_objects(
    cache: &mut Cache,
    node: &NodeName,
    request: &PlanRequest,
) -> Result<Vec<Key>, RequestError> {
    let mut keys = Vec::new();
    for (place, json) in (1..).zip(&request.objects) {
        keys.extend(put_json(cache, node, json, place)?);
    }
    for named in &request.names {
        keys.push(find(cache, node, named)?);
    }
    Ok(keys)
}

/// Puts an object into the cache. Returns its key if the rabbit plans for objects of its kind.
fn put_json(
    cache: &mut Cache,
    node: &NodeName,
    json: &[u8],
    place: u128,
) -> Result<Option<Key>, RequestError> {
    let object: Value = serde_json::from_slice(json)?;
    match object["kind"].as_str() {
        Some("NnfNodeBlockStorage") => put::<NnfNodeBlockStorage>(cache, node, object, place),
        Some("NnfNodeStorage") => put::<NnfNodeStorage>(cache, node, object, place),
        Some("ClientMount") => put::<ClientMount>(cache, node, object, place),
        Some("NodeContainers") => put::<NodeContainers>(cache, node, object, place),
        Some("NnfStorageProfile") => put_for_reading::<NnfStorageProfile>(cache, object),
        Some("SystemConfiguration") => put_for_reading::<SystemConfiguration>(cache, object),
        kind => Err(RequestError::Kind(kind.unwrap_or("an object without a kind").to_owned())),
    }
}

/// Returns the key of an object that the agent knows.
fn find(cache: &Cache, node: &NodeName, named: &ObjectName) -> Result<Key, RequestError> {
    let key_of = match named.kind.to_ascii_lowercase().as_str() {
        "nnfnodeblockstorage" | "nnfnodeblockstorages" => Key::BlockStorage,
        "nnfnodestorage" | "nnfnodestorages" => Key::NodeStorage,
        "clientmount" | "clientmounts" => Key::ClientMount,
        "nodecontainers" => Key::Containers,
        _ => return Err(RequestError::Kind(named.kind.clone())),
    };
    let key = key_of(named.name.clone());
    let exists = cache.fingerprint(&key).is_some();
    let (kind, name, node) = (named.kind.clone(), named.name.clone(), node.clone());
    exists.then_some(key).ok_or(RequestError::Unknown { kind, name, node })
}

/// Puts an object of this rabbit into the cache: with the uid, the finalizers and the status that the object has in the
/// API, or as a new object. `place` tells the new objects of a request apart.
fn put<K>(
    cache: &mut Cache,
    node: &NodeName,
    object: Value,
    place: u128,
) -> Result<Option<Key>, RequestError>
where
    K: Cached + HasStatus + DeserializeOwned + Resource<DynamicType = ()>,
    K::Status: Clone,
{
    let mut object: K = decode(object)?;
    let (name, namespace) = (object.name_any(), object.namespace());
    let namespace = namespace.unwrap_or_else(|| node.to_string());
    if namespace != node.as_str() {
        let (kind, node) = (K::kind(&()).into_owned(), node.clone());
        return Err(RequestError::Namespace { kind, namespace, name, node });
    }
    let known = K::store(cache).get(&namespace, &name).cloned();
    let metadata = object.meta_mut();
    metadata.namespace = Some(namespace);
    // The cache would drop an object with an older version than its own.
    metadata.resource_version = None;
    match known {
        Some(known) => {
            let stored = known.meta();
            metadata.uid.clone_from(&stored.uid);
            metadata.finalizers.clone_from(&stored.finalizers);
            metadata.creation_timestamp.clone_from(&stored.creation_timestamp);
            metadata.deletion_timestamp.clone_from(&stored.deletion_timestamp);
            *object.status_mut() = known.status().cloned();
        }
        None => {
            metadata.uid = Some(Uuid::from_u128(place).to_string());
            metadata.finalizers = None;
            *object.status_mut() = None;
        }
    }
    let key = object.key();
    cache.apply(Event::Applied(Ok(object)));
    Ok(key)
}

fn decode<K: DeserializeOwned>(object: Value) -> Result<K, RequestError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    serde_json::from_value(object).map_err(|source| RequestError::Object { kind, name, source })
}

/// Puts an object into the cache that the plan only reads.
fn put_for_reading<K: Cached + DeserializeOwned>(
    cache: &mut Cache,
    object: Value,
) -> Result<Option<Key>, RequestError> {
    let mut object: K = decode(object)?;
    let metadata = object.meta_mut();
    // Both kinds are in this namespace, unless the object says otherwise.
    metadata.namespace.get_or_insert_with(|| SYSTEM_CONFIGURATION.to_owned());
    metadata.resource_version = None;
    cache.apply(Event::Applied(Ok(object)));
    Ok(None)
}

/// Marks an object in the cache as deleted, as the API would do. Adds the finalizer that the agent adds in its first
/// pass over the object, so that the plan has the tear-down.
fn mark_deleted(cache: &mut Cache, node: &NodeName, key: &Key) {
    match key {
        Key::BlockStorage(name) => {
            delete::<NnfNodeBlockStorage>(cache, node, name, finalizer::NNF_NODE_BLOCK_STORAGE);
        }
        Key::NodeStorage(name) => {
            delete::<NnfNodeStorage>(cache, node, name, finalizer::NNF_NODE_STORAGE);
        }
        Key::ClientMount(name) => delete::<ClientMount>(cache, node, name, finalizer::CLIENT_MOUNT),
        Key::Containers(name) => {
            delete::<NodeContainers>(cache, node, name, finalizer::NODE_CONTAINERS);
        }
        Key::Node | Key::Vanished(_) | Key::LustreMgt(_) | Key::Movement(_) => {}
    }
}

fn delete<K: Cached>(cache: &mut Cache, node: &NodeName, name: &str, finalizer: &str) {
    let Some(object) = K::store(cache).get(node.as_str(), name) else { return };
    let mut object = K::clone(object);
    let metadata = object.meta_mut();
    metadata.resource_version = None;
    metadata.deletion_timestamp.get_or_insert_with(|| Time(Timestamp::now()));
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.to_owned());
    }
    cache.apply(Event::Applied(Ok(object)));
}

#[cfg(test)]
mod tests;
