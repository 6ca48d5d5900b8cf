//! The permitted differences between the answers of the two servers. A rule may hide an error of the embedded server,
//! so each rule states why it is needed.

use crate::contract;
use crate::operation::Memory;
use crate::servers::Reply;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
});
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new("^([0-9]+[smhdy])+$").unwrap());

/// Removes the permitted differences from an answer.
pub(crate) fn reply(reply: &Reply, memory: &mut Memory) -> Value {
    let mut answer = json!({
        "code": reply.code, "type": reply.media_type, "warnings": reply.warnings, "body": reply.body,
    });
    // Drops the messages before `clean` numbers the uids: a uid that only one server mentions in a message would shift
    // the numbers of all later uids of this server.
    contract::reduce(&mut answer);
    clean(&mut answer["body"], memory);
    if let Some(warnings) = answer.get_mut("warnings") {
        walk(warnings, memory);
    }
    answer
}

/// Removes the permitted differences from the object of a watch event. A revision that no answer has shown becomes
/// `unseen`: it has no number by which it could be compared with a revision of the other server.
pub(crate) fn event(event: &Value, memory: &Memory) -> Value {
    let mut event = event.clone();
    let mut memory = memory.clone();
    let shown = memory.order.clone();
    let revision = event["object"]["metadata"]["resourceVersion"].take();
    let order = revision.as_str().and_then(|revision| shown.get(revision));
    clean(&mut event["object"], &mut memory);
    event["object"]["metadata"]["resourceVersion"] =
        order.map_or_else(|| json!("unseen"), |order| json!(format!("rv-{order}")));
    contract::reduce(&mut event);
    event
}

fn clean(body: &mut Value, memory: &mut Memory) {
    let kind = body["kind"].as_str().unwrap_or_default().to_owned();
    // Other writes to the real server, such as those to its own leases, raise the revision of a list too.
    if (kind == "Table" || kind.ends_with("List"))
        && let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut)
    {
        meta.remove("resourceVersion");
        meta.entry("continue").and_modify(|token| *token = json!("TOKEN"));
    }
    if body.get("items") == Some(&Value::Null) {
        // Go may write an empty list as null.
        body["items"] = json!([]);
    }
    if kind == "CustomResourceDefinition" {
        // The real server's controllers write the status after the answer. The tests compare the final status
        // separately.
        if let Some(body) = body.as_object_mut() {
            body.remove("status");
        }
        if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("finalizers");
        }
    }
    if kind == "Table" {
        clean_cells(body);
    }
    walk(body, memory);
}

/// Replaces ages in the cells of a table by `AGE`. Converts all numbers in cells to floats, because Go writes a large
/// integer in a cell as a float.
fn clean_cells(table: &mut Value) {
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                *cell = json!("AGE");
            } else if let Some(number) = cell.as_f64() {
                *cell = json!(number);
            }
        }
    }
}

fn walk(value: &mut Value, memory: &mut Memory) {
    match value {
        Value::Object(map) => walk_map(map, memory),
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, memory)),
        Value::String(text) => *text = words(text, memory),
        // An integer that does not fit into an int64: both servers read it as the same float, but write it in different
        // ways.
        Value::Number(number) if number.is_u64() && !number.is_i64() => {
            *value = json!(number.as_f64());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn walk_map(map: &mut Map<String, Value>, memory: &mut Memory) {
    // Only server-side apply, which the embedded server lacks, needs the record of which client wrote a field.
    map.remove("managedFields");
    for (key, value) in map.iter_mut() {
        match (key.as_str(), &value) {
            ("resourceVersion", Value::String(text)) if text.parse::<u64>().is_ok() => {
                *value = json!(format!("rv-{}", memory.number(text)));
            }
            (
                "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime",
                Value::String(text),
            ) if text.len() == 20 => {
                *value = json!("TIME");
            }
            _ => walk(value, memory),
        }
    }
}

fn words(text: &str, memory: &mut Memory) -> String {
    let text = text.replace(&memory.run, "RUN");
    let text = UUID.replace_all(&text, |found: &Captures<'_>| match &found[0] {
        // Uids that the client has chosen.
        own if own.starts_with("01234567-89ab") => own.to_owned(),
        uid => format!("uid-{}", memory.number(uid)),
    });
    text.into_owned()
}

/// Returns the differences of two values.
pub(crate) fn differences(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(ours, theirs, "", &mut found);
    found
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) ours: Value,
    pub(crate) theirs: Value,
}

fn compare(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> =
                left.keys().chain(right.keys()).collect();
            for key in keys {
                // An absent member differs from a null.
                let member =
                    |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(json!("ABSENT"));
                compare(&member(left), &member(right), &format!("{path}/{key}"), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(left, right, &format!("{path}/{index}"), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push(Difference {
            path: path.to_owned(),
            ours: left.clone(),
            theirs: right.clone(),
        }),
    }
}
