//! What two equal answers may differ in. Each rule hides something, so each says why it is here.

use crate::operation::Memory;
use crate::servers::Reply;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
});
static REVISION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"((?:ResourceVersion in [a-z ]+: |ResourceVersion in the precondition \(|ResourceVersion in record \())([0-9]+)").unwrap()
});
/// The key in etcd that a conflict was noticed at.
static ETCD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("StorageError: invalid object, Code: 4, Key: [^ ]*, ResourceVersion: 0, AdditionalErrorMsg: ").unwrap()
});
/// A body without a kind.
static KINDLESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^the object provided is unrecognized \(must be of type ([A-Za-z0-9]+)\): Object 'Kind' is missing in").unwrap()
});
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("in version \"[^\"]*\" cannot be handled").unwrap());
/// What Go's decoders say of a value of the wrong type names Go's types.
static GO_DECODING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?s)(unrecognized \\(must be of type [A-Za-z0-9]+\\)|cannot be handled as a [A-Za-z0-9]+|couldn't get version/kind; json parse error|error decoding patch|continue key is not valid|Object 'Kind' is missing in|json: cannot unmarshal|in our request|in scheme).*").unwrap()
});
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new("^([0-9]+[smhdy])+$").unwrap());

/// An answer without what may differ.
pub(crate) fn reply(reply: &Reply, memory: &mut Memory) -> Value {
    let mut body = reply.body.clone();
    clean(&mut body, memory);
    let warnings: Vec<String> =
        reply.warnings.iter().map(|warning| words(warning, memory)).collect();
    json!({ "code": reply.code, "type": reply.media_type, "warnings": warnings, "body": body })
}

/// The object of a watch event without what may differ. Revisions that no answer has shown cannot be told apart: the real
/// server's count other things too.
pub(crate) fn event(event: &Value, memory: &Memory) -> Value {
    let mut event = event.clone();
    let mut memory = memory.clone();
    let shown = memory.order.clone();
    let revision = event["object"]["metadata"]["resourceVersion"].take();
    let order = revision.as_str().and_then(|revision| shown.get(revision));
    clean(&mut event["object"], &mut memory);
    event["object"]["metadata"]["resourceVersion"] =
        order.map_or_else(|| json!("unseen"), |order| json!(format!("rv-{order}")));
    event
}

fn clean(body: &mut Value, memory: &mut Memory) {
    let kind = body["kind"].as_str().unwrap_or_default().to_owned();
    // The revision of a list moves with whatever else the server stores, its own leases among them.
    if (kind == "Table" || kind.ends_with("List"))
        && let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut)
    {
        meta.remove("resourceVersion");
        meta.entry("continue").and_modify(|token| *token = json!("TOKEN"));
    }
    if body.get("items") == Some(&Value::Null) {
        // An empty list of Go, made in another way.
        body["items"] = json!([]);
    }
    if kind == "CustomResourceDefinition" {
        // Its controllers, which tell the status, come after the answer; the state they lead to is compared once it is there.
        if let Some(body) = body.as_object_mut() {
            body.remove("status");
        }
        if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("finalizers");
        }
    }
    if kind == "Table" {
        clean_ages(body);
    }
    if kind == "Status" {
        clean_status(body);
    }
    walk(body, memory);
}

fn clean_status(status: &mut Value) {
    // Which media types there are is of each server: the real one also writes YAML and protobuf.
    if status["code"] == 406 {
        status["message"] = Value::Null;
        status["details"] = Value::Null;
    }
    if let Some(causes) = status["details"].get_mut("causes").and_then(Value::as_array_mut)
        && causes.iter().any(|cause| cause["field"] == "patch")
    {
        // It shows all that the patch made of the object, and who manages which field of it.
        causes.iter_mut().for_each(|cause| cause["message"] = Value::Null);
        status["message"] = Value::Null;
    }
    // Go walks the properties of a schema in an order that is another one every time.
    if let Some(causes) = status["details"].get_mut("causes").and_then(Value::as_array_mut)
        && causes.len() > 1
    {
        causes.sort_by_key(Value::to_string);
        // An update checks metadata up to three times, and says so as often.
        causes.dedup();
        let message = status["message"].as_str().unwrap_or_default();
        let head = message.split(" is invalid: ").next().unwrap_or_default().to_owned();
        status["message"] = json!(head);
    } else if let Some((head, _)) =
        status["message"].as_str().and_then(|message| message.split_once(" is invalid: "))
        && status["details"]["causes"].is_array()
    {
        // It repeats the cause, which is compared.
        status["message"] = json!(head);
    }
}

/// Ages are of the moment.
fn clean_ages(table: &mut Value) {
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                *cell = json!("AGE");
            }
        }
    }
}

fn walk(value: &mut Value, memory: &mut Memory) {
    match value {
        Value::Object(map) => walk_map(map, memory),
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, memory)),
        Value::String(text) => *text = words(text, memory),
        // JSON has one kind of number; beyond an int64 both mean the same float.
        Value::Number(number) if number.is_u64() && !number.is_i64() => {
            *value = json!(number.as_f64())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn walk_map(map: &mut Map<String, Value>, memory: &mut Memory) {
    // Who wrote which field is not kept by a server without server-side apply.
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
    let text = text.replace("Invalid JSON Patch", "error decoding patch");
    let text = match text.strip_prefix("json: cannot unmarshal") {
        Some(_) => "error decoding patch".to_owned(),
        None => text,
    };
    // Which of its decoders looks first depends on the strictness.
    let text = match KINDLESS.captures(&text) {
        Some(found) => format!("{0} in version \"?\" cannot be handled as a {0}", &found[1]),
        None => VERSION.replace(&text, "in version \"?\" cannot be handled").into_owned(),
    };
    let text = if text.contains("strict decoding error") {
        text.into()
    } else {
        GO_DECODING.replace(&text, "$1")
    };
    let text = ETCD.replace(&text, "").into_owned();
    let text = UUID.replace_all(&text, |found: &Captures<'_>| match &found[0] {
        // Those are the client's.
        own if own.starts_with("01234567-89ab") => own.to_owned(),
        uid => format!("uid-{}", memory.number(uid)),
    });
    let text = REVISION.replace_all(&text, |found: &Captures<'_>| {
        format!("{}rv-{}", &found[1], memory.number(&found[2]))
    });
    text.into_owned()
}

/// Where two values differ.
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
                // An absent member and a null are not the same.
                let of =
                    |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(json!("ABSENT"));
                compare(&of(left), &of(right), &format!("{path}/{key}"), found);
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
