//! What is wrong with a CRD, in the order and the words of kube-apiserver (apiextensions `validation.go`). It looks at its own
//! form of a CRD, in which what all versions have in common stands beside them: `spec.validation` in place of
//! `spec.versions[0].schema`.

use super::schemas;
use crate::names;
use crate::object::Object;
use crate::status::Cause;
use serde_json::{Map, Value, json};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// Every fault of a new CRD, or of what an update makes of `old`.
pub(crate) fn check(crd: &Object, old: Option<&Object>) -> Vec<Cause> {
    let nothing = Value::Null;
    let spec = crd.body.get("spec").unwrap_or(&nothing);
    let mut causes = Vec::new();
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let wanted = format!("{}.{}", text("/names/plural"), text("/group"));
    if old.is_none() && crd.name() != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(crd.name()), detail));
    }
    if let Some(old) = old {
        causes.extend(check_stored(crd, old));
    }
    check_group(text("/group"), &mut causes);
    check_scope(text("/scope"), &mut causes);
    check_names(spec, &mut causes);
    check_versions(spec, old.is_none(), &mut causes);
    causes
}

/// A version that objects may be stored under cannot go.
fn check_stored(crd: &Object, old: &Object) -> Vec<Cause> {
    let versions = crd.body.get("spec").and_then(|spec| spec["versions"].as_array());
    let names = |name: &Value| versions.into_iter().flatten().any(|other| other["name"] == *name);
    let stored = old.body.get("status").and_then(|status| status["storedVersions"].as_array());
    let gone = stored.into_iter().flatten().enumerate().filter(|(_, name)| !names(name));
    gone.map(|(index, name)| {
        let version = name.as_str().unwrap_or_default();
        let why = format!("missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions");
        Cause::invalid(format!("status.storedVersions[{index}]"), name, why)
    })
    .collect()
}

fn check_group(group: &str, causes: &mut Vec<Cause>) {
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
        return;
    }
    for why in names::dns_subdomain(group) {
        causes.push(Cause::invalid("spec.group", &json!(group), why));
    }
    if !group.contains('.') {
        let why = "should be a domain with at least one dot";
        causes.push(Cause::invalid("spec.group", &json!(group), why));
    }
}

fn check_scope(scope: &str, causes: &mut Vec<Cause>) {
    match scope {
        "" => causes.push(Cause::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let supported = [json!("Cluster"), json!("Namespaced")];
            causes.push(Cause::unsupported("spec.scope", &json!(other), &supported));
        }
    }
}

fn check_names(spec: &Value, causes: &mut Vec<Cause>) {
    let given = |name: &str| spec["names"][name].as_str().filter(|text| !text.is_empty());
    let kind = given("kind").unwrap_or_default();
    let singular = given("singular").map_or_else(|| kind.to_lowercase(), str::to_owned);
    let list = given("listKind").map_or_else(|| format!("{kind}List"), str::to_owned);
    for (name, text) in [("plural", given("plural").unwrap_or_default()), ("singular", &singular)] {
        if text.is_empty() {
            causes.push(Cause::required(format!("spec.names.{name}"), ""));
            continue;
        }
        for why in names::dns_1035_label(text) {
            causes.push(Cause::invalid(format!("spec.names.{name}"), &json!(text), why));
        }
    }
    for (name, text) in [("kind", kind), ("listKind", &list)] {
        if kind.is_empty() {
            causes.push(Cause::required(format!("spec.names.{name}"), ""));
            continue;
        }
        for why in names::dns_1035_label(&text.to_lowercase()) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            causes.push(Cause::invalid(format!("spec.names.{name}"), &json!(text), why));
        }
    }
}

fn check_versions(spec: &Value, new: bool, causes: &mut Vec<Cause>) {
    let nothing = Vec::new();
    let versions = spec["versions"].as_array().unwrap_or(&nothing);
    for (index, version) in versions.iter().enumerate() {
        let name = version["name"].as_str().unwrap_or_default();
        for why in names::dns_1035_label(name) {
            if index == 0 {
                causes.push(Cause::invalid("spec.version", &json!(name), &why));
            }
            causes.push(Cause::invalid(format!("spec.versions[{index}].name"), &json!(name), why));
        }
        check_version(versions, index, causes);
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid_without_value("spec.versions", why));
        if new && !versions.iter().any(|version| version["storage"] == true) {
            let why = "must have at least one stored version";
            causes.push(Cause::invalid_without_value("status.storedVersions", why));
        }
    }
}

/// Where a part of a version stands: beside all versions when they agree on it. None when that has been looked at.
fn place(versions: &[Value], index: usize, part: &str, beside: &str) -> Option<String> {
    let agree = versions.iter().all(|version| version[part] == versions[0][part]);
    match (agree, index) {
        (true, 0) => Some(format!("spec.{beside}")),
        (true, _) => None,
        (false, index) => Some(format!("spec.versions[{index}].{part}")),
    }
}

fn check_version(versions: &[Value], index: usize, causes: &mut Vec<Cause>) {
    let version = &versions[index];
    let schema = version.pointer("/schema/openAPIV3Schema").and_then(Value::as_object);
    if schema.is_none() {
        let at = format!("spec.versions[{index}].schema.openAPIV3Schema");
        causes.push(Cause::required(at, ""));
    }
    if let (Some(schema), Some(at)) = (schema, place(versions, index, "schema", "validation")) {
        let has_status = version.pointer("/subresources/status").is_some();
        schemas::check_root(schema, has_status, &format!("{at}.openAPIV3Schema"), causes);
    }
    let columns = "additionalPrinterColumns";
    if let Some(at) = place(versions, index, columns, columns) {
        check_columns(&version[columns], &at, causes);
    }
    let fields = "selectableFields";
    if let Some(at) = place(versions, index, fields, fields) {
        check_selectable(&version[fields], schema, &at, causes);
    }
}

fn check_columns(columns: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| column[name].as_str().unwrap_or_default();
        let field = |name: &str| format!("{at}[{index}].{name}");
        if text("name").is_empty() {
            causes.push(Cause::required(field("name"), ""));
        }
        match text("type") {
            "" => causes.push(Cause::required(
                field("type"),
                &format!("must be one of {}", COLUMN_TYPES.join(",")),
            )),
            kind if COLUMN_TYPES.contains(&kind) => {}
            kind => {
                let why = format!("must be one of {}", COLUMN_TYPES.join(","));
                causes.push(Cause::invalid(field("type"), &json!(kind), why));
            }
        }
        match text("jsonPath") {
            "" => causes.push(Cause::required(field("JSONPath"), "")),
            path if path.starts_with('.') => {}
            path => {
                let why = "must be a simple json path starting with .";
                causes.push(Cause::invalid(field("JSONPath"), &json!(path), why));
            }
        }
    }
}

fn check_selectable(
    fields: &Value,
    schema: Option<&Map<String, Value>>,
    at: &str,
    causes: &mut Vec<Cause>,
) {
    let Some(fields) = fields.as_array().filter(|fields| !fields.is_empty()) else { return };
    let Some(schema) = schema else {
        let why = "may only be set when validations.schema is included";
        causes.push(Cause::invalid(at, &json!(""), why));
        return;
    };
    for (index, field) in fields.iter().enumerate() {
        let path = field["jsonPath"].as_str().unwrap_or_default();
        let found = schemas::below(schema, path);
        let why = match found.map(|schema| schema["type"].as_str().unwrap_or_default()) {
            Some("string" | "boolean" | "integer") => continue,
            Some(_) => {
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            }
            None => "is an invalid path: does not refer to a valid field",
        };
        causes.push(Cause::invalid(format!("{at}[{index}].jsonPath"), &json!(path), why));
    }
}
