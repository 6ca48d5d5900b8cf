//! Objects decode and encode to what they were: nothing lost, nothing invented.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, LustreFileSystem,
    NnfContainerProfile, NnfDataMovement, NnfDataMovementProfile, NnfLustreMgt, NnfNode,
    NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile, NodeContainers,
    PersistentStorageInstance, Servers, Storage, SystemConfiguration, SystemStatus, Workflow,
};
use k8s_openapi::jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

fn objects(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(objects(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let object = serde_saphyr::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found.push((path, object));
        }
    }
    found
}

fn fixtures() -> Vec<(PathBuf, Value)> {
    objects(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"))
}

fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object.clone())?)
}

/// The object after a round trip; `None` for a kind that is not ours.
fn round_trip(object: &Value) -> Option<Result<Value, serde_json::Error>> {
    Some(match object["kind"].as_str()? {
        "ClientMount" => through::<ClientMount>(object),
        "Computes" => through::<Computes>(object),
        "ContainerRun" => through::<ContainerRun>(object),
        "DirectiveBreakdown" => through::<DirectiveBreakdown>(object),
        "DWDirectiveRule" => through::<DWDirectiveRule>(object),
        "LustreFileSystem" => through::<LustreFileSystem>(object),
        "NodeContainers" => through::<NodeContainers>(object),
        "PersistentStorageInstance" => through::<PersistentStorageInstance>(object),
        "Servers" => through::<Servers>(object),
        "Storage" => through::<Storage>(object),
        "SystemStatus" => through::<SystemStatus>(object),
        "Workflow" => through::<Workflow>(object),
        "SystemConfiguration" => through::<SystemConfiguration>(object),
        "NnfDataMovement" => through::<NnfDataMovement>(object),
        "NnfDataMovementProfile" => through::<NnfDataMovementProfile>(object),
        "NnfNode" => through::<NnfNode>(object),
        "NnfNodeStorage" => through::<NnfNodeStorage>(object),
        "NnfNodeBlockStorage" => through::<NnfNodeBlockStorage>(object),
        "NnfContainerProfile" => through::<NnfContainerProfile>(object),
        "NnfPortManager" => through::<NnfPortManager>(object),
        "NnfStorageProfile" => through::<NnfStorageProfile>(object),
        "NnfLustreMGT" => through::<NnfLustreMgt>(object),
        _ => return None,
    })
}

/// Go leaves no empty struct out: a reference of `{}` says as much as none at all.
fn without_no_references(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        members
            .retain(|name, value| !(name.ends_with("eference") && *value == serde_json::json!({})));
        members.values_mut().for_each(|value| *value = without_no_references(value.take()));
    }
    value
}

/// Kinds that were checked.
fn check(objects: &[(PathBuf, Value)]) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for (path, object) in objects {
        let Some(result) = round_trip(object) else { continue };
        let result = result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(
            without_no_references(result),
            without_no_references(object.clone()),
            "{}",
            path.display()
        );
        kinds.insert(object["kind"].as_str().unwrap().to_owned());
    }
    kinds
}

fn our_kinds() -> BTreeSet<String> {
    api::crds().into_iter().map(|crd| crd.spec.names.kind).collect()
}

#[test]
fn fixtures_round_trip() {
    let fixtures = fixtures();
    for (path, object) in &fixtures {
        assert!(round_trip(object).is_some(), "{} is of no kind of ours", path.display());
    }
    assert_eq!(check(&fixtures), our_kinds());
}

/// Objects as a site's central controllers and Go daemons wrote them (DWS v1alpha7, NNF v1alpha11); names of nodes and mount
/// roots were rewritten. The profiles are the site's own, and are not among them; rules and the status of nodes were not captured.
#[test]
fn what_a_site_was_seen_to_write_round_trips() {
    let captured = objects(&Path::new(env!("CARGO_MANIFEST_DIR")).join("captured"));
    let mut expected = our_kinds();
    let ours = ["ContainerRun", "NodeContainers"];
    let unseen = [
        "LustreFileSystem",
        "NnfPortManager",
        "NnfStorageProfile",
        "DWDirectiveRule",
        "SystemStatus",
    ];
    for kind in ours.into_iter().chain(unseen) {
        expected.remove(kind);
    }
    assert_eq!(check(&captured), expected);
}

/// Objects of the sites' own kinds, as the sites' controllers write them and as the fixtures have them.
fn of_sites() -> Vec<(PathBuf, Value)> {
    let captured = objects(&Path::new(env!("CARGO_MANIFEST_DIR")).join("captured"));
    captured.into_iter().chain(fixtures()).collect()
}

#[test]
fn what_a_site_was_seen_to_write_keeps_the_rules_that_are_told_of_it() {
    for (path, object) in of_sites() {
        assert_eq!(site_rules::faults(&object), [""; 0], "{}", path.display());
    }
}

/// The same object with nothing in it: numbers are 0, texts are empty, and so are the lists, if `lists` are to be.
fn zeroed(value: &Value, lists: bool) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, inner)| (name.clone(), zeroed(inner, lists))).collect()
        }
        Value::Array(items) if !lists => items.iter().map(|item| zeroed(item, lists)).collect(),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::String(text) if text.parse::<Timestamp>().is_err() => "".into(),
        Value::Number(_) => 0.into(),
        Value::Bool(_) => false.into(),
        Value::String(_) | Value::Null => value.clone(),
    }
}

#[test]
fn a_field_that_sites_require_is_written_whatever_its_value() {
    for (path, object) in of_sites() {
        for lists in [false, true] {
            let mut empty = zeroed(&object, lists);
            empty["kind"] = object["kind"].clone();
            let written = round_trip(&empty).unwrap();
            let written = written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut missing = site_rules::faults(&written);
            missing.retain(|fault| fault.ends_with("required value"));
            assert_eq!(missing, [""; 0], "{}", path.display());
        }
    }
}

/// Property paths of a schema; where several properties share one type they share one path.
fn properties(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    if schema["x-kubernetes-map-type"] == "atomic" {
        return; // an ObjectReference: its fields are Kubernetes' own
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let at = path(at, name);
        properties(property, &at, found);
        found.insert(at);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(nested) = schema.get(nested) {
            properties(nested, at, found);
        }
    }
}

/// Takes the paths of the properties that `object` has out of `missing`.
fn cross_out(schema: &Value, object: &Value, at: &str, missing: &mut BTreeSet<String>) {
    match object {
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(property) = schema["properties"].get(name) {
                    let at = path(at, name);
                    cross_out(property, value, &at, missing);
                    missing.remove(&at);
                } else if let Some(property) = schema.get("additionalProperties") {
                    cross_out(property, value, at, missing);
                }
            }
        }
        Value::Array(elements) => {
            elements.iter().for_each(|element| cross_out(&schema["items"], element, at, missing));
        }
        _ => {}
    }
}

fn path(at: &str, name: &str) -> String {
    let name = match name {
        "xfsStorage" | "gfs2Storage" | "rawStorage" => "storage",
        "mgtOptions" | "mdtOptions" | "mgtMdtOptions" | "ostOptions" => "targetOptions",
        "initContainers" => "containers",
        "launcher" | "worker" => return ".data.spec".to_owned(),
        name => name,
    };
    format!("{at}.{name}")
}

#[test]
fn fixtures_use_every_field() {
    let fixtures = fixtures();
    for crd in api::crd_values() {
        let kind = &crd["spec"]["names"]["kind"];
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut missing = BTreeSet::new();
        properties(schema, "", &mut missing);
        for (_, object) in fixtures.iter().filter(|(_, object)| object["kind"] == *kind) {
            cross_out(schema, object, "", &mut missing);
        }
        // The same type in every kind; that some fixtures have it is enough.
        missing.retain(|path| !path.ends_with(".error.userMessage"));
        assert!(missing.is_empty(), "no fixture of {kind} uses {missing:#?}");
    }
}

/// Every place of an object in a status from which a field can be missing, as where an older CRD does not have it.
fn fields(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                found.push((at.to_owned(), name.clone()));
                fields(
                    inner,
                    &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                fields(inner, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn statuses_are_readable_without_any_of_their_fields() {
    let mut left_out = 0;
    // Only coordinators write the status of a ContainerRun, always whole: its schema requires every field.
    for (path, object) in fixtures().into_iter().filter(|(_, one)| one["kind"] != "ContainerRun") {
        let mut places = Vec::new();
        fields(&object["status"], "/status", &mut places);
        for (parent, name) in places {
            let mut less = object.clone();
            less.pointer_mut(&parent).unwrap().as_object_mut().unwrap().remove(&name);
            if let Some(Err(error)) = round_trip(&less) {
                panic!("{}: without {parent}/{name}: {error}", path.display());
            }
            left_out += 1;
        }
    }
    assert!(left_out > 100, "only {left_out} fields were left out");
}
