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
            // Other directives order lists and retain keys of unions, of which these kinds have none.
        } else if value.is_null() {
            object.remove(key);
        } else if object.contains_key(key) || value.get("$patch").is_none() {
            // A directive about what is not there leaves it so.
            merge_member(object, key, value);
        }
    }
    order_finalizers(object, patch);
}

/// Puts merged finalizers into the order of the patch, those that only the server has where they were among them
/// (`strategicpatch` `mergeSortedSlice`).
fn order_finalizers(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    let order = patch.get("$setElementOrder/finalizers").or_else(|| patch.get("finalizers"));
    let merged = object.get_mut("finalizers").and_then(Value::as_array_mut);
    let (Some(order), Some(merged)) = (order.and_then(Value::as_array), merged) else { return };
    let before = merged.clone();
    let place = |item: &Value| before.iter().position(|other| other == item);
    let mut patched = order.iter().filter(|item| before.contains(item)).cloned().peekable();
    let mut others = before.iter().filter(|item| !order.contains(item)).cloned().peekable();
    merged.clear();
    loop {
        let next = match (others.peek(), patched.peek()) {
            (Some(other), Some(own)) if was_there(own, patch) && place(other) < place(own) => {
                others.next()
            }
            (_, Some(_)) => patched.next(),
            (_, None) => others.next(),
        };
        let Some(next) = next else { return };
        merged.push(next);
    }
}

/// Whether the server had a finalizer before: then the patch names it in its order alone.
fn was_there(finalizer: &Value, patch: &Map<String, Value>) -> bool {
    let added = patch.get("finalizers").and_then(Value::as_array);
    !added.is_some_and(|added| added.contains(finalizer))
}

fn merge_member(object: &mut Map<String, Value>, key: &str, value: &Value) {
    let before = object.entry(key).or_insert(Value::Null);
    if matches!(key, "finalizers" | "ownerReferences") && before.is_null() && value.is_array() {
        *before = Value::Array(Vec::new());
    }
    match (before, value) {
        (Value::Array(before), Value::Array(added)) if key == "finalizers" => {
            before.extend(
                added.iter().filter(|item| !before.contains(item)).cloned().collect::<Vec<_>>(),
            );
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
            json!({"data": {"b": "2", "c": "3"}, "metadata": {"finalizers": ["y", "z"]}})
        );
        merge(&mut object, &json!({"data": {"$patch": "replace", "d": "4"}}));
        assert_eq!(object["data"], json!({"d": "4"}));
    }
}
