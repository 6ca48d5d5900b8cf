//! What an Event must say (kubernetes `pkg/apis/core/validation/events.go`). Those with an `eventTime` are of the newer kind and
//! must say more; in events.k8s.io/v1 there are no others.

use crate::names;
use crate::object::Object;
use crate::status::Cause;
use serde_json::{Value, json};

const LONGEST_WORD: usize = 128;
const LONGEST_NOTE: usize = 1024;
/// What an update in events.k8s.io/v1 leaves as it is.
const IMMUTABLE: [&str; 13] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// What is wrong with an event that came in this API version, or with what an update makes of `old`.
pub(super) fn check(version: &str, object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let newer = version.starts_with("events.k8s.io/");
    let controller = if newer { "reportingController" } else { "reportingComponent" };
    let mut causes = match object.body.get("eventTime") {
        None | Some(Value::Null) => check_namespace(object, &["default"], true),
        Some(_) => check_words(object, controller),
    };
    match old {
        Some(old) if newer => causes.extend(changed(object, old)),
        None if newer => causes.extend(check_newer(object)),
        _ => {}
    }
    causes
}

fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.body.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// An event lies in the namespace of what it is about; that of a cluster-scoped object in one of a few.
fn check_namespace(object: &Object, of_cluster: &[&str], same: bool) -> Vec<Cause> {
    let about = object.body.get("involvedObject").and_then(|about| about["namespace"].as_str());
    let about = about.unwrap_or_default();
    let here = object.namespace();
    let fits = match about {
        "" => of_cluster.contains(&here),
        about => !same || about == here,
    };
    if fits {
        return Vec::new();
    }
    let why = "does not match event.namespace";
    vec![Cause::invalid("involvedObject.namespace", &json!(about), why)]
}

fn check_words(object: &Object, controller: &str) -> Vec<Cause> {
    let mut causes = check_namespace(object, &["default", "kube-system"], false);
    let reporter = text(object, "reportingComponent");
    if reporter.is_empty() {
        causes.push(Cause::required(controller, ""));
    }
    for why in names::qualified_name(reporter) {
        causes.push(Cause::invalid(controller, &json!(reporter), why));
    }
    for field in ["reportingInstance", "action", "reason"] {
        if text(object, field).is_empty() {
            causes.push(Cause::required(field, ""));
        }
        causes.extend(too_long(object, field, LONGEST_WORD));
    }
    causes.extend(too_long(object, "message", LONGEST_NOTE));
    causes
}

fn too_long(object: &Object, field: &str, most: usize) -> Option<Cause> {
    let why = format!("can have at most {most} characters");
    (text(object, field).len() > most).then(|| Cause::invalid(field, &json!(""), why))
}

fn check_newer(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let member = |field: &str| object.body.get(field).filter(|value| !value.is_null());
    if member("eventTime").is_none() {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = text(object, "type");
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(Cause::invalid("type", &json!(""), format!("has invalid value: {kind}")));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if member(field).is_some_and(|value| *value != json!({}) && *value != 0) {
            causes.push(Cause::invalid(field, &json!(""), "needs to be unset"));
        }
    }
    causes
}

fn changed(object: &Object, old: &Object) -> Vec<Cause> {
    let value = |object: &Object, field: &str| object.body.get(field).cloned().unwrap_or_default();
    IMMUTABLE
        .into_iter()
        .filter(|field| value(object, field) != value(old, field))
        .map(|field| Cause::invalid(field, &value(object, field), "field is immutable"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(body: &Value) -> Object {
        let mut whole = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
            "involvedObject": {"kind": "Node", "namespace": "n"}});
        let members = body.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(members);
        Object::from_value(whole).unwrap()
    }

    #[test]
    fn newer_events_say_more() {
        let words = json!({"eventTime": "2001-01-01T00:00:00.000000Z", "reportingComponent": "c",
            "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal"});
        let fields = |version: &str, object: &Object, old: Option<&Object>| {
            let causes = check(version, object, old);
            causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        let (old, new) = ("v1", "events.k8s.io/v1");
        let whole = event(&words);
        let none: [&str; 0] = [];
        assert_eq!(fields(old, &event(&json!({})), None), none);
        assert_eq!(fields(new, &event(&json!({})), None), ["eventTime", "type"]);
        assert_eq!(fields(old, &whole, None), none);
        assert_eq!(fields(new, &whole, None), none);
        let mut silent = whole.clone();
        silent.body.remove("reason");
        assert_eq!(fields(old, &silent, None), ["reason"]);
        assert_eq!(fields(old, &silent, Some(&whole)), ["reason"]);
        assert_eq!(fields(new, &silent, Some(&whole)), ["reason", "reason"]);
    }
}
