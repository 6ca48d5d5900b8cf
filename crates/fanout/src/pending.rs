//! Holds the pending writes to each ClientMount, and builds the patches for them.
//!
//! Pending writes are merged per object: only the newest status is written, and only if the object does not have
//! this status yet. One writer at a time writes an object, and each patch names the resourceVersion that the
//! patch was made from.

use std::collections::{HashMap, VecDeque, hash_map};
use std::sync::Arc;

use api::names::finalizer;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::Notify;

use crate::object::{Key, MountObject};

/// The pending writes to one object.
#[derive(Debug, Default)]
struct Pending {
    /// `metadata.uid` of the object: a later object of the same name does not inherit the writes.
    uid: String,
    add_finalizer: bool,
    remove_finalizer: bool,
    /// The status that the node reported, or a refusal.
    status: Option<Value>,
    /// `metadata.generation` that the status describes. If the object has another generation by now, the status is
    /// dropped, because the node will report on the new generation too.
    generation: i64,
    /// Wakes the writer, which waits after a refusal.
    notify: Arc<Notify>,
}

/// Pending writes, and the objects that wait for a writer.
#[derive(Debug, Default)]
pub(crate) struct PendingWrites {
    pending: HashMap<Key, Pending>,
    /// Objects that no writer has taken yet.
    waiting: VecDeque<Key>,
}

/// The pending write that a patch carries out.
#[derive(Clone, Debug, PartialEq)]
enum WriteKind {
    AddFinalizer,
    /// Write the reported status.
    Status(Value),
    RemoveFinalizer,
}

/// One write to the API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    /// `metadata.uid` of the object that the write was made for.
    uid: String,
    kind: WriteKind,
    /// Operations of the JSON patch (RFC 6902).
    pub operations: Vec<Value>,
}

/// The reason why a reported status cannot be stored.
#[derive(Debug, Error)]
pub enum InvalidStatus {
    #[error("status of the report is not JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("status of the report is not a JSON object")]
    NotAnObject,
    /// The status does not have one entry for each mount.
    #[error("status.mounts of the report has {reported} entries, spec.mounts has {specified}")]
    MountCount {
        /// Number of entries of the status.
        reported: usize,
        /// Number of entries of the spec.
        specified: usize,
    },
}

impl Write {
    /// Returns whether the write adds the finalizer.
    pub(crate) fn adds_finalizer(&self) -> bool {
        self.kind == WriteKind::AddFinalizer
    }

    /// Returns whether the write goes to the status subresource.
    pub(crate) fn is_status(&self) -> bool {
        matches!(self.kind, WriteKind::Status(_))
    }
}

impl PendingWrites {
    /// Requests that the finalizer be added; returns whether a writer has to start.
    pub(crate) fn add_finalizer(&mut self, object: &MountObject) -> bool {
        self.change_pending(object, |pending| pending.add_finalizer = true)
    }

    /// Requests that a status be written and, with `release`, the finalizer removed; returns whether a
    /// writer has to start.
    pub(crate) fn report(&mut self, object: &MountObject, status: Value, release: bool) -> bool {
        self.change_pending(object, |pending| {
            pending.status = Some(status);
            pending.generation = object.version.generation;
            pending.remove_finalizer = release;
        })
    }

    /// Returns whether a status of this object is still to be written.
    pub(crate) fn has_status(&self, key: &Key) -> bool {
        self.pending.get(key).is_some_and(|pending| pending.status.is_some())
    }

    /// Takes the next object that waits for a writer.
    pub(crate) fn take(&mut self) -> Option<Key> {
        self.waiting.pop_front()
    }

    /// Returns the next write of an object that a writer has taken from the queue; `None` ends the writer's work:
    /// all writes are done.
    pub(crate) fn next(&mut self, key: &Key, object: Option<&MountObject>) -> Option<Write> {
        let pending = self.pending.get(key)?;
        let object = object.filter(|object| object.version.uid == pending.uid);
        let write = object.and_then(|object| write(object, pending));
        if write.is_none() {
            self.pending.remove(key);
        }
        write
    }

    /// Records that the API accepted a write. The write counts as done even if the server stored another value, for
    /// example because the schema prunes a field: another attempt would store the same value.
    pub(crate) fn write_accepted(&mut self, key: &Key, write: &Write) {
        let pending = self.pending.get_mut(key).filter(|pending| pending.uid == write.uid);
        let Some(pending) = pending else { return };
        match &write.kind {
            WriteKind::AddFinalizer => pending.add_finalizer = false,
            WriteKind::Status(sent) => {
                if pending.status.as_ref() == Some(sent) {
                    pending.status = None;
                }
            }
            WriteKind::RemoveFinalizer => pending.remove_finalizer = false,
        }
    }

    /// Wakes the writer of a changed object: the API may now accept a write that it refused before, or the write may
    /// not be needed any more.
    pub(crate) fn wake(&self, key: &Key) {
        if let Some(pending) = self.pending.get(key) {
            pending.notify.notify_one();
        }
    }

    /// Wakes all writers: every object may have changed.
    pub(crate) fn wake_all(&self) {
        self.pending.values().for_each(|pending| pending.notify.notify_one());
    }

    /// Returns the `Notify` that wakes the writer of an object.
    pub(crate) fn notify(&self, key: &Key) -> Option<Arc<Notify>> {
        self.pending.get(key).map(|pending| pending.notify.clone())
    }

    /// Changes the pending writes of an object; returns whether the object had no pending writes before, and was
    /// queued for a writer.
    fn change_pending(&mut self, object: &MountObject, change: impl FnOnce(&mut Pending)) -> bool {
        let uid = object.version.uid.clone();
        match self.pending.entry(object.key.clone()) {
            hash_map::Entry::Occupied(known) => {
                let pending = known.into_mut();
                if pending.uid != uid {
                    *pending =
                        Pending { uid, notify: pending.notify.clone(), ..Pending::default() };
                }
                change(pending);
                pending.notify.notify_one();
                false
            }
            hash_map::Entry::Vacant(entry) => {
                change(entry.insert(Pending { uid, ..Pending::default() }));
                self.waiting.push_back(object.key.clone());
                true
            }
        }
    }
}

/// Parses the status of a report, and checks that it has one entry for each mount of the object.
pub(crate) fn parse_status(status: &[u8], object: &MountObject) -> Result<Value, InvalidStatus> {
    let status: Value = serde_json::from_slice(status).map_err(InvalidStatus::NotJson)?;
    if !status.is_object() {
        return Err(InvalidStatus::NotAnObject);
    }
    let reported = status.get("mounts").and_then(Value::as_array).map_or(0, Vec::len);
    if reported != object.mounts {
        return Err(InvalidStatus::MountCount { reported, specified: object.mounts });
    }
    Ok(status)
}

/// Returns the status of an object that is sent to no node, with the reason for the user.
pub(crate) fn refused_status(object: &MountObject, why: &str) -> Value {
    let mounts = vec![json!({"state": object.desired_state, "ready": false}); object.mounts];
    let error = json!({
        "debugMessage": why, "userMessage": why, "type": "User", "severity": "Fatal",
    });
    json!({"mounts": mounts, "allReady": false, "error": error})
}

fn write(object: &MountObject, pending: &Pending) -> Option<Write> {
    if pending.add_finalizer && !object.has_finalizer() && !object.version.deleting {
        return Some(patch(object, WriteKind::AddFinalizer, add_finalizer(object)));
    }
    let releasing = pending.remove_finalizer && object.version.deleting && object.has_finalizer();
    // The removal of the last finalizer deletes the object, so a status that is written just before is useless.
    let skips_status = releasing && object.has_no_other_finalizer();
    let is_current = pending.generation == object.version.generation;
    if let Some(status) = pending.status.as_ref().filter(|_| is_current && !skips_status) {
        let merged = merge_status(object.status.as_ref(), status);
        if object.status.as_ref() != Some(&merged) {
            let operations = vec![json!({"op": "add", "path": "/status", "value": merged})];
            return Some(patch(object, WriteKind::Status(status.clone()), operations));
        }
    }
    releasing.then(|| patch(object, WriteKind::RemoveFinalizer, remove_finalizer(object)))
}

/// Returns whether a status contains all fields of a report.
pub(crate) fn matches_report(current: Option<&Value>, reported: &Value) -> bool {
    current == Some(&merge_status(current, reported))
}

/// Returns the current status with the fields of the node's report replaced. Keeps other fields of the status
/// and of its entries.
fn merge_status(current: Option<&Value>, reported: &Value) -> Value {
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
            let mut fields = entry.as_object().cloned().unwrap_or_default();
            fields.extend(known);
            *mount = Value::Object(fields);
        }
    }
    merged.retain(|_, value| !value.is_null());
    Value::Object(merged)
}

fn add_finalizer(object: &MountObject) -> Vec<Value> {
    let (path, value) = if object.finalizers.is_empty() {
        ("/metadata/finalizers", json!([finalizer::CLIENT_MOUNT]))
    } else {
        ("/metadata/finalizers/-", json!(finalizer::CLIENT_MOUNT))
    };
    vec![json!({"op": "add", "path": path, "value": value})]
}

fn remove_finalizer(object: &MountObject) -> Vec<Value> {
    let others: Vec<&String> =
        object.finalizers.iter().filter(|name| *name != finalizer::CLIENT_MOUNT).collect();
    vec![json!({"op": "replace", "path": "/metadata/finalizers", "value": others})]
}

/// Builds a patch that the API server refuses if the object has changed: the patch contains the resourceVersion from
/// which it was made, and the server answers 409 if the object has another resourceVersion. The operation `test` is no
/// substitute: if it fails, the server answers 422, as for an invalid patch, and the writer could not tell the two
/// apart.
fn patch(object: &MountObject, kind: WriteKind, mut operations: Vec<Value>) -> Write {
    operations.insert(
        0,
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": object.resource_version}),
    );
    Write { uid: object.version.uid.clone(), kind, operations }
}

#[cfg(test)]
mod tests;
