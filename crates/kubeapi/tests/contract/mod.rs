//! What the embedded server must have in common with a real kube-apiserver: answers as they are, and of a refusal its code, its
//! reason and the fields at fault. Its prose may differ, and so may warnings, but for those of unknown fields in what is taken.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Reduces an answer, or anything that holds answers, to what must agree.
pub(crate) fn reduce(value: &mut Value) {
    match value {
        Value::Object(map) if map.get("kind") == Some(&json!("Status")) && is_failure(map) => {
            *value = refusal(map);
        }
        Value::Object(map) => {
            // Nobody prints what a column says of itself, and cells of built-in kinds are printed by the server.
            if let Some(columns) = map.get_mut("columnDefinitions").and_then(Value::as_array_mut) {
                for part in ["description", "type"] {
                    columns.iter_mut().for_each(|column| column[part] = Value::Null);
                }
            }
            let of = |kind: &str| BUILT_IN.contains(&kind.trim_end_matches("List"));
            if map.get("kind").and_then(Value::as_str).is_some_and(of) {
                drop_empty_members(map);
            }
            // The last page of a list names none that follows.
            map.retain(|name, value| name != "continue" || *value != "");
            let refused = map.get("code").and_then(Value::as_u64).is_some_and(|code| code >= 400);
            map.values_mut().for_each(reduce);
            map.retain(|name, value| name != "warnings" || (!refused && *value != json!([])));
        }
        Value::Array(items) => {
            items.retain(|item| item.as_str().is_none_or(must_be_said));
            items.iter_mut().for_each(reduce);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Kinds whose objects clients read into structs, in which an absent member is an empty one, and an item of a list knows its kind.
const BUILT_IN: [&str; 6] =
    ["Namespace", "ConfigMap", "Secret", "Event", "Lease", "CustomResourceDefinition"];

fn drop_empty_members(map: &mut Map<String, Value>) {
    map.values_mut().for_each(drop_empty);
    let empty = [Value::Null, json!(""), json!(0), json!([]), json!({})];
    map.retain(|_, value| !empty.contains(value));
}

fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            drop_empty_members(map);
            if map.contains_key("metadata") {
                map.retain(|name, _| !matches!(name.as_str(), "kind" | "apiVersion"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_failure(status: &Map<String, Value>) -> bool {
    status.get("status") == Some(&json!("Failure"))
}

fn refusal(status: &Map<String, Value>) -> Value {
    let causes = status.get("details").and_then(|details| details["causes"].as_array());
    let fields: BTreeSet<&str> =
        causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str()).collect();
    json!({"code": status.get("code"), "reason": status.get("reason"), "fields": fields})
}

/// Whether a text, if it is a warning, is one that both servers must give.
fn must_be_said(text: &str) -> bool {
    !text.starts_with("299 - ") || text.contains("unknown field")
}
