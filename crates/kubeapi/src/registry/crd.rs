//! CustomResourceDefinition objects: their checks, the status that reports them as served, and
//! their compilation into definitions.

mod written;

pub(super) use written::Spec;

use super::{Definition, Registry};
use crate::object::{Object, now};
use crate::status::Cause;
use serde_json::{Value, json};

pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Compiles the definition that a CRD describes. Fails with a cause for each invalid field of the CRD, and for each
/// field that needs a feature that this server does not have.
pub(crate) fn compile(crd: &Object) -> Result<Definition, Vec<Cause>> {
    let mut spec = crd.body.get("spec").cloned().unwrap_or(json!({}));
    drop_nulls(&mut spec);
    let malformed = |error| vec![Cause::invalid_without_value("spec", error)];
    let spec: Spec = serde_json::from_value(spec).map_err(malformed)?;
    let mut causes = check(crd, &spec);
    let definition = Definition { terminating: crd.is_deleting(), ..spec.define(&mut causes) };
    if causes.is_empty() { Ok(definition) } else { Err(causes) }
}

/// Returns the faults of a CRD's name and spec, except for faults in the schemas of its versions.
fn check(crd: &Object, spec: &Spec) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Spec { group, scope, names, conversion, versions } = spec;
    for (field, value) in [
        ("group", group),
        ("names.plural", &names.plural),
        ("names.kind", &names.kind),
        ("scope", scope),
    ] {
        if value.is_empty() {
            causes.push(Cause::required(format!("spec.{field}"), ""));
        }
    }
    if !matches!(&**scope, "" | "Cluster" | "Namespaced") {
        let supported = [json!("Cluster"), json!("Namespaced")];
        causes.push(Cause::unsupported("spec.scope", &json!(scope), &supported));
    }
    let wanted = format!("{}.{group}", names.plural);
    if crd.name() != wanted {
        let why = format!("must be {wanted}: spec.names.plural, a dot, and spec.group");
        causes.push(Cause::invalid("metadata.name", &json!(crd.name()), why));
    }
    if !matches!(conversion["strategy"].as_str(), None | Some("None")) {
        let why = "this server converts between versions only with None";
        causes.push(Cause::forbidden("spec.conversion.strategy", why));
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid_without_value("spec.versions", why));
    }
    causes
}

/// Returns the faults of a change to a CRD. Group, scope and names are immutable (apiextensions
/// `requireImmutableNames`), because every object's key depends on them. A version in which objects may be
/// stored cannot be removed.
pub(crate) fn check_change(crd: &Object, old: &Object) -> Vec<Cause> {
    let value = |object: &Object, pointer: &str| {
        object.body.get("spec").and_then(|spec| spec.pointer(pointer)).cloned()
    };
    let mut causes = Vec::new();
    for pointer in ["/group", "/scope", "/names/kind", "/names/plural"] {
        let now = value(crd, pointer);
        if now != value(old, pointer) {
            let field = format!("spec{}", pointer.replace('/', "."));
            causes.push(Cause::invalid(field, &json!(now), "field is immutable"));
        }
    }
    let versions = value(crd, "/versions").unwrap_or_default();
    let versions = versions.as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, name) in stored_versions(old).enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let why = "objects may be stored in this version: it must remain in spec.versions";
            causes.push(Cause::invalid(format!("status.storedVersions[{index}]"), name, why));
        }
    }
    causes
}

/// Returns a cause if another kind of the same group already has the definition's kind or plural name.
pub(crate) fn check_names(registry: &Registry, definition: &Definition) -> Vec<Cause> {
    let is_in_use = registry.iter().any(|other| {
        other.id != definition.id
            && other.versions.iter().any(|version| version.group == definition.group)
            && (other.kind == definition.kind || other.plural == definition.plural)
    });
    let why = "already in use in this group";
    let cause = || Cause::invalid("spec.names.kind", &json!(definition.kind), why);
    is_in_use.then(cause).into_iter().collect()
}

/// Fills in the defaults of kube-apiserver, and the status of a CRD that is served.
pub(crate) fn complete(crd: &mut Object, definition: &Definition) {
    let storage = json!(definition.storage_version.rsplit('/').next());
    let mut names = json!({
        "plural": definition.plural, "singular": definition.singular, "kind": definition.kind,
        "listKind": definition.list_kind, "shortNames": definition.short_names, "categories": definition.categories,
    });
    names
        .as_object_mut()
        .into_iter()
        .for_each(|names| names.retain(|_, value| *value != json!([])));
    if let Some(spec) = crd.body.get_mut("spec") {
        drop_nulls(spec);
        spec["names"] = names.clone();
        if spec.get("conversion").is_none() {
            spec["conversion"] = json!({"strategy": "None"});
        }
    }
    let mut stored: Vec<Value> = stored_versions(crd).cloned().collect();
    if !stored.contains(&storage) {
        stored.push(storage);
    }
    let conditions = json!([
        condition(crd, "NamesAccepted", "NoConflicts", "no conflicts found"),
        condition(
            crd,
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted"
        ),
    ]);
    let status =
        json!({"acceptedNames": names, "storedVersions": stored, "conditions": conditions});
    crd.body.insert("status".to_owned(), status);
}

fn stored_versions(crd: &Object) -> impl Iterator<Item = &Value> {
    let stored = crd.body.get("status").and_then(|status| status["storedVersions"].as_array());
    stored.into_iter().flatten()
}

/// Sets the status of a new CRD in the answer to a dry run: the server does not serve the CRD's kind.
pub(crate) fn mark_unserved(crd: &mut Object) {
    if let Some(status) = crd.body.get_mut("status") {
        status["acceptedNames"] = json!({"kind": "", "plural": ""});
        status["conditions"] = Value::Null;
    }
}

/// Adds the storage version to `status.storedVersions`, unless it is there.
pub(crate) fn keep_stored_version(crd: &mut Object) {
    let versions = crd.body.get("spec").and_then(|spec| spec["versions"].as_array());
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = storage.map(|version| version["name"].clone()) else { return };
    let stored = crd.body.get_mut("status").and_then(|status| status.get_mut("storedVersions"));
    if let Some(stored) = stored.and_then(Value::as_array_mut).filter(|all| !all.contains(&name)) {
        stored.push(name);
    }
}

/// Returns a condition of this type with the status True. A condition that had this status before
/// keeps its transition time.
fn condition(crd: &Object, kind: &str, reason: &str, message: &str) -> Value {
    let before = crd.body.get("status").and_then(|status| status["conditions"].as_array());
    let same = before
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind && condition["status"] == "True");
    same.cloned().unwrap_or_else(|| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()})
    })
}

/// Drops null members, except within the defaults, enums and examples of a schema.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            for (name, value) in map.iter_mut() {
                if !matches!(name.as_str(), "default" | "enum" | "example") {
                    drop_nulls(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the rank of a version as in Kubernetes: v2 over v1 over v1beta2 over v1beta1 over v1alpha1
/// over any other name.
pub(crate) fn priority(version: &str) -> (u8, u64, u64) {
    let numbers = |text: &str| text.parse::<u64>().ok();
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let (stage, split) = [("alpha", 1), ("beta", 2)]
            .iter()
            .find_map(|(word, stage)| Some((*stage, rest.split_once(*word)?)))
            .unzip();
        match split {
            Some((major, minor)) => Some((stage?, numbers(major)?, numbers(minor)?)),
            None => Some((3, numbers(rest)?, 0)),
        }
    });
    parsed.unwrap_or_default()
}

#[cfg(test)]
mod tests;
