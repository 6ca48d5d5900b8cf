//! Strategic merge for the built-in kinds: maps merge, lists are replaced, but for the two lists of metadata that merge
//! (kubernetes `strategicpatch`, with the patch strategies of ObjectMeta).

use serde_json::{Map, Value};

const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `object`, directives obeyed.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => merge_map(object, patch),
        (object, patch) => *object = patch.clone(),
    }
}

fn merge_map(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => object.clear(),
        Some("delete") => {
            object.clear();
            return;
        }
        _ => {}
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            delete_from(object, list, value);
        } else if key.starts_with('$') {
            // `$setElementOrder` and `$retainKeys`: the lists here have no order, and no kind here has unions.
        } else if value.is_null() {
            object.remove(key);
        } else if object.contains_key(key) || value.get("$patch").is_none() {
            // A directive for an absent member does not create it.
            merge_member(object, key, value);
        }
    }
}

fn merge_member(object: &mut Map<String, Value>, key: &str, value: &Value) {
    let before = object.entry(key).or_insert(Value::Null);
    if matches!(key, "finalizers" | "ownerReferences") && before.is_null() && value.is_array() {
        *before = Value::Array(Vec::new());
    }
    match (before, value) {
        (Value::Array(before), Value::Array(added)) if key == "finalizers" => {
            let new = added.iter().filter(|item| !before.contains(item)).cloned();
            before.splice(0..0, new.collect::<Vec<_>>());
        }
        (Value::Array(before), Value::Array(added)) if key == "ownerReferences" => {
            merge_owners(before, added);
        }
        (before @ Value::Object(_), Value::Object(_)) => merge(before, value),
        (before, Value::Object(patch)) => {
            let mut fresh = Map::new();
            merge_map(&mut fresh, patch);
            *before = fresh.into();
        }
        (before, value) => *before = value.clone(),
    }
}

fn merge_owners(before: &mut Vec<Value>, added: &[Value]) {
    for owner in added {
        let same = |other: &&mut Value| other.get("uid") == owner.get("uid");
        if owner["$patch"] == "delete" {
            before.retain(|other| other.get("uid") != owner.get("uid"));
        } else if let Some(other) = before.iter_mut().find(same) {
            merge(other, owner);
        } else {
            before.push(owner.clone());
        }
    }
}

fn delete_from(object: &mut Map<String, Value>, list: &str, gone: &Value) {
    let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(items) = object.get_mut(list).and_then(Value::as_array_mut) {
        items.retain(|item| !gone.contains(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_merge_and_lists_obey_directives() {
        let mut object =
            json!({"data": {"a": "1", "b": "2"}, "metadata": {"finalizers": ["x", "y"]}});
        merge(
            &mut object,
            &json!({
                "data": {"a": null, "c": "3"},
                "metadata": {
                    "finalizers": ["z"], "$deleteFromPrimitiveList/finalizers": ["x"], "$setElementOrder/finalizers": ["y", "z"]
                }
            }),
        );
        assert_eq!(
            object,
            json!({"data": {"b": "2", "c": "3"}, "metadata": {"finalizers": ["z", "y"]}})
        );
        merge(&mut object, &json!({"data": {"$patch": "replace", "d": "4"}}));
        assert_eq!(object["data"], json!({"d": "4"}));
    }
}
