//! What each built-in kind asks of its objects beyond their schema (kubernetes `pkg/registry/*/strategy.go` and
//! `pkg/apis/core/validation`).

use crate::names;
use crate::object::Object;
use crate::registry::{Definition, builtin, crd};
use crate::status::{Cause, Status};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Bytes of all values of a ConfigMap or Secret together (core `MaxSecretSize`).
const DATA_LIMIT: u64 = 1 << 20;

/// Completes what a kind fills in before validation.
///
/// # Errors
/// 422 for a CRD that cannot be served.
pub(super) fn complete(
    definition: &Definition,
    object: &mut Object,
    old: Option<&Object>,
) -> Result<(), Status> {
    if !definition.custom {
        // Members that are empty are not written.
        object.body.retain(|_, value| !is_empty(value));
    }
    match &*definition.id {
        builtin::NAMESPACES => complete_namespace(object),
        builtin::SECRETS => {
            fold_string_data(object);
            object.body.entry("type").or_insert_with(|| json!("Opaque"));
        }
        builtin::LEASES => complete_lease(object),
        builtin::EVENTS => complete_event(object),
        builtin::CRDS => {
            let refused = |causes: Vec<Cause>| {
                Status::invalid(&definition.group, &definition.kind, object.name(), &causes)
            };
            let causes = old.map(|old| crd::check_change(object, old)).unwrap_or_default();
            if !causes.is_empty() {
                return Err(refused(causes));
            }
            let compiled = crd::compile(object).map_err(refused)?;
            crd::complete(object, &compiled);
        }
        _ => {}
    }
    Ok(())
}

/// What is wrong with an object by itself.
pub(super) fn check(definition: &Definition, object: &Object) -> Vec<Cause> {
    match &*definition.id {
        builtin::CONFIG_MAPS => check_data(object, false),
        builtin::SECRETS => check_data(object, true),
        builtin::EVENTS => check_event(object),
        builtin::LEASES => check_lease(object),
        _ => Vec::new(),
    }
}

/// What is wrong with the change of an object.
pub(super) fn check_change(definition: &Definition, object: &Object, old: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let differs = |field: &str| object.body.get(field) != old.body.get(field);
    if &*definition.id == builtin::SECRETS && differs("type") {
        causes.push(Cause::invalid("type", &json!(object.body.get("type")), "field is immutable"));
    }
    if matches!(&*definition.id, builtin::CONFIG_MAPS | builtin::SECRETS)
        && old.body.get("immutable") == Some(&Value::Bool(true))
    {
        let changed =
            ["data", "binaryData", "immutable"].into_iter().filter(|field| differs(field));
        causes
            .extend(changed.map(|field| {
                Cause::forbidden(field, "field is immutable when `immutable` is set")
            }));
    }
    causes
}

/// A namespace carries its name as a label, a finalizer of its own and a phase.
fn complete_namespace(object: &mut Object) {
    let name = object.name().to_owned();
    object
        .meta
        .labels
        .get_or_insert_default()
        .insert("kubernetes.io/metadata.name".to_owned(), name);
    let phase = if object.is_deleting() { "Terminating" } else { "Active" };
    let stays = !object.is_deleting();
    let spec = object.body.entry("spec").or_insert_with(|| json!({}));
    if stays && spec.is_object() {
        keep_finalizer(spec);
    }
    let status = object.body.entry("status").or_insert_with(|| json!({}));
    if status.is_object() {
        status["phase"] = json!(phase);
    }
}

/// Adds the finalizer `kubernetes`, which empties the namespace when it is deleted.
fn keep_finalizer(spec: &mut Value) {
    let own = json!("kubernetes");
    match spec["finalizers"].as_array_mut() {
        Some(finalizers) if finalizers.contains(&own) => {}
        Some(finalizers) => finalizers.push(own),
        None => spec["finalizers"] = json!([own]),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Drops the fields of coordinated leader election, a feature that kube-apiserver has off by default.
fn complete_lease(object: &mut Object) {
    let spec = object.body.entry("spec").or_insert_with(|| json!({}));
    for field in ["strategy", "preferredHolder"] {
        spec.as_object_mut().and_then(|spec| spec.remove(field));
    }
}

/// Members that an event always has, and those within its members that are empty and not written.
fn complete_event(object: &mut Object) {
    object.body.retain(|name, value| name != "count" || *value != 0);
    for part in ["source", "involvedObject", "related", "series"] {
        let members = object.body.get_mut(part).and_then(Value::as_object_mut);
        members.into_iter().for_each(|members| {
            members.retain(|name, value| *value != "" && (name != "count" || *value != 0));
        });
    }
    for (name, value) in [
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        object.body.entry(name).or_insert(value);
    }
}

/// `stringData` is only a way to write `data`.
fn fold_string_data(object: &mut Object) {
    let Some(Value::Object(plain)) = object.body.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let data = object.body.entry("data").or_insert_with(|| json!({}));
    if let Value::Object(data) = data {
        for (name, value) in plain {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(name, json!(encoded));
        }
    }
}

fn check_data(object: &Object, secret: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    let members = |field: &str| object.body.get(field).and_then(Value::as_object);
    for field in ["data", "binaryData"] {
        for (key, value) in members(field).into_iter().flatten() {
            let at = format!("{field}[{key}]");
            if let Some(why) = names::data_key(key) {
                causes.push(Cause::invalid(at.as_str(), &json!(key), why));
            }
            let other = members("binaryData").filter(|_| field == "data" && !secret);
            if other.is_some_and(|other| other.contains_key(key)) {
                let why = "duplicate of key present in binaryData";
                causes.push(Cause::invalid(at, &json!(key), why));
            }
            let length = value.as_str().map_or(0, str::len);
            size += if secret || field == "binaryData" { length / 4 * 3 } else { length } as u64;
        }
    }
    if size > DATA_LIMIT {
        causes.push(Cause::too_long("", DATA_LIMIT));
    }
    causes
}

/// An Event is in the namespace of the object that it is about, or in `default` about a cluster-scoped one. Events with an
/// `eventTime` may be elsewhere (kubernetes `pkg/apis/core/validation/events.go`).
fn check_event(object: &Object) -> Vec<Cause> {
    let about = object.body.get("involvedObject").and_then(|about| about["namespace"].as_str());
    let (about, here) = (about.unwrap_or_default(), object.namespace());
    let has_time = object.body.get("eventTime").is_some_and(|time| !time.is_null());
    let fits = match about {
        "" => here == "default" || has_time && here == "kube-system",
        about => has_time || about == here,
    };
    if fits {
        return Vec::new();
    }
    let why = "does not match event.namespace";
    vec![Cause::invalid("involvedObject.namespace", &json!(about), why)]
}

fn check_lease(object: &Object) -> Vec<Cause> {
    let spec = object.body.get("spec");
    let number = |field: &str| spec.and_then(|spec| spec[field].as_i64());
    let cause = |field: &str, value: i64, why: &str| {
        Cause::invalid(format!("spec.{field}"), &json!(value), why)
    };
    let duration = number("leaseDurationSeconds").filter(|duration| *duration <= 0);
    let transitions = number("leaseTransitions").filter(|transitions| *transitions < 0);
    let duration =
        duration.map(|value| cause("leaseDurationSeconds", value, "must be greater than 0"));
    let transitions = transitions
        .map(|value| cause("leaseTransitions", value, "must be greater than or equal to 0"));
    duration.into_iter().chain(transitions).collect()
}
