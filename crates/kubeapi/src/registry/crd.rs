//! CustomResourceDefinition objects: checked, completed with the status that says they are served, compiled into definitions.

use super::{Column, Definition, NameRule, Registry, Selectable, Version, builtin};
use crate::object::{Object, now};
use crate::schema::Schema;
use crate::status::Cause;
use serde_json::{Value, json};

/// Keeps a CRD until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Compiles the definition that a CRD describes, which has been found to be sound.
///
/// # Errors
/// Every field of the CRD that asks for what this server does not do.
pub(crate) fn compile(crd: &Object) -> Result<Definition, Vec<Cause>> {
    let spec = crd.body.get("spec").cloned().unwrap_or_default();
    let mut reader = Reader { causes: Vec::new() };
    let group = reader.text(&spec, "/group");
    let plural = reader.text(&spec, "/names/plural");
    let kind = reader.text(&spec, "/names/kind");
    let namespaced = reader.scope(&spec);
    let wanted = format!("{plural}.{group}");
    if crd.name() != wanted {
        let why = format!("must be {wanted}: spec.names.plural, a dot, and spec.group");
        reader.causes.push(Cause::invalid("metadata.name", &json!(crd.name()), why));
    }
    if spec
        .pointer("/conversion/strategy")
        .and_then(Value::as_str)
        .is_some_and(|strategy| strategy != "None")
    {
        reader.causes.push(Cause::forbidden(
            "spec.conversion.strategy",
            "this server converts between versions only with None",
        ));
    }
    let (versions, storage) = reader.versions(&spec, &group, &kind);
    if !reader.causes.is_empty() {
        return Err(reader.causes);
    }
    let name = |pointer: &str, default: String| {
        spec.pointer(pointer)
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
            .map_or(default, str::to_owned)
    };
    Ok(Definition {
        id: crd.name().into(),
        singular: name("/names/singular", kind.to_lowercase()),
        list_kind: name("/names/listKind", format!("{kind}List")),
        short_names: texts(&spec, "/names/shortNames"),
        categories: texts(&spec, "/names/categories"),
        namespaced,
        versions,
        storage_version: format!("{group}/{storage}"),
        custom: true,
        counts_generation: true,
        unconditional_update: false,
        create_on_update: false,
        terminating: crd.is_deleting(),
        name_rule: NameRule::Subdomain,
        group,
        plural,
        kind,
    })
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
    let stored = old.body.get("status").and_then(|status| status["storedVersions"].as_array());
    for (index, name) in stored.into_iter().flatten().enumerate() {
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
    if taken {
        vec![Cause::invalid(
            "spec.names.kind",
            &json!(definition.kind),
            "already in use in this group",
        )]
    } else {
        Vec::new()
    }
}

/// Fills in what kube-apiserver defaults, and the status of a CRD that is served.
pub(crate) fn complete(crd: &mut Object, definition: &Definition) {
    let storage = definition.storage_version.rsplit('/').next().unwrap_or_default().to_owned();
    let names = json!({
        "plural": definition.plural, "singular": definition.singular, "kind": definition.kind,
        "listKind": definition.list_kind, "shortNames": definition.short_names, "categories": definition.categories,
    });
    let names = without_empty(names);
    if let Some(spec) = crd.body.get_mut("spec") {
        drop_nulls(spec);
        spec["names"] = names.clone();
        if spec.get("conversion").is_none() {
            spec["conversion"] = json!({"strategy": "None"});
        }
    }
    let mut stored: Vec<Value> = crd
        .body
        .get("status")
        .and_then(|status| status["storedVersions"].as_array())
        .cloned()
        .unwrap_or_default();
    if !stored.contains(&json!(storage)) {
        stored.push(json!(storage));
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

fn without_empty(mut names: Value) -> Value {
    if let Some(map) = names.as_object_mut() {
        map.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
    }
    names
}

fn texts(spec: &Value, pointer: &str) -> Vec<String> {
    let items = spec.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

struct Reader {
    causes: Vec<Cause>,
}

impl Reader {
    fn text(&mut self, spec: &Value, pointer: &str) -> String {
        let text = spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            self.causes.push(Cause::required(format!("spec{}", pointer.replace('/', ".")), ""));
        }
        text.to_owned()
    }

    fn scope(&mut self, spec: &Value) -> bool {
        let scope = self.text(spec, "/scope");
        if !matches!(&*scope, "" | "Cluster" | "Namespaced") {
            let supported = [json!("Cluster"), json!("Namespaced")];
            self.causes.push(Cause::unsupported("spec.scope", &json!(scope), &supported));
        }
        scope == "Namespaced"
    }

    /// The served versions, and the name of the one that is stored.
    fn versions(&mut self, spec: &Value, group: &str, kind: &str) -> (Vec<Version>, String) {
        let mut served = Vec::new();
        let mut storage = Vec::new();
        let empty = Vec::new();
        for (index, version) in spec["versions"].as_array().unwrap_or(&empty).iter().enumerate() {
            let path = format!("spec.versions[{index}]");
            let name = version["name"].as_str().unwrap_or_default().to_owned();
            if version["storage"] == true {
                storage.push(name.clone());
            }
            if version["served"] == true
                && let Some(version) = self.version(version, &path, group, kind, name)
            {
                served.push(version);
            }
        }
        if storage.len() != 1 {
            let why = "must have exactly one version marked as storage version";
            self.causes.push(Cause::invalid_without_value("spec.versions", why));
        }
        served.sort_by_key(|version| std::cmp::Reverse(priority(&version.name)));
        (served, storage.pop().unwrap_or_default())
    }

    fn version(
        &mut self,
        version: &Value,
        path: &str,
        group: &str,
        kind: &str,
        name: String,
    ) -> Option<Version> {
        let at = format!("{path}.schema.openAPIV3Schema");
        let Some(openapi) = version.pointer("/schema/openAPIV3Schema") else {
            self.causes.push(Cause::required(at, "schemas are required"));
            return None;
        };
        let schema = match Schema::compile(openapi) {
            Ok(schema) => schema,
            Err(error) => {
                let inner = error.path.strip_prefix("openAPIV3Schema").unwrap_or(&error.path);
                self.causes.push(Cause {
                    field: format!("{at}{inner}"),
                    reason: "FieldValueInvalid",
                    message: format!("Invalid value: {}", error.problem),
                });
                return None;
            }
        };
        if version.pointer("/subresources/scale").is_some() {
            self.causes.push(Cause::forbidden(
                format!("{path}.subresources.scale"),
                "this server has no scale subresource",
            ));
        }
        Some(Version {
            group: group.to_owned(),
            schema,
            openapi: openapi.clone(),
            has_status: version.pointer("/subresources/status").is_some(),
            columns: self.columns(version, path),
            selectable: self.selectable(version, path),
            renames: &[],
            deprecation: deprecation(version, group, &name, kind),
            name,
        })
    }

    fn columns(&mut self, version: &Value, path: &str) -> Vec<Column> {
        let Some(columns) =
            version["additionalPrinterColumns"].as_array().filter(|columns| !columns.is_empty())
        else {
            return builtin::default_columns();
        };
        let mut compiled = vec![Column::of_names()];
        for (index, column) in columns.iter().enumerate() {
            let text = |key: &str| column[key].as_str().unwrap_or_default();
            match Column::new(text("name"), text("type"), text("jsonPath")) {
                Ok(base) => compiled.push(Column {
                    format: text("format").to_owned(),
                    description: text("description").to_owned(),
                    priority: column["priority"].as_i64().unwrap_or_default(),
                    ..base
                }),
                Err(why) => {
                    let field = format!("{path}.additionalPrinterColumns[{index}].jsonPath");
                    self.causes.push(Cause::invalid(field, &column["jsonPath"], why));
                }
            }
        }
        compiled
    }

    fn selectable(&mut self, version: &Value, path: &str) -> Vec<Selectable> {
        let mut fields = Vec::new();
        for (index, field) in
            version["selectableFields"].as_array().into_iter().flatten().enumerate()
        {
            match field["jsonPath"].as_str().and_then(Selectable::from_json_path) {
                Some(selectable) => fields.push(selectable),
                None => {
                    let at = format!("{path}.selectableFields[{index}].jsonPath");
                    self.causes.push(Cause::invalid(
                        at,
                        &field["jsonPath"],
                        "must be a simple path such as .spec.node",
                    ));
                }
            }
        }
        fields
    }
}

fn deprecation(version: &Value, group: &str, name: &str, kind: &str) -> Option<String> {
    (version["deprecated"] == true).then(|| {
        let given = version["deprecationWarning"].as_str();
        given.map_or_else(|| format!("{group}/{name} {kind} is deprecated"), str::to_owned)
    })
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
