//! CustomResourceDefinition objects: checked, completed with the status that says they are served, compiled into definitions.

use super::{Column, Definition, NameRule, Registry, Selectable, Version, builtin};
use crate::object::{Object, now};
use crate::schema::Schema;
use crate::status::Cause;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// `spec` of a CRD. What is not here is not acted on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    group: String,
    scope: String,
    names: Names,
    conversion: Value,
    versions: Vec<WrittenVersion>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Names {
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenVersion {
    name: String,
    served: bool,
    storage: bool,
    deprecated: bool,
    deprecation_warning: Option<String>,
    schema: Value,
    subresources: Value,
    additional_printer_columns: Vec<WrittenColumn>,
    selectable_fields: Vec<WrittenColumn>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenColumn {
    name: String,
    r#type: String,
    json_path: String,
    format: String,
    description: String,
    priority: i64,
}

/// Compiles the definition that a CRD describes, or names every field that asks for what this server does not do.
pub(crate) fn compile(crd: &Object) -> Result<Definition, Vec<Cause>> {
    let mut spec = crd.body.get("spec").cloned().unwrap_or(json!({}));
    drop_nulls(&mut spec);
    let malformed = |error| vec![Cause::invalid_without_value("spec", error)];
    let spec: Spec = serde_json::from_value(spec).map_err(malformed)?;
    let mut causes = Vec::new();
    let Spec { group, scope, names, conversion, versions } = &spec;
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
    let definition = Definition { terminating: crd.is_deleting(), ..spec.define(&mut causes) };
    if causes.is_empty() { Ok(definition) } else { Err(causes) }
}

impl Spec {
    /// The definition, as far as it is sound; adds what is wrong with its versions.
    pub(super) fn define(self, causes: &mut Vec<Cause>) -> Definition {
        let Self { group, scope, names, versions, .. } = self;
        let storage = versions.iter().find(|version| version.storage);
        let storage = storage.map(|version| version.name.clone()).unwrap_or_default();
        let served = versions.iter().enumerate().filter(|(_, version)| version.served);
        let mut served: Vec<Version> = served
            .filter_map(|(index, version)| {
                version.compile(&format!("spec.versions[{index}]"), &group, &names.kind, causes)
            })
            .collect();
        served.sort_by_key(|version| std::cmp::Reverse(priority(&version.name)));
        let or = |name: String, default: String| if name.is_empty() { default } else { name };
        let id = match &*group {
            "" => names.plural.clone(),
            group => format!("{}.{group}", names.plural),
        };
        Definition {
            id: id.into(),
            singular: or(names.singular, names.kind.to_lowercase()),
            list_kind: or(names.list_kind, format!("{}List", names.kind)),
            short_names: names.short_names,
            categories: names.categories,
            namespaced: scope == "Namespaced",
            versions: served,
            storage_version: match &*group {
                "" => storage,
                group => format!("{group}/{storage}"),
            },
            custom: true,
            counts_generation: true,
            unconditional_update: false,
            terminating: false,
            name_rule: NameRule::Subdomain,
            group,
            plural: names.plural,
            kind: names.kind,
        }
    }
}

impl WrittenVersion {
    fn compile(
        &self,
        path: &str,
        group: &str,
        kind: &str,
        causes: &mut Vec<Cause>,
    ) -> Option<Version> {
        let at = format!("{path}.schema.openAPIV3Schema");
        let Some(openapi) = self.schema.get("openAPIV3Schema") else {
            causes.push(Cause::required(at, "schemas are required"));
            return None;
        };
        if self.subresources.get("scale").is_some() {
            let field = format!("{path}.subresources.scale");
            causes.push(Cause::forbidden(field, "this server has no scale subresource"));
        }
        let mut columns = vec![Column::of_names()];
        for (index, column) in self.additional_printer_columns.iter().enumerate() {
            match Column::new(&column.name, &column.r#type, &column.json_path) {
                Ok(base) => columns.push(Column {
                    format: column.format.clone(),
                    description: column.description.clone(),
                    priority: column.priority,
                    ..base
                }),
                Err(why) => {
                    let field = format!("{path}.additionalPrinterColumns[{index}].jsonPath");
                    causes.push(Cause::invalid(field, &json!(column.json_path), why));
                }
            }
        }
        if columns.len() == 1 {
            columns = builtin::default_columns();
        }
        let mut selectable = Vec::new();
        for (index, field) in self.selectable_fields.iter().enumerate() {
            let compiled = Selectable::from_json_path(&field.json_path);
            if compiled.is_none() {
                let at = format!("{path}.selectableFields[{index}].jsonPath");
                let why = "must be a simple path such as .spec.node";
                causes.push(Cause::invalid(at, &json!(field.json_path), why));
            }
            selectable.extend(compiled);
        }
        let schema = Schema::compile(openapi).map_err(|error| {
            let inner = error.path.strip_prefix("openAPIV3Schema").unwrap_or(&error.path);
            causes.push(Cause::invalid_without_value(format!("{at}{inner}"), error.problem));
        });
        let warning = self.deprecation_warning.clone();
        let deprecation =
            warning.unwrap_or_else(|| format!("{group}/{} {kind} is deprecated", self.name));
        Some(Version {
            group: group.to_owned(),
            schema: schema.ok()?,
            openapi: openapi.clone(),
            has_status: self.subresources.get("status").is_some(),
            columns,
            selectable,
            renames: &[],
            deprecation: self.deprecated.then_some(deprecation),
            name: self.name.clone(),
        })
    }
}

/// What is wrong with the change of a CRD. Group, scope and names are part of every object's key, so they are immutable
/// (apiextensions `requireImmutableNames`); a version that objects may be stored under cannot go.
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

/// Refuses names that another kind of the same group already has.
pub(crate) fn check_names(registry: &Registry, definition: &Definition) -> Vec<Cause> {
    let taken = registry.iter().any(|other| {
        other.id != definition.id
            && other.versions.iter().any(|version| version.group == definition.group)
            && (other.kind == definition.kind || other.plural == definition.plural)
    });
    let why = "already in use in this group";
    let cause = || Cause::invalid("spec.names.kind", &json!(definition.kind), why);
    taken.then(cause).into_iter().collect()
}

/// Fills in what kube-apiserver defaults, and the status of a CRD that is served.
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

/// The status of a CRD that was only tried: no kind is served.
pub(crate) fn unserved(crd: &mut Object) {
    if let Some(status) = crd.body.get_mut("status") {
        status["acceptedNames"] = json!({"kind": "", "plural": ""});
        status["conditions"] = Value::Null;
    }
}

/// Keeps the storage version in `status.storedVersions`.
pub(crate) fn keep_stored_version(crd: &mut Object) {
    let versions = crd.body.get("spec").and_then(|spec| spec["versions"].as_array());
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = storage.map(|version| version["name"].clone()) else { return };
    let stored = crd.body.get_mut("status").and_then(|status| status.get_mut("storedVersions"));
    if let Some(stored) = stored.and_then(Value::as_array_mut).filter(|all| !all.contains(&name)) {
        stored.push(name);
    }
}

/// A condition that is true; one that was true before keeps its time.
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

/// Drops null members, except within values that a schema gives.
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

/// Kubernetes' order of versions: v2 over v1 over v1beta2 over v1beta1 over v1alpha1 over anything else.
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
mod tests {
    use super::*;

    #[test]
    fn versions_rank_as_in_kubernetes() {
        let mut versions = ["v1alpha7", "foo", "v1", "v2beta1", "v1beta2", "v10", "v1alpha11"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v1", "v2beta1", "v1beta2", "v1alpha11", "v1alpha7", "foo"]);
    }
}
