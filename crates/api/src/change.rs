//! Read-modify-write without loss of unknown fields.
//!
//! Decoding an object drops the fields that the types do not model, so writing the decoded object back would erase
//! them. Agents clone the object that they read, change the clone and send only the difference; they send nothing if
//! there is none.
//!
//! Object members are written by `add`, which also replaces: the server may hold a member although decoding saw only
//! its default. Elements of an array that keeps its length are matched by position, as `status` lists are parallel to
//! `spec` lists. When the length changes, the equal elements at its beginning and end are matched, so that removing an
//! element does not shift the unknown members of the others. Change an element and remove another in two writes: a
//! single write cannot show which element is which.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the JSON patch (RFC 6902) that turns `before` into `after` and leaves alone the fields that `T` does not
/// model; `None` if both are equal.
///
/// Paths into arrays are valid for the object that was read; use [`guarded_change`] where others write the same array.
#[must_use]
pub fn change<T: Serialize>(before: &T, after: &T) -> Option<Patch> {
    let mut patch = Patch::default();
    diff(&to_json(before), &to_json(after), &mut PointerBuf::new(), &mut patch.0);
    (!patch.0.is_empty()).then_some(patch)
}

/// Like [`change`], but the server refuses the patch (409) if the object has changed since `before` was read: a patch
/// that sets the resourceVersion is an update of that version.
///
/// An object that was not read from a server has no resourceVersion; its patch is not guarded.
#[must_use]
pub fn guarded_change<T: Serialize + Resource>(before: &T, after: &T) -> Option<Patch> {
    let mut patch = change(before, after)?;
    if let Some(version) = before.resource_version() {
        let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
        let guard = ReplaceOperation { path, value: Value::String(version) };
        patch.0.insert(0, PatchOperation::Replace(guard));
    }
    Some(patch)
}

fn to_json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value)
        .expect("our types have string keys and no serializer of their own that fails")
}

fn diff(before: &Value, after: &Value, path: &mut PointerBuf, patch: &mut Vec<PatchOperation>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => diff_members(before, after, path, patch),
        (Value::Array(before), Value::Array(after)) => diff_elements(before, after, path, patch),
        _ if before == after => {}
        _ => patch.push(PatchOperation::Replace(ReplaceOperation {
            path: path.clone(),
            value: after.clone(),
        })),
    }
}

fn diff_members(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &mut PointerBuf,
    patch: &mut Vec<PatchOperation>,
) {
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        path.push_back(key);
        patch.push(remove(path));
        path.pop_back();
    }
    for (key, value) in after {
        path.push_back(key);
        match (before.get(key), value) {
            (Some(old @ Value::Object(_)), Value::Object(_))
            | (Some(old @ Value::Array(_)), Value::Array(_)) => {
                diff(old, value, path, patch);
            }
            (Some(old), _) if old == value => {}
            _ => patch.push(add(path, value)),
        }
        path.pop_back();
    }
}

/// Walks both arrays from one matched pair of elements to the next; pairs the elements between them, then removes
/// or adds the rest.
fn diff_elements(
    before: &[Value],
    after: &[Value],
    path: &mut PointerBuf,
    patch: &mut Vec<PatchOperation>,
) {
    let (mut from, mut to, mut at) = (0, 0, 0);
    let mut anchors =
        if before.len() == after.len() { Vec::new() } else { matched_ends(before, after) };
    anchors.push((before.len(), after.len()));
    for (next_from, next_to) in anchors {
        let old = before.get(from..next_from).unwrap_or_default();
        let new = after.get(to..next_to).unwrap_or_default();
        let paired = old.len().min(new.len());
        for (old, new) in old.iter().zip(new) {
            path.push_back(at);
            diff(old, new, path, patch);
            path.pop_back();
            at += 1;
        }
        for _ in old.iter().skip(paired) {
            path.push_back(at);
            patch.push(remove(path));
            path.pop_back();
        }
        for value in new.iter().skip(paired) {
            path.push_back(at);
            patch.push(add(path, value));
            path.pop_back();
            at += 1;
        }
        (from, to, at) = (next_from + 1, next_to + 1, at + 1);
    }
}

/// Returns the positions of the equal elements at the beginning and at the end of both arrays, in order.
fn matched_ends(before: &[Value], after: &[Value]) -> Vec<(usize, usize)> {
    let prefix = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let rest = before.len().min(after.len()) - prefix;
    let ends = before.iter().rev().zip(after.iter().rev()).take(rest);
    let suffix = ends.take_while(|(old, new)| old == new).count();
    let (from, to) = (before.len() - suffix, after.len() - suffix);
    let begin = (0..prefix).map(|at| (at, at));
    begin.chain((0..suffix).map(|at| (from + at, to + at))).collect()
}

fn add(path: &PointerBuf, value: &Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: path.clone(), value: value.clone() })
}

fn remove(path: &PointerBuf) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: path.clone() })
}

#[cfg(test)]
mod tests;
