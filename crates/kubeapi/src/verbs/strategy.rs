//! The checks and defaults of each built-in kind that its schema does not express
//! (kubernetes `pkg/registry/*/strategy.go` and `pkg/apis/core/validation`).

use crate::names;
use crate::object::Object;
use crate::registry::{Definition, builtin, crd};
use crate::status::{Cause, Status};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Fills in the fields that a built-in kind sets before validation.
pub(super) fn complete(
    definition: &Definition,
    object: &mut Object,
    old: Option<&Object>,
) -> Result<(), Status> {
    if !definition.custom {
        // Empty members are not stored.
        let empty = [Value::Null, json!(""), json!([]), json!({})];
        object.body.retain(|_, value| !empty.contains(value));
    }
    match &*definition.id {
        builtin::NAMESPACES => complete_namespace(object),
        builtin::SECRETS => {
            fold_string_data(object);
            object.body.entry("type").or_insert_with(|| json!("Opaque"));
        }
        builtin::CRDS => {
            let causes = old.map(|old| crd::check_change(object, old)).unwrap_or_default();
            if !causes.is_empty() {
                return Err(definition.invalid(object.name(), &causes));
            }
            let compiled = crd::compile(object)
                .map_err(|causes| definition.invalid(object.name(), &causes))?;
            crd::complete(object, &compiled);
        }
        _ => {}
    }
    Ok(())
}

/// Returns the faults of a new or changed object: keys of a ConfigMap's or Secret's data that are no valid file names.
pub(super) fn check(definition: &Definition, object: &Object) -> Vec<Cause> {
    if !matches!(&*definition.id, builtin::CONFIG_MAPS | builtin::SECRETS) {
        return Vec::new();
    }
    let keys = |field: &'static str| {
        let members = object.body.get(field).and_then(Value::as_object);
        members.into_iter().flat_map(Map::keys).map(move |key| (field, key))
    };
    let wrong = |(field, key): (&str, &String)| {
        let twice = field == "data" && keys("binaryData").any(|(_, other)| other == key);
        let twice = twice.then_some("duplicate of key present in binaryData");
        let why = names::data_key(key).or(twice)?;
        Some(Cause::invalid(format!("{field}[{key}]"), &json!(key), why))
    };
    keys("data").chain(keys("binaryData")).filter_map(wrong).collect()
}

/// Returns the faults of a change from `old` to `object`.
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

/// Completes a namespace: its name as a label, the finalizer that empties the namespace when it is
/// deleted, and a phase.
fn complete_namespace(object: &mut Object) {
    let name = object.name().to_owned();
    let labels = object.meta.labels.get_or_insert_default();
    labels.insert("kubernetes.io/metadata.name".to_owned(), name);
    let phase = if object.is_deleting() { "Terminating" } else { "Active" };
    let spec = object.body.entry("spec").or_insert_with(|| json!({}));
    if phase == "Active" {
        spec["finalizers"] = json!(["kubernetes"]);
    }
    object.body.entry("status").or_insert_with(|| json!({}))["phase"] = json!(phase);
}

/// Moves the values of `stringData` into `data`, in base64. Clients may write to either member, but read only `data`.
fn fold_string_data(object: &mut Object) {
    let Some(Value::Object(plain)) = object.body.remove("stringData") else { return };
    for (name, value) in plain {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        object.body.entry("data").or_insert_with(|| json!({}))[name] = json!(encoded);
    }
}
