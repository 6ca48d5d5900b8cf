//! The CRDs of this crate's kinds, generated from the Rust types.
//!
//! The schema generator writes JSON Schema; a Kubernetes API server requires a structural schema. There each node has a
//! type, and an optional field may be absent, but not null.
//!
//! Our CRDs differ from upstream's in one point: they refuse an object without `spec`, because a typed watch could not
//! decode such an object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, LustreFileSystem,
    NnfContainerProfile, NnfDataMovement, NnfDataMovementProfile, NnfLustreMgt, NnfNode,
    NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile, NnfSystemStorage,
    NodeContainers, PersistentStorageInstance, Servers, Storage, SystemConfiguration, SystemStatus,
    Workflow,
};

/// Returns the CRDs of all kinds of this crate, sorted by name, without CEL rules.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    crd_values()
        .into_iter()
        .map(|crd| serde_json::from_value(crd).expect("a CRD that was serialized reads back"))
        .collect()
}

/// Returns the CRDs of [`crds`] as JSON. They have no CEL rules, because the embedded API does not evaluate CEL; the
/// program that opens an embedded API enforces the rules in an admission function.
#[must_use]
pub fn crd_values() -> Vec<Value> {
    let mut crds = ruled_crd_values();
    crds.iter_mut().for_each(without_rules);
    crds
}

/// Returns the CRDs as JSON with their CEL rules, for clusters.
#[must_use]
pub fn ruled_crd_values() -> Vec<Value> {
    let mut crds = [
        ClientMount::crd(),
        Computes::crd(),
        ContainerRun::crd(),
        DirectiveBreakdown::crd(),
        DWDirectiveRule::crd(),
        LustreFileSystem::crd(),
        PersistentStorageInstance::crd(),
        Servers::crd(),
        Storage::crd(),
        SystemConfiguration::crd(),
        SystemStatus::crd(),
        without_subresource(Workflow::crd()),
        NnfContainerProfile::crd(),
        NnfDataMovement::crd(),
        NnfDataMovementProfile::crd(),
        NnfLustreMgt::crd(),
        NnfNode::crd(),
        NnfNodeBlockStorage::crd(),
        NnfNodeStorage::crd(),
        NnfPortManager::crd(),
        NnfStorageProfile::crd(),
        NnfSystemStorage::crd(),
        NodeContainers::crd(),
    ];
    crds.sort_by(|left, right| left.metadata.name.cmp(&right.metadata.name));
    crds.iter().map(structural).collect()
}

/// Removes the status subresource: upstream's controllers write the status of this kind together with its spec, and
/// kube's derive macro always makes `status` a subresource.
fn without_subresource(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.versions.iter_mut().for_each(|version| version.subresources = None);
    crd
}

fn structural(crd: &CustomResourceDefinition) -> Value {
    let mut crd = serde_json::to_value(crd).expect("a CRD has string keys only");
    let list_kind = crd["spec"]["names"]["kind"].as_str().map(|kind| format!("{kind}List"));
    crd["spec"]["names"]["listKind"] = json!(list_kind);
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let root = &mut version["schema"]["openAPIV3Schema"];
        clean(root);
        root["properties"]["apiVersion"] = json!({ "type": "string" });
        root["properties"]["kind"] = json!({ "type": "string" });
        root["properties"]["metadata"] = json!({ "type": "object" });
    }
    crd
}

/// Removes from `schema` the members that an API server refuses, and the members by which a field may be null.
fn clean(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    for unwanted in ["nullable", "title"] {
        members.remove(unwanted);
    }
    if let Some(values) = members.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    for bound in ["minimum", "maximum"] {
        members.get_mut(bound).into_iter().for_each(to_integer);
    }
    if let Some(required) = members.get_mut("required").and_then(Value::as_array_mut) {
        required.sort_by(|left, right| left.as_str().cmp(&right.as_str()));
    }
    for nested in ["items", "additionalProperties"] {
        members.get_mut(nested).into_iter().for_each(clean);
    }
    if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(clean);
    }
}

fn without_rules(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("x-kubernetes-validations");
            members.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Converts a bound to an integer: the CRD types have floating-point bounds, but all of our bounds are integers.
fn to_integer(bound: &mut Value) {
    if let Some(number) =
        bound.as_f64().and_then(|number| format!("{number:.0}").parse::<i64>().ok())
    {
        *bound = json!(number);
    }
}
