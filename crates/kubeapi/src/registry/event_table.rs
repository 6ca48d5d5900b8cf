//! How kube-apiserver shows events in a table: cells that no path leads to (kubernetes `printEvent`).

use super::Column;
use super::column::{NAME, age};
use crate::object::Object;
use serde_json::{Value, json};

/// Name, priority, what it is mostly about, description.
const COLUMNS: [(&str, i64, &str, &str); 10] = [
    (
        "Last Seen",
        0,
        ".lastTimestamp",
        "The time at which the most recent occurrence of this event was recorded.",
    ),
    (
        "Type",
        0,
        ".type",
        "Type of this event (Normal, Warning), new types could be added in the future",
    ),
    (
        "Reason",
        0,
        ".reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
    ),
    ("Object", 0, ".involvedObject.name", "The object that this event is about."),
    (
        "Subobject",
        1,
        ".involvedObject.fieldPath",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
    ),
    (
        "Source",
        1,
        ".source",
        "The component reporting this event. Should be a short machine understandable string.",
    ),
    ("Message", 0, ".message", "A human-readable description of the status of this operation."),
    (
        "First Seen",
        1,
        ".firstTimestamp",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
    ),
    ("Count", 1, ".count", "The number of times this event has occurred."),
    ("Name", 1, ".metadata.name", NAME),
];

pub(super) fn columns() -> Vec<Column> {
    let column = |(name, priority, path, description): (&str, i64, &str, &str)| {
        let base = Column::new(name, "string", path)
            .expect("the paths in this file are well formed, as a test shows");
        let format = if name == "Name" { "name" } else { "" };
        let (format, description) = (format.to_owned(), description.to_owned());
        Column { priority, format, description, ..base }
    };
    COLUMNS.into_iter().map(column).collect()
}

/// The cells of a stored event.
pub(crate) fn cells(event: &Object) -> Vec<Value> {
    let text = |path: &str| {
        let parts = path.split('.');
        let found = parts.fold(None, |at: Option<&Value>, part| match at {
            None => event.body.get(part),
            Some(value) => value.get(part),
        });
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let series = event.body.get("series").filter(|series| series.is_object());
    let count = match series {
        Some(series) => series["count"].as_i64().unwrap_or(0),
        None => event.body.get("count").and_then(Value::as_i64).unwrap_or(1),
    };
    let since = |time: &str| match time {
        "" => "<unknown>".to_owned(),
        time => age(time),
    };
    let first = first_of(text("firstTimestamp"), text("eventTime"));
    let last = match series {
        Some(series) => series["lastObservedTime"].as_str().unwrap_or_default(),
        None => first_of(text("lastTimestamp"), text("eventTime")),
    };
    let source = [
        first_of(text("source.component"), text("reportingComponent")),
        first_of(text("source.host"), text("reportingInstance")),
    ];
    let about = [&*text("involvedObject.kind").to_lowercase(), text("involvedObject.name")];
    vec![
        json!(since(last)),
        json!(text("type")),
        json!(text("reason")),
        json!(joined(about, "/")),
        json!(text("involvedObject.fieldPath")),
        json!(joined(source, ", ")),
        json!(text("message").trim()),
        json!(since(first)),
        json!(count),
        json!(event.name()),
    ]
}

fn first_of<'a>(one: &'a str, other: &'a str) -> &'a str {
    if one.is_empty() { other } else { one }
}

/// Two parts, the second of which need not be there.
fn joined([first, second]: [&str; 2], between: &str) -> String {
    if second.is_empty() { first.to_owned() } else { format!("{first}{between}{second}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fall_back_to_the_newer_members() {
        let shown = |body: Value| {
            let mut cells = cells(&Object::from_value(body).unwrap());
            (cells.remove(8), cells.remove(5), cells.remove(3))
        };
        let old = json!({"metadata": {"name": "e"}, "source": {"component": "c"},
            "involvedObject": {"kind": "Node", "name": "a"}});
        assert_eq!(shown(old), (json!(1), json!("c"), json!("node/a")));
        let new = json!({"metadata": {"name": "e"}, "reportingComponent": "c", "reportingInstance": "i",
            "involvedObject": {"kind": "Node"}, "series": {"count": 5}});
        assert_eq!(shown(new), (json!(5), json!("c, i"), json!("node")));
    }
}
