//! Structural schemas made up at random, and CRDs around them.

use crate::random::Random;
use crate::values::{self, Care};
use serde_json::{Map, Value, json};

const FIELDS: [&str; 10] =
    ["alpha", "beta", "gamma", "delta", "size", "mode", "x-y", "namespace", "in", "name"];
/// Formats that CEL is handed as times and durations, which rules here cannot be about.
const TYPED: [&str; 2] = ["\"date", "\"duration\""];
const PATTERNS: [&str; 5] = ["^[a-z]+$", "^a.*", "[0-9]{2,3}", "^(on|off)$", r"^\d+(\.\d+)?$"];
const FORMATS: [&str; 14] = [
    "date-time",
    "date",
    "uuid",
    "ipv4",
    "ipv6",
    "byte",
    "email",
    "hostname",
    "uri",
    "cidr",
    "mac",
    "duration",
    "password",
    "custom",
];

/// The schema of a kind: a spec, a status, and now and then a field beside them.
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

/// A CRD that should be taken.
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
    let weights = [6, 4, 3, 2, 2, 3 * deep, 4 * deep, 2 * deep, deep, deep];
    let mut node = match random.weighted(&weights) {
        0 => string(random),
        1 => number(random, "integer"),
        2 => number(random, "number"),
        3 => json!({"type": "boolean"}),
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => object(random, depth),
        6 => array(random, depth),
        7 => {
            let mut map =
                json!({"type": "object", "additionalProperties": node(random, depth + 1)});
            if random.chance(30) {
                map["maxProperties"] = json!(2);
            }
            map
        }
        8 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        _ => map_list(random),
    };
    if random.chance(15) {
        node["nullable"] = json!(true);
    }
    // What a default must satisfy beyond its type is left to another day.
    let plain = !matches!(node["type"].as_str(), Some("object" | "array") | None)
        && node["x-kubernetes-validations"].is_null();
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
        2 | 3 => node["format"] = json!(random.pick(&FORMATS)),
        4 => {
            node["minLength"] = json!(random.below(3));
            node["maxLength"] = json!(3 + random.below(8));
        }
        _ => {}
    }
    if random.chance(15) && !TYPED.iter().any(|format| node.to_string().contains(format)) {
        node["maxLength"] = json!(10);
        let rules: [Value; 4] = [
            json!({"rule": "self != 'bad'", "message": "may not be bad"}),
            json!({"rule": "self == oldSelf", "message": "is immutable", "reason": "FieldValueForbidden"}),
            json!({"rule": "!self.startsWith('x')"}),
            json!({"rule": "self.size() < 9", "messageExpression": "'too long: ' + self"}),
        ];
        node["x-kubernetes-validations"] = json!([rules[random.below(rules.len())]]);
    }
    node
}

fn number(random: &mut Random, kind: &str) -> Value {
    let mut node = json!({"type": kind});
    if random.chance(30) {
        node["minimum"] = json!(random.below(3));
        if random.chance(30) {
            node["exclusiveMinimum"] = json!(true);
        }
    }
    if random.chance(30) {
        node["maximum"] =
            if kind == "number" && random.chance(50) { json!(7.5) } else { json!(10) };
        if random.chance(30) {
            node["exclusiveMaximum"] = json!(true);
        }
    }
    // Half a number is a factor of nothing where kube-apiserver finds an integer, and refuses it.
    if kind == "integer" && random.chance(15) {
        node["multipleOf"] = json!(2);
    }
    if random.chance(30) {
        let formats: &[&str] =
            if kind == "integer" { &["int32", "int64"] } else { &["float", "double"] };
        node["format"] = json!(random.pick(formats));
    }
    if random.chance(10) {
        node["enum"] = json!([1, 2, 4]);
    }
    if kind == "integer" && random.chance(15) {
        let rules: [Value; 3] = [
            json!({"rule": "self != 13"}),
            json!({"rule": "self >= oldSelf", "message": "may only grow"}),
            json!({"rule": "self % 7 != 3", "fieldPath": ""}),
        ];
        node["x-kubernetes-validations"] = json!([rules[random.below(2)]]);
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
    if random.chance(8) {
        node["minProperties"] = json!(1);
        node["maxProperties"] = json!(3);
    }
    if random.chance(30)
        && let Some(name) = names.iter().find(|name| {
            let field = node["properties"][name.as_str()].to_string();
            name.chars().all(char::is_alphabetic)
                && **name != "in"
                && **name != "namespace"
                && !TYPED.iter().any(|format| field.contains(format))
        })
    {
        let rules: [Value; 3] = [
            json!({"rule": format!("!has(self.{name}) || has(oldSelf.{name})"), "message": "may not be added"}),
            json!({"rule": format!("!has(oldSelf.{name}) || has(self.{name})"), "fieldPath": format!(".{name}")}),
            json!({"rule": format!("has(self.{name})"), "messageExpression": "'wanted'", "reason": "FieldValueRequired"}),
        ];
        node["x-kubernetes-validations"] = json!([rules[random.weighted(&[3, 3, 1])]]);
    }
    node
}

fn array(random: &mut Random, depth: usize) -> Value {
    let node = if random.chance(40) {
        let items = if random.chance(50) { string(random) } else { number(random, "integer") };
        let mut list = json!({"type": "array", "items": items});
        if random.chance(60) {
            list["x-kubernetes-list-type"] = json!("set");
        }
        list
    } else {
        json!({"type": "array", "items": self::node(random, depth + 1)})
    };
    let mut node = without_transitions(node);
    node["maxItems"] = json!(4);
    if random.chance(20) {
        node["minItems"] = json!(1);
    }
    node
}

/// Elements of a list have no past: a rule about it is refused by the real server, and never asked by ours.
fn without_transitions(mut node: Value) -> Value {
    match &mut node {
        Value::Object(map) => {
            let rules = map.get("x-kubernetes-validations").map(Value::to_string);
            if rules.is_some_and(|rules| rules.contains("oldSelf")) {
                map.remove("x-kubernetes-validations");
            }
            map.values_mut().for_each(|value| *value = without_transitions(value.take()));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = without_transitions(item.take()));
        }
        _ => {}
    }
    node
}

fn map_list(random: &mut Random) -> Value {
    let mut key = json!({"type": "string", "maxLength": 10});
    let mut required = json!(["name"]);
    if random.chance(30) {
        key["default"] = json!("first");
        required = json!([]);
    }
    let mut item = json!({"type": "object", "properties": {"name": key, "size": number(random, "integer"),
        "protocol": {"type": "string", "default": "tcp"}}});
    if required != json!([]) {
        item["required"] = required;
    }
    let keys = if random.chance(30) { json!(["name", "protocol"]) } else { json!(["name"]) };
    json!({"type": "array", "maxItems": 5, "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
}
