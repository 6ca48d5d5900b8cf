//! Strategic merge for the built-in kinds (kubernetes `strategicpatch`): like a merge patch, but the lists `finalizers`
//! and `ownerReferences` are merged item by item, and a map may contain the directive `$patch`.

use serde_json::{Map, Value};

const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `object`, and applies the directives in `patch`.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Map::new().into();
    }
    if let Value::Object(object) = object {
        merge_map(object, patch);
    }
}

fn merge_map(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    let directive = patch.get("$patch").and_then(Value::as_str);
    if matches!(directive, Some("replace" | "delete")) {
        object.clear();
    }
    for (key, value) in patch.iter().filter(|_| directive != Some("delete")) {
        let before = object.get_mut(key);
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            let (list, gone) = (object.get_mut(list), value.as_array());
            if let (Some(Value::Array(list)), Some(gone)) = (list, gone) {
                list.retain(|item| !gone.contains(item));
            }
        } else if key.starts_with('$') {
            // Ignores `$setElementOrder`, because the order of `finalizers` and of `ownerReferences` has no meaning,
            // and `$retainKeys`, because it concerns unions, which no built-in kind of this server has.
        } else if value.is_null() {
            object.remove(key);
        } else if let (Some(Value::Array(before)), Value::Array(added)) = (before, value)
            && matches!(key.as_str(), "finalizers" | "ownerReferences")
        {
            // New finalizers come first, as in kube-apiserver.
            let new = before.len();
            added.iter().for_each(|item| merge_item(before, item));
            before.rotate_left(if key == "finalizers" { new } else { 0 });
        } else if object.contains_key(key) || value.get("$patch").is_none() {
            // A directive for an absent member does not create the member.
            merge(object.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Merges an item into a list. The item replaces an equal finalizer, or an owner reference with the same uid.
fn merge_item(list: &mut Vec<Value>, item: &Value) {
    let key = |item: &Value| item.get("uid").unwrap_or(item).clone();
    if item["$patch"] == "delete" {
        list.retain(|other| key(other) != key(item));
    } else if let Some(known) = list.iter_mut().find(|other| key(other) == key(item)) {
        merge(known, item);
    } else {
        list.push(item.clone());
    }
}
