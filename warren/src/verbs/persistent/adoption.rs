//! Plans the adoption of persistent storage that the Go controllers made, and its release. Pure.
//!
//! Both change only metadata, never data: adoption adds the labels by which the engine finds the objects of its own
//! storage, and each object keeps a note of the added labels, which release removes again. The PersistentStorageInstance
//! gets its label last, and loses it first: the engine acts on the storage only while that label is there. Its note stays
//! until all is released. Both can be repeated after a crash: a plan has only the steps that are not done yet.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotation, finalizer, label};
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject},
};
use serde_json::{Map, Value, json};

/// Index of the directive that made the storage: a `create_persistent` is the only directive of its workflow.
const INDEX: &str = "0";

/// An object and its kind.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub resource: ApiResource,
    pub object: DynamicObject,
}

/// All objects of one persistent storage.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    /// The PersistentStorageInstance.
    pub instance: Found,
    /// The NnfStorage, which only the Go controllers read.
    pub storage: Option<Found>,
    pub servers: Option<Found>,
    pub profile: Option<Found>,
    /// The NnfNodeBlockStorages, NnfNodeStorages and NnfLustreMGTs with the uid of the NnfStorage.
    pub on_rabbits: Vec<Found>,
    /// Nodes with a ClientMount of the storage.
    pub mounted_on: BTreeSet<String>,
}

/// A change of the metadata of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub resource: ApiResource,
    pub namespace: String,
    pub name: String,
    /// The step as text for people.
    pub what: String,
    /// JSON merge patch. The API refuses it if another object has the name now.
    pub patch: Value,
}

/// Why storage cannot be adopted or released.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum AdoptionError {
    #[error("it is being destroyed")]
    Destroying,
    #[error(
        "{0}, which makes it, has not ended: end that workflow with the Go controllers, else its removal destroys the storage"
    )]
    Unfinished(String),
    #[error("it is used by {0}: end these workflows first")]
    Used(String),
    #[error("it has ClientMounts on {0}: end the workflows that mounted it first")]
    Mounted(String),
    #[error("there is no {0} of its name, so what belongs to it is not known")]
    Missing(&'static str),
    #[error("the NnfStorage of its name belongs to another object, with the uid {0:?}")]
    Foreign(String),
    #[error(
        "{0} lacks the finalizer {1}, which keeps it until its storage is gone from all rabbits: add the finalizer first"
    )]
    Unheld(String, &'static str),
    #[error("{found} of its {expected} NnfNodeStorages are there")]
    Incomplete { found: usize, expected: usize },
    #[error("{object} has the label {key}={value:?} already, so it belongs to other storage")]
    Labelled { object: String, key: &'static str, value: String },
    #[error(
        "Warren made it, and named its volumes so that the Go controllers would not find them: copy its data to new storage instead"
    )]
    MadeByWarren,
}

/// Plans the adoption. No step means that the storage is adopted already, or that Warren made it.
pub(super) fn adopt(objects: &Objects) -> Result<Vec<Step>, AdoptionError> {
    let instance = &objects.instance.object;
    if is_made_by_warren(instance) || is_adopted(instance) {
        return Ok(Vec::new());
    }
    check_unused(objects)?;
    let storage = objects.storage.as_ref().ok_or(AdoptionError::Missing("NnfStorage"))?;
    let servers = objects.servers.as_ref().ok_or(AdoptionError::Missing("Servers"))?;
    let profile = objects.profile.as_ref().ok_or(AdoptionError::Missing("NnfStorageProfile"))?;
    check_held(&objects.instance, finalizer::PERSISTENT_STORAGE)?;
    check_held(servers, finalizer::SERVERS)?;
    check_complete(objects, &storage.object)?;
    let (name, namespace) = (instance.name_any(), instance.namespace().unwrap_or_default());
    let uid = storage.object.uid().unwrap_or_default();
    let persistent =
        [(label::PERSISTENT_NAME, name.as_str()), (label::PERSISTENT_NAMESPACE, &namespace)];
    let pinned = [&persistent[..], &[(label::DIRECTIVE_INDEX, INDEX)]].concat();
    let maker = text(&storage.object, label::WORKFLOW_UID).unwrap_or_else(|| uid.clone());
    let mut steps = Vec::new();
    steps.extend(release_finalizer(storage));
    steps.extend(add(servers, &pinned, Some(&uid))?);
    steps.extend(add(profile, &pinned, None)?);
    for found in &objects.on_rabbits {
        steps.extend(add(found, &persistent, None)?);
    }
    steps.extend(add(&objects.instance, &[(label::WORKFLOW_UID, &maker)], None)?);
    Ok(steps)
}

/// Plans the release. No step means that the storage is the Go controllers' already.
pub(super) fn release(objects: &Objects) -> Result<Vec<Step>, AdoptionError> {
    if is_made_by_warren(&objects.instance.object) {
        return Err(AdoptionError::MadeByWarren);
    }
    let instance = &objects.instance;
    if !has_note(&instance.object) {
        // Nothing is adopted, or only what an interrupted adoption changed.
        return Ok(rest(objects).filter_map(remove).collect());
    }
    check_unused(objects)?;
    let storage = objects.storage.as_ref().ok_or(AdoptionError::Missing("NnfStorage"))?;
    let mut steps: Vec<Step> = Vec::new();
    if is_adopted(&instance.object) {
        let label = json!({"labels": {label::WORKFLOW_UID: null}});
        steps.push(guarded_step(instance, "remove the label of Warren from", label));
    }
    steps.extend(rest(objects).filter_map(remove));
    steps.extend(hold_finalizer(storage));
    steps.extend(remove(instance));
    Ok(steps)
}

/// Returns the objects besides the PersistentStorageInstance, in the order of a release: the Servers, which says what
/// belongs to the storage, is the last.
fn rest(objects: &Objects) -> impl Iterator<Item = &Found> {
    let central = [&objects.profile, &objects.servers].into_iter().flatten();
    objects.on_rabbits.iter().chain(central)
}

/// Returns true if an adoption changed the object, and no release has undone that.
pub(super) fn has_note(object: &DynamicObject) -> bool {
    object.annotations().contains_key(annotation::ADOPTED_LABELS)
}

/// Returns true if the engine acts on adopted storage.
fn is_adopted(instance: &DynamicObject) -> bool {
    has_note(instance) && text(instance, label::WORKFLOW_UID).is_some()
}

/// Returns true if the engine made the storage: it has the engine's label, which no adoption added.
pub(super) fn is_made_by_warren(instance: &DynamicObject) -> bool {
    text(instance, label::WORKFLOW_UID).is_some() && !has_note(instance)
}

fn check_unused(objects: &Objects) -> Result<(), AdoptionError> {
    let instance = &objects.instance.object;
    let spec = &instance.data["spec"];
    if instance.metadata.deletion_timestamp.is_some() || spec["state"] == "Destroying" {
        return Err(AdoptionError::Destroying);
    }
    if let Some(owner) = instance.owner_references().first() {
        return Err(AdoptionError::Unfinished(format!("{} {}", owner.kind, owner.name)));
    }
    // The NnfStorage of another persistent storage may use this one as its Lustre management target.
    let users = spec["consumerReferences"].as_array().into_iter().flatten();
    let workflows =
        users.filter(|user| user["kind"].as_str().is_none_or(|kind| kind == "Workflow"));
    let names: Vec<&str> = workflows.filter_map(|user| user["name"].as_str()).collect();
    if !names.is_empty() {
        return Err(AdoptionError::Used(names.join(", ")));
    }
    if !objects.mounted_on.is_empty() {
        let nodes: Vec<&str> = objects.mounted_on.iter().map(String::as_str).collect();
        return Err(AdoptionError::Mounted(directive::hostlist::compress(&nodes)));
    }
    Ok(())
}

/// Checks that the NnfStorage belongs to the storage, and that all of its parts are there.
fn check_complete(objects: &Objects, storage: &DynamicObject) -> Result<(), AdoptionError> {
    let owner = text(storage, label::OWNER_UID).unwrap_or_default();
    if Some(&owner) != objects.instance.object.uid().as_ref() {
        return Err(AdoptionError::Foreign(owner));
    }
    let sets = storage.data["spec"]["allocationSets"].as_array().into_iter().flatten();
    let expected = sets.filter_map(|set| set["nodes"].as_array()).map(Vec::len).sum();
    let file_systems =
        objects.on_rabbits.iter().filter(|found| found.resource.kind == "NnfNodeStorage");
    let has_block = |found: &&Found| {
        let (object, mut all) = (&found.object, objects.on_rabbits.iter());
        all.any(|other| {
            let other_object = &other.object;
            other.resource.kind == "NnfNodeBlockStorage"
                && other_object.namespace() == object.namespace()
                && other_object.metadata.name == object.metadata.name
        })
    };
    let found = file_systems.filter(has_block).count();
    if found == expected && expected > 0 {
        return Ok(());
    }
    Err(AdoptionError::Incomplete { found, expected })
}

/// Checks that an object stays after its deletion until its storage is gone.
fn check_held(found: &Found, name: &'static str) -> Result<(), AdoptionError> {
    let is_held = found.object.finalizers().iter().any(|finalizer| finalizer == name);
    is_held.then_some(()).ok_or_else(|| AdoptionError::Unheld(describe(found), name))
}

fn text(object: &DynamicObject, key: &str) -> Option<String> {
    object.labels().get(key).cloned()
}

/// Plans the step that adds those of the labels that an object lacks; `None` if the object has its note and all labels.
fn add(
    found: &Found,
    labels: &[(&'static str, &str)],
    adopted_from: Option<&str>,
) -> Result<Option<Step>, AdoptionError> {
    let object = &found.object;
    let mut added = BTreeMap::new();
    for (key, value) in labels {
        match object.labels().get(*key) {
            Some(known) if known == value => {}
            Some(known) => {
                let (object, value) = (describe(found), known.clone());
                return Err(AdoptionError::Labelled { object, key, value });
            }
            None => drop(added.insert(*key, *value)),
        }
    }
    if added.is_empty() && has_note(object) {
        return Ok(None);
    }
    let known = object.annotations().get(annotation::ADOPTED_LABELS);
    let known = known.iter().flat_map(|keys| keys.split(',')).filter(|key| !key.is_empty());
    let keys: BTreeSet<&str> = added.keys().copied().chain(known).collect();
    let keys = keys.into_iter().collect::<Vec<_>>().join(",");
    let mut annotations = Map::from_iter([(annotation::ADOPTED_LABELS.to_owned(), json!(keys))]);
    annotations.extend(adopted_from.map(|uid| (annotation::ADOPTED_FROM.to_owned(), json!(uid))));
    let metadata = json!({"labels": added, "annotations": annotations});
    let make = if found.resource.kind == "PersistentStorageInstance" { guarded_step } else { step };
    Ok(Some(make(found, "add the labels of Warren to", metadata)))
}

/// Plans the step that removes the labels that an adoption added, and its notes.
fn remove(found: &Found) -> Option<Step> {
    let keys = found.object.annotations().get(annotation::ADOPTED_LABELS)?;
    let keys = keys.split(',').filter(|key| !key.is_empty());
    let labels: Map<String, Value> = keys.map(|key| (key.to_owned(), Value::Null)).collect();
    let notes = [annotation::ADOPTED_LABELS, annotation::ADOPTED_FROM];
    let notes = notes.into_iter().filter(|key| found.object.annotations().contains_key(*key));
    let notes: Map<String, Value> = notes.map(|key| (key.to_owned(), Value::Null)).collect();
    let metadata = json!({"labels": labels, "annotations": notes});
    Some(step(found, "remove the labels of Warren from", metadata))
}

/// Plans the step that removes the finalizer that only the Go controllers would remove: with it, the NnfStorage would stay
/// for ever after the storage is destroyed.
fn release_finalizer(storage: &Found) -> Option<Step> {
    let mut rest = storage.object.finalizers().to_vec();
    rest.retain(|name| name != finalizer::NNF_STORAGE);
    let is_held = rest.len() < storage.object.finalizers().len();
    is_held.then(|| {
        guarded_step(
            storage,
            "remove the Go controllers' finalizer from",
            json!({"finalizers": rest}),
        )
    })
}

fn hold_finalizer(storage: &Found) -> Option<Step> {
    let mut all = storage.object.finalizers().to_vec();
    if all.iter().any(|name| name == finalizer::NNF_STORAGE) {
        return None;
    }
    all.push(finalizer::NNF_STORAGE.to_owned());
    Some(guarded_step(storage, "add the Go controllers' finalizer to", json!({"finalizers": all})))
}

fn describe(found: &Found) -> String {
    let object = &found.object;
    let namespace = object.namespace().unwrap_or_default();
    format!("{} {namespace}/{}", found.resource.kind, object.name_any())
}

fn step(found: &Found, verb: &str, mut metadata: Value) -> Step {
    let object = &found.object;
    metadata["uid"] = json!(object.metadata.uid);
    Step {
        resource: found.resource.clone(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        what: format!("{verb} {}", describe(found)),
        patch: json!({"metadata": metadata}),
    }
}

/// Like [`step`], for an object that may not have changed since it was read: a workflow may have become a user of the
/// storage, or a controller may have changed the finalizers. What agents write into other objects does not matter.
fn guarded_step(found: &Found, verb: &str, mut metadata: Value) -> Step {
    metadata["resourceVersion"] = json!(found.object.metadata.resource_version);
    step(found, verb, metadata)
}
