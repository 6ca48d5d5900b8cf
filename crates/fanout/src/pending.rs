//! What is to be written to each ClientMount, and as which patch.
//!
//! Pending writes are coalesced per object: the newest status wins, and what the object already has is no write. One
//! object is written by one writer at a time; each patch names the resourceVersion it was made from.

use std::collections::{HashMap, VecDeque, hash_map};
use std::sync::Arc;

use api::names::finalizer;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::Notify;

use crate::object::{Key, MountObject};

/// What should become of one object; a namesake made later has none of it.
#[derive(Debug, Default)]
struct Pending {
    uid: String,
    add_finalizer: bool,
    remove_finalizer: bool,
    status: Option<Value>,
    /// Rings for a writer that waits with what it was refused.
    bell: Arc<Notify>,
}

/// Pending writes, and the objects that wait for a writer.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pending: HashMap<Key, Pending>,
    waiting: VecDeque<Key>,
}

/// What of a pending write is written.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    AddFinalizer,
    /// The status as it was wanted.
    Status(Value),
    RemoveFinalizer,
}

/// One write to the API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    uid: String,
    part: Part,
    /// JSON patch operations.
    pub operations: Vec<Value>,
}

/// A report's status that cannot stand in the object.
#[derive(Debug, Error)]
pub enum UnfitStatus {
    /// Not JSON.
    #[error("status of the report is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// JSON, but no object.
    #[error("status of the report is no JSON object")]
    NotAnObject,
    /// Not an entry for each mount.
    #[error("status.mounts of the report has {reported} entries, spec.mounts has {specified}")]
    MountCount {
        /// Entries of the status.
        reported: usize,
        /// Entries of the spec.
        specified: usize,
    },
}

impl Write {
    /// Whether it puts the node's finalizer on.
    pub(crate) fn is_hold(&self) -> bool {
        self.part == Part::AddFinalizer
    }

    /// Whether it goes to the status subresource.
    pub(crate) fn is_status(&self) -> bool {
        matches!(self.part, Part::Status(_))
    }
}

impl Writes {
    /// Has the node's finalizer put on an object; true when a writer has to start.
    pub(crate) fn add_finalizer(&mut self, object: &MountObject) -> bool {
        self.pending(object, |pending| pending.add_finalizer = true)
    }

    /// Has a status written, and with `release` the node's finalizer taken off; true when a writer has to start.
    pub(crate) fn report(&mut self, object: &MountObject, status: Value, release: bool) -> bool {
        self.pending(object, |pending| {
            pending.status = Some(status);
            pending.remove_finalizer = release;
        })
    }

    /// Whether a status of this object is still to be written.
    pub(crate) fn has_status(&self, key: &Key) -> bool {
        self.pending.get(key).is_some_and(|pending| pending.status.is_some())
    }

    /// The next object that waits for a writer.
    pub(crate) fn take(&mut self) -> Option<Key> {
        self.waiting.pop_front()
    }

    /// The next write of a taken object. None ends the writer's work: everything is written or void.
    pub(crate) fn next(&mut self, key: &Key, object: Option<&MountObject>) -> Option<Write> {
        let pending = self.pending.get(key)?;
        let object = object.filter(|object| object.version.uid == pending.uid);
        let write = object.and_then(|object| write(object, pending));
        if write.is_none() {
            self.pending.remove(key);
        }
        write
    }

    /// A write was accepted. It counts as written even if the server stored something else than was sent, as
    /// with a field that its schema prunes: sending it again would change nothing.
    pub(crate) fn written(&mut self, key: &Key, write: &Write) {
        let pending = self.pending.get_mut(key).filter(|pending| pending.uid == write.uid);
        let Some(pending) = pending else { return };
        match &write.part {
            Part::AddFinalizer => pending.add_finalizer = false,
            Part::Status(sent) => {
                if pending.status.as_ref() == Some(sent) {
                    pending.status = None;
                }
            }
            Part::RemoveFinalizer => pending.remove_finalizer = false,
        }
    }

    /// There is news of an object: what was refused before may not be now, or is not wanted any more.
    pub(crate) fn wake(&self, key: &Key) {
        if let Some(pending) = self.pending.get(key) {
            pending.bell.notify_one();
        }
    }

    /// There may be news of every object.
    pub(crate) fn wake_all(&self) {
        self.pending.values().for_each(|pending| pending.bell.notify_one());
    }

    /// What rings when there is news of a taken object, or rang since its writer waited last.
    pub(crate) fn bell(&self, key: &Key) -> Option<Arc<Notify>> {
        self.pending.get(key).map(|pending| pending.bell.clone())
    }

    /// An object has a pending write from the moment it is queued until its writer is done, so that it is queued once.
    fn pending(&mut self, object: &MountObject, change: impl FnOnce(&mut Pending)) -> bool {
        let uid = object.version.uid.clone();
        match self.pending.entry(object.key.clone()) {
            hash_map::Entry::Occupied(known) => {
                let pending = known.into_mut();
                if pending.uid != uid {
                    *pending = Pending { uid, bell: pending.bell.clone(), ..Pending::default() };
                }
                change(pending);
                pending.bell.notify_one();
                false
            }
            hash_map::Entry::Vacant(place) => {
                change(place.insert(Pending { uid, ..Pending::default() }));
                self.waiting.push_back(object.key.clone());
                true
            }
        }
    }
}

/// Reads a report's status for an object.
///
/// # Errors
/// When it cannot stand in the object.
pub(crate) fn fit(status: &[u8], object: &MountObject) -> Result<Value, UnfitStatus> {
    let status: Value = serde_json::from_slice(status).map_err(UnfitStatus::NotJson)?;
    if !status.is_object() {
        return Err(UnfitStatus::NotAnObject);
    }
    let reported = status.get("mounts").and_then(Value::as_array).map_or(0, Vec::len);
    if reported != object.mounts {
        return Err(UnfitStatus::MountCount { reported, specified: object.mounts });
    }
    Ok(status)
}

/// The status of an object that no node will act on.
pub(crate) fn refused(object: &MountObject, why: &str) -> Value {
    let mounts = vec![json!({"state": object.desired_state, "ready": false}); object.mounts];
    let error = json!({
        "debugMessage": why, "userMessage": why, "type": "User", "severity": "Fatal",
    });
    json!({"mounts": mounts, "allReady": false, "error": error})
}

fn write(object: &MountObject, pending: &Pending) -> Option<Write> {
    if pending.add_finalizer && !object.held() && !object.version.deleting {
        return Some(patch(object, Part::AddFinalizer, add_finalizer(object)));
    }
    let releasing = pending.remove_finalizer && object.version.deleting && object.held();
    // Removing the last finalizer deletes the object: nobody could read that status.
    let unread = releasing && object.held_by_nobody_else();
    if let Some(status) = pending.status.as_ref().filter(|_| !unread) {
        let merged = merged(object.status.as_ref(), status);
        if object.status.as_ref() != Some(&merged) {
            let operations = vec![json!({"op": "add", "path": "/status", "value": merged})];
            return Some(patch(object, Part::Status(status.clone()), operations));
        }
    }
    releasing.then(|| patch(object, Part::RemoveFinalizer, remove_finalizer(object)))
}

/// Whether a status says what was reported, whatever else stands in it.
pub(crate) fn says(current: Option<&Value>, reported: &Value) -> bool {
    current == Some(&merged(current, reported))
}

/// The node's word on the fields it owns; what else stands in the status, or in an entry of it, stays.
fn merged(current: Option<&Value>, reported: &Value) -> Value {
    let mut merged = current.and_then(Value::as_object).cloned().unwrap_or_default();
    let entries = merged.remove("mounts");
    for field in ["allReady", "error"] {
        merged.remove(field);
    }
    merged.extend(reported.as_object().cloned().unwrap_or_default());
    if let (Some(Value::Array(entries)), Some(Value::Array(mounts))) =
        (entries, merged.get_mut("mounts"))
        && entries.len() == mounts.len()
    {
        for (mount, entry) in mounts.iter_mut().zip(entries) {
            let known = mount.as_object().cloned().unwrap_or_default();
            let mut all = entry.as_object().cloned().unwrap_or_default();
            all.extend(known);
            *mount = Value::Object(all);
        }
    }
    merged.retain(|_, value| !value.is_null());
    Value::Object(merged)
}

fn add_finalizer(object: &MountObject) -> Vec<Value> {
    if object.finalizers.is_empty() {
        vec![
            json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer::CLIENT_MOUNT]}),
        ]
    } else {
        vec![
            json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer::CLIENT_MOUNT}),
        ]
    }
}

fn remove_finalizer(object: &MountObject) -> Vec<Value> {
    let others: Vec<&String> =
        object.finalizers.iter().filter(|name| *name != finalizer::CLIENT_MOUNT).collect();
    vec![json!({"op": "replace", "path": "/metadata/finalizers", "value": others})]
}

/// Replacing `resourceVersion` by itself makes the API server answer 409 when the object has moved on; a failed `test`
/// operation would be 422, which cannot be told from an invalid patch.
fn patch(object: &MountObject, part: Part, mut operations: Vec<Value>) -> Write {
    operations.insert(
        0,
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": object.resource_version}),
    );
    Write { uid: object.version.uid.clone(), part, operations }
}

#[cfg(test)]
mod tests;
