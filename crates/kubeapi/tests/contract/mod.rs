//! What the embedded server and a real kube-apiserver must have in common: answers must be equal; refusals must have
//! the same code, the same reason, and name the same fields. Messages of refusals may differ. Warnings may differ too,
//! but a warning about an unknown field in an accepted object must come from both servers.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Drops from an answer, or from a value that contains answers, all parts that may differ.
pub(crate) fn reduce(value: &mut Value) {
    match value {
        Value::Object(map) if map.get("kind") == Some(&json!("Status")) && is_failure(map) => {
            *value = refusal(map);
        }
        Value::Object(map) => {
            // No client prints the description and the type of a column.
            if let Some(columns) = map.get_mut("columnDefinitions").and_then(Value::as_array_mut) {
                for part in ["description", "type"] {
                    columns.iter_mut().for_each(|column| column[part] = Value::Null);
                }
            }
            let is_built_in = |kind: &str| BUILT_IN.contains(&kind.trim_end_matches("List"));
            if map.get("kind").and_then(Value::as_str).is_some_and(is_built_in) {
                drop_empty_members(map);
            }
            // The last page of a list has either no continue token or an empty token.
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

/// Kinds that clients decode into structs. Once decoded, an absent member equals an empty member, and a list's items
/// need no `kind`.
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

/// Returns whether a text must come from both servers: any text but a warning, and a warning about an unknown field.
fn must_be_said(text: &str) -> bool {
    !text.starts_with("299 - ") || text.contains("unknown field")
}
