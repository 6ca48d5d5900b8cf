//! The rules that are in the CRDs of DWS and NNF, which sites install: required fields and admitted values of the
//! kinds that Warren uses.
//!
//! `crates/api/golden/site-rules.json` holds the rules by kind and schema path, for DWS v1alpha7 and NNF v1alpha11. In
//! a path, names are properties, `[]` stands for the items of a list, and `{}` for the values of a map.

mod check;

use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::{Map, Value, json};

const RULES: &str = include_str!("../../../crates/api/golden/site-rules.json");

type Rules = BTreeMap<String, BTreeMap<String, Map<String, Value>>>;

/// Makes our CRDs as strict as the sites' CRDs.
///
/// # Panics
/// When the rules name a property that the CRD does not have.
#[must_use]
pub fn strict(mut crds: Vec<Value>) -> Vec<Value> {
    let rules: Rules = serde_json::from_str(RULES).expect("the rules are JSON");
    for crd in &mut crds {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let root = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        // The path of an object sorts before the paths of its properties: a default of the whole object is removed
        // first.
        for (path, facts) in rules.get(&kind).into_iter().flatten() {
            let schema = node(root, path).unwrap_or_else(|| panic!("{kind} has no {path}"));
            restrict(schema, facts);
        }
    }
    crds
}

/// Lists the faults for which an API server with the sites' CRDs refuses an object. The list is empty if our CRDs do
/// not have the object's kind.
///
/// # Panics
/// When a CRD of ours has no schema.
#[must_use]
pub fn faults(object: &Value) -> Vec<String> {
    static SCHEMAS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| {
        let kind_and_schema = |crd: Value| {
            let kind = crd["spec"]["names"]["kind"].as_str()?.to_owned();
            Some((kind, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()))
        };
        strict(api::crd_values()).into_iter().filter_map(kind_and_schema).collect()
    });
    let mut faults = Vec::new();
    if let Some(schema) = object["kind"].as_str().and_then(|kind| schemas.get(kind)) {
        check::value(schema, object, "", &mut faults);
    }
    faults
}

fn node<'a>(root: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    steps.try_fold(root, |schema, step| match step {
        "[]" => schema.get_mut("items"),
        "{}" => schema.get_mut("additionalProperties"),
        name => schema.get_mut("properties")?.get_mut(name),
    })
}

/// Adds the sites' keywords to a schema. If a property becomes required, removes its default, which only our CRD has.
fn restrict(schema: &mut Value, facts: &Map<String, Value>) {
    let required = facts.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        let property = &mut schema["properties"][name];
        let property = property.as_object_mut().unwrap_or_else(|| panic!("no property {name}"));
        property.remove("default");
    }
    for (keyword, fact) in facts {
        schema[keyword] = match keyword.as_str() {
            "required" => united(&schema["required"], &required),
            _ => fact.clone(),
        };
    }
}

fn united(ours: &Value, theirs: &[Value]) -> Value {
    let ours = ours.as_array().into_iter().flatten();
    let names: std::collections::BTreeSet<&str> =
        ours.chain(theirs).filter_map(Value::as_str).collect();
    json!(names)
}
