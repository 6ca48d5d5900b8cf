//! Random structural schemas, and CRDs with these schemas. The schemas use only keywords that the embedded server
//! enforces.

use crate::random::Random;
use crate::values::{self, Care};
use serde_json::{Map, Value, json};

const FIELDS: [&str; 10] =
    ["alpha", "beta", "gamma", "delta", "size", "mode", "x-y", "namespace", "in", "name"];
const PATTERNS: [&str; 5] = ["^[a-z]+$", "^a.*", "[0-9]{2,3}", "^(on|off)$", r"^\d+(\.\d+)?$"];

/// Returns the schema of a kind: a spec, a status, and sometimes another field.
pub(crate) fn kind(random: &mut Random) -> Value {
    let mut spec = object(random, 0);
    spec["properties"]["node"] = json!({"type": "string", "maxLength": 20});
    let status = json!({"type": "object", "properties": {
        "ready": {"type": "boolean"}, "phase": {"type": "string", "enum": ["a", "b"]}, "count": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "string"}},
    }});
    let mut properties = json!({"spec": spec, "status": status});
    if random.chance(30) {
        properties["extra"] = node(random, 1);
    }
    let mut kind = json!({"type": "object", "properties": properties});
    if random.chance(40) {
        kind["required"] = json!(["spec"]);
    }
    kind
}

/// Returns a CRD that both servers should accept.
pub(crate) fn crd(random: &mut Random, group: &str, index: usize, namespaced: bool) -> Value {
    let columns = json!([
        {"name": "Node", "type": "string", "jsonPath": ".spec.node"},
        {"name": "Count", "type": "integer", "jsonPath": ".status.count", "priority": 1},
        {"name": "Ready", "type": "boolean", "jsonPath": ".status.ready", "description": "whether it is ready"},
        {"name": "Alpha", "type": random.pick(&["string", "integer", "number", "boolean", "date"]), "jsonPath": ".spec.alpha"},
        {"name": "Names", "type": "string", "jsonPath": ".status.list[*]"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let mut version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": kind(random)},
        "selectableFields": [{"jsonPath": ".spec.node"}],
    });
    if random.chance(80) {
        version["subresources"] = json!({"status": {}});
    }
    if random.chance(70) {
        version["additionalPrinterColumns"] = columns;
    }
    if random.chance(15) {
        version["deprecated"] = json!(true);
    }
    let plural = format!("things{index}");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "names": {"plural": plural, "kind": format!("Thing{index}")},
            "versions": [version],
        },
    })
}

fn node(random: &mut Random, depth: usize) -> Value {
    let deep = usize::from(depth < 3);
    let weights = [6, 4, 3, 2, 2, 3 * deep, 4 * deep, 2 * deep, deep];
    let mut node = match random.weighted(&weights) {
        0 => string(random),
        1 => number(random, "integer"),
        2 => number(random, "number"),
        3 => json!({"type": "boolean"}),
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => object(random, depth),
        6 => array(random, depth),
        7 => json!({"type": "object", "additionalProperties": node(random, depth + 1)}),
        _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    if random.chance(15) {
        node["nullable"] = json!(true);
    }
    // Only simple types get a default, because the embedded server checks only the type of a default.
    let plain = !matches!(node["type"].as_str(), Some("object" | "array") | None);
    if plain && random.chance(20) {
        node["default"] = values::value(random, &node, Care::Valid);
    }
    if random.chance(10) {
        node["description"] = json!("what it is for");
    }
    node
}

fn string(random: &mut Random) -> Value {
    let mut node = json!({"type": "string"});
    match random.below(8) {
        0 => node["enum"] = json!(["on", "off", ""]),
        1 => node["pattern"] = json!(random.pick(&PATTERNS)),
        2 | 3 => node["format"] = json!("date-time"),
        4 => {
            node["minLength"] = json!(random.below(3));
            node["maxLength"] = json!(3 + random.below(8));
        }
        _ => {}
    }
    node
}

fn number(random: &mut Random, kind: &str) -> Value {
    let mut node = json!({"type": kind});
    if random.chance(30) {
        node["minimum"] = json!(random.below(3));
    }
    if random.chance(30) {
        node["maximum"] =
            if kind == "number" && random.chance(50) { json!(7.5) } else { json!(10) };
    }
    if random.chance(30) {
        let formats: &[&str] =
            if kind == "integer" { &["int32", "int64"] } else { &["float", "double"] };
        node["format"] = json!(random.pick(formats));
    }
    if random.chance(10) {
        node["enum"] = json!([1, 2, 4]);
    }
    node
}

fn object(random: &mut Random, depth: usize) -> Value {
    let mut properties = Map::new();
    for _ in 0..=random.below(5) {
        let name = random.pick(&FIELDS);
        properties.insert(name.to_owned(), node(random, depth + 1));
    }
    let names: Vec<String> = properties.keys().cloned().collect();
    let required: Vec<&String> = names.iter().filter(|_| random.chance(20)).collect();
    let mut node = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        node["required"] = json!(required);
    }
    if random.chance(10) {
        node["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    node
}

fn array(random: &mut Random, depth: usize) -> Value {
    let mut node = json!({"type": "array", "items": node(random, depth + 1), "maxItems": 4});
    if random.chance(20) {
        node["minItems"] = json!(1);
    }
    node
}
