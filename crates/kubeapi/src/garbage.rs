//! Garbage collection: deletes the dependents of deleted owners, the content of a deleted namespace and the objects
//! of a deleted CRD.
//!
//! Garbage collection is part of the commit that causes it. So a crash cannot leave it half done, and no thread has to
//! look for garbage.

use crate::object::{FOREGROUND, Key, ORPHAN, Object, Owner, Stored};
use crate::registry::{Definition, builtin, crd};
use crate::status::Status;
use crate::store::{Batch, Verb};
use crate::verbs::delete::{self, Policy};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deletes the objects that became garbage by the batch's events from `index` on. These deletions are events of the
/// batch too, and may cause more garbage, which is also deleted. Fails only if a stored object does not decode.
pub(crate) fn collect_garbage(batch: &mut Batch<'_>, mut index: usize) -> Result<(), Status> {
    while let Some(event) = batch.events().get(index).cloned() {
        index += 1;
        match event.verb {
            Verb::Deleted => after_removal(batch, &event.key, &event.object)?,
            Verb::Added | Verb::Modified => {
                let before = event.previous.as_ref().map_or(&[][..], |before| &before.owners);
                release_owners(batch, &event.key, before)?;
                after_write(batch, &event.key, &event.object)?;
            }
        }
    }
    Ok(())
}

fn after_removal(batch: &mut Batch<'_>, key: &Key, ended: &Stored) -> Result<(), Status> {
    for dependent in batch.dependents(&ended.uid) {
        collect(batch, &dependent)?;
    }
    release_owners(batch, key, &ended.owners)?;
    if !key.namespace.is_empty() {
        finish_namespace(batch, &key.namespace)?;
    }
    finish_crd(batch, &key.resource)
}

fn after_write(batch: &mut Batch<'_>, key: &Key, stored: &Arc<Stored>) -> Result<(), Status> {
    if !stored.owners.is_empty() {
        collect(batch, key)?;
    }
    if !stored.deleting {
        return Ok(());
    }
    if &*key.resource == builtin::CRDS {
        return finish_crd(batch, &Arc::from(key.name.as_str()));
    }
    let object = stored.decode()?;
    if object.has_finalizer(ORPHAN) {
        orphan(batch, key, &object)?;
    } else if object.has_finalizer(FOREGROUND) {
        for dependent in batch.dependents(&stored.uid) {
            collect(batch, &dependent)?;
        }
        release_foreground(batch, key)?;
    } else if &*key.resource == builtin::NAMESPACES {
        finish_namespace(batch, &key.name)?;
    }
    Ok(())
}

/// State of the owner that an owner reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists; or it may exist, because this server cannot read it or does not serve its kind.
    Present,
    /// The owner is being deleted in the foreground and waits for its dependents.
    Deleting,
    Absent,
}

fn owner_state(batch: &Batch<'_>, dependent: &Key, owner: &Owner) -> Result<OwnerState, Status> {
    let Some(key) = owner_key(batch, dependent, owner) else { return Ok(OwnerState::Present) };
    match batch.get(&key).filter(|found| found.uid == owner.uid) {
        None if batch.is_unread(&key) => Ok(OwnerState::Present),
        None => Ok(OwnerState::Absent),
        Some(found) if is_foreground(&found)? => Ok(OwnerState::Deleting),
        Some(_) => Ok(OwnerState::Present),
    }
}

fn is_foreground(stored: &Stored) -> Result<bool, Status> {
    Ok(stored.deleting && stored.decode()?.has_finalizer(FOREGROUND))
}

/// Deletes an object whose owners are all absent or being deleted. If one owner remains, only removes the references to
/// the owners that are absent or being deleted.
fn collect(batch: &mut Batch<'_>, key: &Key) -> Result<(), Status> {
    let Some(stored) = batch.get(key) else { return Ok(()) };
    if stored.deleting || stored.owners.is_empty() {
        return Ok(());
    }
    let (mut gone, mut waited_for) = (Vec::new(), false);
    for owner in &stored.owners {
        let state = owner_state(batch, key, owner)?;
        waited_for |= state == OwnerState::Deleting;
        if state != OwnerState::Present {
            gone.push(owner.uid.clone());
        }
    }
    if gone.len() == stored.owners.len() {
        let foreground = waited_for && may_wait(batch, &stored)?;
        return delete_key(batch, key, foreground.then_some(Policy::Foreground));
    }
    if gone.is_empty() {
        return Ok(());
    }
    drop_owners(batch, key, |uid| gone.iter().any(|owner| owner == uid))
}

/// Returns whether an object may wait for its own dependents while its owner waits for the object. Returns false if one
/// of the dependents is being deleted in the foreground, and so waits too: the object and this dependent could then
/// wait for each other for ever.
fn may_wait(batch: &Batch<'_>, stored: &Stored) -> Result<bool, Status> {
    let dependents = batch.dependents(&stored.uid);
    for dependent in dependents.iter().filter_map(|key| batch.get(key)) {
        if is_foreground(&dependent)? {
            return Ok(false);
        }
    }
    Ok(!dependents.is_empty())
}

fn owner_key(batch: &Batch<'_>, dependent: &Key, owner: &Owner) -> Option<Key> {
    let definition = batch.registry().by_kind(&owner.group, &owner.kind)?;
    // As in Kubernetes, a cluster-scoped object cannot have a namespaced owner: its owner reference names no namespace.
    let namespace = match (definition.namespaced, dependent.namespace.as_str()) {
        (true, "") => return None,
        (true, namespace) => namespace.to_owned(),
        (false, _) => String::new(),
    };
    Some(Key { resource: Arc::clone(&definition.id), namespace, name: owner.name.clone() })
}

fn present_owner(batch: &Batch<'_>, dependent: &Key, owner: &Owner) -> Option<Key> {
    let key = owner_key(batch, dependent, owner)?;
    let found = batch.get(&key)?;
    (found.uid == owner.uid).then_some(key)
}

/// Ends the foreground deletion of each owner that waits for no dependent but this object.
fn release_owners(batch: &mut Batch<'_>, key: &Key, owners: &[Owner]) -> Result<(), Status> {
    for owner in owners {
        if let Some(owner) = present_owner(batch, key, owner) {
            release_foreground(batch, &owner)?;
        }
    }
    Ok(())
}

/// Ends a foreground deletion once no dependent blocks it.
fn release_foreground(batch: &mut Batch<'_>, owner: &Key) -> Result<(), Status> {
    let Some(stored) = batch.get(owner).filter(|stored| stored.deleting) else { return Ok(()) };
    let mut object = stored.decode()?;
    if !object.has_finalizer(FOREGROUND) {
        return Ok(());
    }
    let blocks = |key: &Key| {
        let dependent = batch.get(key);
        dependent.is_some_and(|dependent| {
            dependent.owners.iter().any(|o| o.uid == stored.uid && o.blocks)
        })
    };
    if batch.dependents(&stored.uid).iter().any(blocks) {
        return Ok(());
    }
    object.remove_finalizer(FOREGROUND);
    let definition = definition(batch, owner)?;
    delete::store_or_remove(batch, &definition, owner, object).map(drop)
}

fn orphan(batch: &mut Batch<'_>, key: &Key, object: &Object) -> Result<(), Status> {
    for dependent in batch.dependents(object.uid()) {
        drop_owners(batch, &dependent, |uid| uid == object.uid())?;
    }
    let mut object = object.clone();
    object.remove_finalizer(ORPHAN);
    let definition = definition(batch, key)?;
    delete::store_or_remove(batch, &definition, key, object).map(drop)
}

fn drop_owners(
    batch: &mut Batch<'_>,
    key: &Key,
    is_dropped: impl Fn(&str) -> bool,
) -> Result<(), Status> {
    let Some(stored) = batch.get(key) else { return Ok(()) };
    let mut object = stored.decode()?;
    if let Some(owners) = &mut object.meta.owner_references {
        owners.retain(|owner| !is_dropped(&owner.uid));
        if owners.is_empty() {
            object.meta.owner_references = None;
        }
    }
    let definition = definition(batch, key)?;
    batch.put(&definition, key.clone(), object).map(drop)
}

fn delete_key(batch: &mut Batch<'_>, key: &Key, policy: Option<Policy>) -> Result<(), Status> {
    let definition = definition(batch, key)?;
    delete::delete(batch, &definition, key, policy).map(drop)
}

fn definition(batch: &Batch<'_>, key: &Key) -> Result<Arc<Definition>, Status> {
    batch.registry().get(&key.resource).cloned().ok_or_else(Status::no_such_path)
}

/// Deletes the content of a namespace that is being deleted. The namespace is removed once it is empty; until then its
/// status lists what remains.
fn finish_namespace(batch: &mut Batch<'_>, name: &str) -> Result<(), Status> {
    let key = Key::global(builtin::NAMESPACES, name);
    let Some(stored) = batch.get(&key).filter(|stored| stored.deleting) else { return Ok(()) };
    let content: Vec<Arc<Definition>> =
        batch.registry().iter().filter(|definition| definition.namespaced).cloned().collect();
    let mut remaining = BTreeMap::new();
    let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
    for definition in content {
        for key in batch.keys(&definition.id, Some(name)) {
            if batch.get(&key).is_some_and(|stored| !stored.deleting) {
                delete::delete(batch, &definition, &key, None)?;
            }
            if let Some(stored) = batch.get(&key) {
                *remaining.entry(definition.id.to_string()).or_insert(0) += 1;
                for finalizer in stored.decode()?.finalizers() {
                    *finalizers.entry(finalizer.clone()).or_insert(0) += 1;
                }
            }
        }
    }
    let mut object = stored.decode()?;
    let definition = definition(batch, &key)?;
    if remaining.is_empty() {
        object.body.insert("spec".to_owned(), json!({}));
        object.body.insert("status".to_owned(), json!({"phase": "Terminating"}));
    } else {
        object.body.insert("status".to_owned(), terminating_status(&remaining, &finalizers));
    }
    if remaining.is_empty() && object.finalizers().is_empty() {
        return batch.remove(&definition, key).map(drop);
    }
    if object.same_content(&stored.decode()?) {
        Ok(())
    } else {
        batch.put(&definition, key, object).map(drop)
    }
}

/// Returns the status that lists what remains in a namespace, in the words of the namespace controller.
fn terminating_status(
    remaining: &BTreeMap<String, usize>,
    finalizers: &BTreeMap<String, usize>,
) -> Value {
    let list = |counts: &BTreeMap<String, usize>, what: &str, joint: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name}{joint}{count} {what}")).collect();
        parts.join(", ")
    };
    let condition = |kind: &str, reason: &str, message: String| json!({"type": kind, "status": "True", "reason": reason, "message": message});
    let resources =
        format!("Some resources are remaining: {}", list(remaining, "resource instances", " has "));
    let mut conditions =
        vec![condition("NamespaceContentRemaining", "SomeResourcesRemain", resources)];
    if !finalizers.is_empty() {
        let waiting = list(finalizers, "resource instances", " in ");
        let message = format!("Some content in the namespace has finalizers remaining: {waiting}");
        conditions.push(condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", message));
    }
    json!({"phase": "Terminating", "conditions": conditions})
}

/// Deletes the objects of a CRD that is being deleted; the CRD itself is removed after its last object.
fn finish_crd(batch: &mut Batch<'_>, resource: &Arc<str>) -> Result<(), Status> {
    let key = Key::global(builtin::CRDS, resource);
    let Some(stored) = batch.get(&key).filter(|stored| stored.deleting) else { return Ok(()) };
    let mut object = stored.decode()?;
    if !object.has_finalizer(crd::CLEANUP_FINALIZER) {
        return Ok(());
    }
    for instance in batch.keys(resource, None) {
        if batch.get(&instance).is_some_and(|stored| !stored.deleting) {
            delete_key(batch, &instance, None)?;
        }
    }
    if batch.keys(resource, None).is_empty() {
        object.remove_finalizer(crd::CLEANUP_FINALIZER);
        let definition = definition(batch, &key)?;
        delete::store_or_remove(batch, &definition, &key, object)?;
    }
    Ok(())
}
