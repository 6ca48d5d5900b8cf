//! Random operations.

use crate::kinds::{Kind, NAMES, mutate};
use crate::operation::Operation;
use crate::random::Random;
use crate::values::{self, Care};
use http::Method;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

pub(crate) const NAMESPACES: [&str; 2] = ["<run>-a", "<run>-b"];
const LABEL_SELECTORS: [&str; 17] = [
    "app=x",
    "app!=x",
    "app",
    "!app",
    "app in (x,y)",
    "app notin (x, y)",
    "app==x,tier",
    "app=",
    " app = x ",
    "app in ()",
    "app=x y",
    "a/b/c=x",
    "app in (x",
    "app=x,,tier",
    "app>x",
    "-app=x",
    ",",
];
const FIELD_SELECTORS: [&str; 13] = [
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.namespace=<run>-a",
    "spec.node=abc",
    "spec.node!=abc",
    "status.phase=Active",
    "type=Opaque",
    "reason=abc",
    "metadata.name==b,metadata.namespace!=x",
    "spec.other=1",
    "metadata.name",
    "metadata.name=a=b",
    "metadata.uid=1",
];
const ACCEPTS: [&str; 2] = ["application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "*/*"];

/// The kinds and objects that the servers have, as far as a run knows. New operations are derived from them.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    pub(crate) kinds: Vec<Kind>,
    /// Objects by path, in the last version that the embedded server showed.
    pub(crate) objects: HashMap<String, Value>,
}

pub(crate) fn operation(random: &mut Random, known: &Knowledge) -> Operation {
    let kind = &known.kinds[random.below(known.kinds.len())];
    let namespace = if random.chance(3) { "<run>-none" } else { random.pick(&NAMESPACES) };
    let list = kind.list(namespace);
    let name = kind.name(random);
    let path = format!("{list}/{name}");
    let mut operation = match random.weighted(&[26, 8, 8, 18, 18, 5, 4, 10, 2, 1]) {
        0 => create(random, kind, &list, &name, namespace),
        1 => Operation::new(Method::GET, with_status(random, kind, &path, 10)),
        2 => listing(random, kind, &list),
        3 => replace(random, known, kind, &path, &name),
        4 => patch(random, known, kind, &path),
        5 => replace(random, known, kind, &path, &name).on_status(kind),
        6 => patch(random, known, kind, &path).on_status(kind),
        7 => delete(random, &path),
        8 => delete_collection(random, kind, &list),
        _ => odd(random, kind.custom, &list, &path),
    };
    // Leaves out namespaces with a finalizer in their metadata: the embedded server needs one change more than the real
    // server to remove such a namespace, and no client sets such a finalizer.
    let holds = kind.plural == "namespaces" && names_finalizers(&operation);
    // Leaves out PUTs of leases: the real server creates a lease that does not exist, the embedded server does not, and
    // no client relies on this.
    let makes = kind.plural == "leases" && operation.method == Method::PUT;
    if holds || makes {
        operation = Operation::new(Method::GET, path);
    }
    common_options(random, kind, &mut operation);
    operation
}

fn names_finalizers(operation: &Operation) -> bool {
    let body: Value = serde_json::from_str(&operation.body).unwrap_or_default();
    let mut paths = body.as_array().into_iter().flatten().map(|patch| patch["path"].to_string());
    !body["metadata"]["finalizers"].is_null() || paths.any(|path| path.contains("/finalizers"))
}

impl Operation {
    fn on_status(mut self, kind: &Kind) -> Self {
        // Leaves out built-in kinds: only a controller writes the status of a namespace.
        if !self.path.ends_with("/status") && kind.custom {
            self.path.push_str("/status");
        }
        self
    }
}

fn with_status(random: &mut Random, kind: &Kind, path: &str, percent: usize) -> String {
    if kind.custom && random.chance(percent) { format!("{path}/status") } else { path.to_owned() }
}

fn common_options(random: &mut Random, kind: &Kind, operation: &mut Operation) {
    let writes = operation.method != Method::GET;
    if writes && operation.method != Method::DELETE && random.chance(35) {
        let mode = random.pick(&["Strict", "Warn", "Ignore", "Strict", "Ignore"]);
        operation.query.push(("fieldValidation".to_owned(), mode.to_owned()));
    }
    // Leaves out dry runs of new objects with a resourceVersion: the real server refuses such an object only outside a
    // dry run.
    let creates = operation.method == Method::POST;
    let revised = creates && operation.body.contains("resourceVersion");
    if writes && !revised && random.chance(5) {
        // Sends at most one invalid option: of two invalid options, each server reports the option that it reads first.
        let only = operation.query.is_empty() && random.chance(10);
        let mode = if only { "Some" } else { "All" };
        operation.query.push(("dryRun".to_owned(), mode.to_owned()));
    }
    if operation.accept.is_none() && random.chance(12) {
        let is_object = operation.is_about_one() || operation.method == Method::POST;
        let metadata =
            if is_object { "PartialObjectMetadata" } else { "PartialObjectMetadataList" };
        operation.accept = Some(match random.below(4) {
            0 => format!("application/json;as={metadata};v=v1;g=meta.k8s.io"),
            // Asks for no tables of built-in kinds: another test compares their columns, with kubectl.
            _ if !kind.custom => random.pick(&ACCEPTS[1..]).to_owned(),
            _ => random.pick(&ACCEPTS).to_owned(),
        });
    }
}

fn create(random: &mut Random, kind: &Kind, list: &str, name: &str, namespace: &str) -> Operation {
    let care = if random.chance(45) { Care::Valid } else { Care::Nearly };
    let mut body = kind.body(random, care);
    body["metadata"] = metadata(random, kind, name);
    if kind.namespaced && random.chance(30) {
        body["metadata"]["namespace"] = json!(namespace);
    }
    if random.chance(1) {
        // The body then looks like a copy of an object that was being deleted. Only new objects get this member: no
        // client begins a deletion by an update.
        body["metadata"]["deletionTimestamp"] = json!("2020-01-02T03:04:05Z");
    }
    disturb(random, kind, &mut body);
    Operation::new(Method::POST, list).with(&body)
}

/// Returns metadata like those that clients write; most of them are valid.
fn metadata(random: &mut Random, kind: &Kind, name: &str) -> Value {
    let mut meta = Map::new();
    meta.insert("name".to_owned(), json!(name));
    if kind.plural == "namespaces" {
        meta.insert("labels".to_owned(), json!({"app": "x", "run": "<run>"}));
    } else if random.chance(50) {
        meta.insert("labels".to_owned(), labels(random));
    }
    if random.chance(25) {
        meta.insert(
            "annotations".to_owned(),
            json!({"example.org/note": "a \"note\"", "Other": ""}),
        );
    }
    if random.chance(15) {
        meta.insert("finalizers".to_owned(), json!(["example.org/hold"]));
    }
    if random.chance(8) {
        meta.insert("ownerReferences".to_owned(), owners(random));
    }
    if random.chance(6) {
        let (key, value) = odd_metadata(random);
        meta.insert(key.to_owned(), value);
    }
    meta.into()
}

fn labels(random: &mut Random) -> Value {
    let all = [
        json!({"app": "x"}),
        json!({"app": "y", "tier": "5"}),
        json!({"tier": "2"}),
        json!({"app": ""}),
        json!({}),
        json!({"example.org/app": "x", "app": "x"}),
    ];
    all[random.below(all.len())].clone()
}

/// Returns owners of a kind that neither server knows, so that the objects are not garbage-collected.
fn owners(random: &mut Random) -> Value {
    let mut owner = json!({"apiVersion": "elsewhere.example/v1", "kind": "Other", "name": "o", "uid": "01234567-89ab-cdef-0123-000000000001"});
    if random.chance(30) {
        owner["controller"] = json!(true);
        owner["blockOwnerDeletion"] = json!(random.chance(50));
    }
    let mut other = owner.clone();
    other["uid"] = json!("01234567-89ab-cdef-0123-000000000002");
    match random.below(6) {
        0 => json!([owner, other]),
        1 => {
            owner["name"] = json!("");
            json!([owner])
        }
        2 => {
            owner["apiVersion"] = json!("a/b/c");
            json!([owner])
        }
        3 => {
            owner["uid"] = json!("");
            json!([owner])
        }
        _ => json!([owner]),
    }
}

fn odd_metadata(random: &mut Random) -> (&'static str, Value) {
    let all = [
        ("name", json!("")),
        ("name", json!("Upper")),
        ("name", json!("x".repeat(254))),
        ("name", json!("a b")),
        ("name", json!(5)),
        ("name", json!("-a")),
        ("namespace", json!("elsewhere")),
        ("uid", json!("01234567-89ab-cdef-0123-456789abcdef")),
        ("resourceVersion", json!("1")),
        ("resourceVersion", json!("0")),
        ("resourceVersion", json!("nonsense")),
        ("labels", json!({"a b": "x"})),
        ("labels", json!({"app": "x y"})),
        ("labels", json!({"app": 5})),
        ("labels", json!({"app": null})),
        ("labels", json!({"/x": "y", "a/": "z", "UPPER.com/a": "x"})),
        ("labels", json!({"app": "x".repeat(64)})),
        ("annotations", json!({"a b": "x", "UPPER.com/x": ""})),
        ("annotations", json!([])),
        ("annotations", json!({"a": "x".repeat(300_000)})),
        ("finalizers", json!(["hold"])),
        ("finalizers", json!(["a b"])),
        ("finalizers", json!(["example.org/hold", "example.org/hold"])),
        ("finalizers", json!(["foregroundDeletion", "orphan"])),
        ("finalizers", json!([""])),
        ("generation", json!(7)),
        ("creationTimestamp", json!("2020-01-02T03:04:05Z")),
        ("creationTimestamp", Value::Null),
        ("creationTimestamp", json!("yesterday")),
        ("selfLink", json!("/x")),
        ("managedFields", json!([])),
        ("unknownField", json!(1)),
        ("generateName", json!("a-")),
        ("ownerReferences", json!([{"kind": "Other"}])),
        ("ownerReferences", json!({})),
        ("labels", json!("x")),
    ];
    all[random.below(all.len())].clone()
}

/// Damages one of twenty objects: gives it a wrong `apiVersion` or `kind`, or removes, adds or replaces a member.
fn disturb(random: &mut Random, kind: &Kind, body: &mut Value) {
    if !random.chance(5) || !body.is_object() {
        return;
    }
    match random.below(8) {
        0 => body["apiVersion"] = json!("other.example/v1"),
        // kube-apiserver still applies some rules to a custom object of another kind; copying these rules is not worth
        // it.
        1 if kind.custom => body["apiVersion"] = json!("other.example/v2"),
        1 => body["kind"] = json!("Other"),
        2 => drop(body.as_object_mut().and_then(|body| body.remove("kind"))),
        3 => drop(body.as_object_mut().and_then(|body| body.remove("apiVersion"))),
        4 => drop(body.as_object_mut().and_then(|body| body.remove("metadata"))),
        5 => body["unknownField"] = json!({"a": 1}),
        6 => body["metadata"] = values::nonsense(random),
        _ => *body = no_object(random),
    }
}

fn replace(
    random: &mut Random,
    known: &Knowledge,
    kind: &Kind,
    one: &str,
    name: &str,
) -> Operation {
    let care = if random.chance(45) { Care::Valid } else { Care::Nearly };
    let mut body = match known.objects.get(one) {
        Some(object) if random.chance(85) => object.clone(),
        _ => {
            let mut body = kind.body(random, care);
            body["metadata"] = metadata(random, kind, name);
            body
        }
    };
    if random.chance(60) {
        let fresh = kind.body(random, care);
        for key in
            ["spec", "status", "extra", "data", "binaryData", "stringData", "immutable", "reason"]
        {
            if !fresh[key].is_null() && random.chance(60) {
                body[key] = fresh[key].clone();
            }
        }
    }
    if random.chance(15) {
        let fresh = metadata(random, kind, name);
        for (key, value) in fresh.as_object().into_iter().flatten() {
            body["metadata"][key] = value.clone();
        }
    }
    if care == Care::Nearly && random.chance(10) {
        mutate(random, &mut body);
    }
    if body["metadata"].is_object() {
        body["metadata"]["resourceVersion"] = match random.weighted(&[70, 10, 10, 6]) {
            0 => json!(format!("<rv:{one}>")),
            1 => json!(format!("<oldrv:{one}>")),
            2 => Value::Null,
            _ => json!("99999999999"),
        };
        if random.chance(10) {
            body["metadata"]["uid"] = json!(format!("<uid:{one}>"));
        }
    }
    disturb(random, kind, &mut body);
    Operation::new(Method::PUT, one).with(&body)
}

fn patch(random: &mut Random, known: &Knowledge, kind: &Kind, one: &str) -> Operation {
    match random.weighted(&[60, 30, if kind.custom { 2 } else { 30 }]) {
        0 => Operation::new(Method::PATCH, one).with(&merge(random, kind, one)),
        1 => Operation::new(Method::PATCH, one)
            .with(&operations(random, known, kind, one))
            .of_type("application/json-patch+json"),
        _ => Operation::new(Method::PATCH, one)
            .with(&strategic(random, kind, one))
            .of_type("application/strategic-merge-patch+json"),
    }
}

fn merge(random: &mut Random, kind: &Kind, one: &str) -> Value {
    let care = if random.chance(45) { Care::Valid } else { Care::Nearly };
    let fresh = kind.body(random, care);
    let mut patch = Map::new();
    for (key, value) in fresh.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") && random.chance(60) {
            patch.insert(key.clone(), part(random, value));
        }
    }
    if !kind.custom {
        // Leaves out empty maps, which some comparisons in kube-apiserver treat as absent and others do not. Also
        // leaves out maps with nulls only: they become empty maps in an object that lacks the map.
        let has_value = |map: &Map<String, Value>| map.values().any(|value| !value.is_null());
        patch.retain(|_, value| value.as_object().is_none_or(has_value));
    }
    if random.chance(35) {
        let metas = [
            json!({"labels": {"app": "y", "tier": null}}),
            json!({"finalizers": null}),
            json!({"finalizers": ["example.org/hold"]}),
            json!({"finalizers": []}),
            json!({"annotations": {"a": "b"}}),
            json!({"annotations": null}),
            json!({"labels": null}),
            json!({"resourceVersion": format!("<rv:{one}>")}),
            json!({"resourceVersion": format!("<oldrv:{one}>")}),
            json!({"resourceVersion": null}),
            json!({"name": "other"}),
            json!({"namespace": "other"}),
            json!({"generation": 99}),
            json!({"finalizers": ["example.org/other"]}),
            json!({"deletionTimestamp": null}),
            json!({"creationTimestamp": null}),
            json!({"creationTimestamp": "2020-01-02T03:04:05Z"}),
            json!({"labels": {"app": 5}}),
            json!({"labels": {"a b": "c"}}),
            Value::Null,
            json!({"ownerReferences": owners(random)}),
        ];
        patch.insert("metadata".to_owned(), metas[random.below(metas.len())].clone());
    }
    if random.chance(4) {
        patch.insert(
            // No client patches the type of an object.
            random.pick(&["unknownField", "spec"]).to_owned(),
            values::nonsense(random),
        );
    }
    let mut patch = Value::Object(patch);
    drop_nulls_in_lists(&mut patch, false);
    patch
}

/// Drops null members of objects inside lists of a patch: kube-apiserver drops these nulls itself (`pruneAryNils`), but
/// RFC 7386, which the embedded server follows, keeps them.
fn drop_nulls_in_lists(value: &mut Value, inside: bool) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !inside || !member.is_null());
            map.values_mut().for_each(|member| drop_nulls_in_lists(member, inside));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls_in_lists(item, true)),
        _ => {}
    }
}

/// Returns a body that is neither an object nor a patch, but never null or a list of nulls: kube-apiserver sometimes
/// reads these as empty objects, and no client sends them.
fn no_object(random: &mut Random) -> Value {
    match values::nonsense(random) {
        Value::Array(_) | Value::Null => json!("nonsense"),
        other => other,
    }
}

/// Returns a merge patch: some members of a value, and nulls for members to remove.
fn part(random: &mut Random, value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let mut part = Map::new();
    for (key, value) in map {
        if random.chance(15) {
            part.insert(key.clone(), Value::Null);
        } else if random.chance(60) {
            part.insert(key.clone(), self::part(random, value));
        }
    }
    part.into()
}

fn strategic(random: &mut Random, kind: &Kind, one: &str) -> Value {
    let mut patch = merge(random, kind, one);
    if patch.is_object() && random.chance(25) {
        let metas = [
            json!({"finalizers": ["example.org/third"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["example.org/hold"]}),
            json!({"annotations": {"$patch": "delete"}}),
        ];
        patch["metadata"] = metas[random.below(metas.len())].clone();
    }
    patch
}

fn operations(random: &mut Random, known: &Knowledge, kind: &Kind, one: &str) -> Value {
    let none = json!({});
    let object = known.objects.get(one).unwrap_or(&none);
    let mut all = Vec::new();
    for _ in 0..=random.below(3) {
        let mut path = String::new();
        let mut at = object;
        for _ in 0..=random.below(4) {
            let (step, next) = match at {
                Value::Object(map) if !map.is_empty() => {
                    let keys: Vec<&String> = map.keys().collect();
                    let key = keys[random.below(keys.len())];
                    (key.replace('~', "~0").replace('/', "~1"), &map[key])
                }
                Value::Array(items) if !items.is_empty() => {
                    let index = random.below(items.len());
                    (index.to_string(), &items[index])
                }
                _ => break,
            };
            path = format!("{path}/{step}");
            at = next;
        }
        if path.starts_with("/metadata/")
            && !path.starts_with("/metadata/labels")
            && !path.starts_with("/metadata/finalizers")
            && random.chance(70)
        {
            "/metadata/annotations".clone_into(&mut path);
        }
        // Leaves out paths of a whole object or of its type, which no client patches.
        if matches!(&*path, "" | "/metadata" | "/apiVersion" | "/kind") {
            "/metadata/labels".clone_into(&mut path);
        }
        if random.chance(8) {
            let odd = [
                "/spec/none/deeper",
                "spec",
                "/",
                "/spec/-",
                "/spec/list/-",
                "/spec/list/9",
                "/metadata/labels/app",
                "/status/count",
            ];
            random.pick(&odd).clone_into(&mut path);
        }
        let fresh = kind.body(random, Care::Nearly);
        // Sends no list, because the path may lead to a text with a format: kube-apiserver reads a list of numbers as
        // bytes.
        let value = fresh.pointer(&path).cloned().unwrap_or_else(|| values::no_list(random));
        let value = if random.chance(70) { value } else { at.clone() };
        let value = if path == "/metadata/annotations" { json!({"p": "q"}) } else { value };
        all.push(match random.below(10) {
            0..=2 => json!({"op": "add", "path": path, "value": value}),
            3 | 4 => json!({"op": "replace", "path": path, "value": value}),
            5 => json!({"op": "remove", "path": path}),
            6 => {
                let expected = if random.chance(70) { at.clone() } else { value };
                let expected = if spelled_by_each(&expected) { Value::Null } else { expected };
                json!({"op": "test", "path": path, "value": expected})
            }
            7 if kind.custom => json!({"op": "copy", "from": path, "path": "/spec/beta"}),
            8 if kind.custom => json!({"op": "move", "from": path, "path": "/spec/gamma"}),
            _ => json!({"op": random.pick(&["add", "replace", "frob", "test", "move", "copy"]), "path": path, "value": null}),
        });
    }
    all.into()
}

fn delete(random: &mut Random, one: &str) -> Operation {
    let operation = Operation::new(Method::DELETE, one);
    if random.chance(50) {
        return operation;
    }
    let bodies = [
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": format!("<uid:{one}>")}}),
        json!({"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}),
        json!({"preconditions": {"resourceVersion": format!("<rv:{one}>")}}),
        json!({"preconditions": {"resourceVersion": format!("<oldrv:{one}>"), "uid": format!("<uid:{one}>")}}),
        json!({"propagationPolicy": "Background"}),
        json!({"propagationPolicy": "Foreground"}),
        json!({"propagationPolicy": "Orphan"}),
        json!({"propagationPolicy": "Sideways"}),
        json!({"orphanDependents": true}),
        json!({"orphanDependents": false, "propagationPolicy": "Orphan"}),
        json!({"gracePeriodSeconds": 0}),
        json!({"gracePeriodSeconds": 30}),
        json!({"dryRun": ["All"]}),
        json!({"dryRun": ["Some"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}),
        json!({"kind": "Other", "apiVersion": "v1"}),
        json!({"unknownField": 1}),
        json!({"preconditions": 5}),
        json!([]),
        json!({}),
        json!({"gracePeriodSeconds": -1}),
    ];
    let operation = operation.with(&bodies[random.below(bodies.len())]);
    if random.chance(10) {
        operation.asking(
            "propagationPolicy",
            random.pick(&["Foreground", "Orphan", "Background", "Down"]),
        )
    } else {
        operation
    }
}

fn delete_collection(random: &mut Random, kind: &Kind, list: &str) -> Operation {
    let mut operation = Operation::new(Method::DELETE, list);
    if !kind.namespaced && !kind.custom {
        return operation.asking("labelSelector", "run=<run>");
    }
    if random.chance(60) {
        operation = operation.asking("labelSelector", random.pick(&LABEL_SELECTORS));
    }
    if random.chance(30) {
        operation = operation.asking("fieldSelector", random.pick(&FIELD_SELECTORS));
    }
    operation
}

fn listing(random: &mut Random, kind: &Kind, list: &str) -> Operation {
    // Lists of built-in kinds that have no namespace select the objects of this run: the real server also has others.
    let own = if kind.custom { "" } else { "run=<run>" };
    let everywhere = kind.custom && kind.examples.is_empty() && random.chance(20);
    let mut operation = if everywhere && kind.namespaced {
        Operation::new(Method::GET, format!("{}/{}", kind.root, kind.plural))
    } else {
        Operation::new(Method::GET, list)
    };
    if !kind.namespaced && !kind.custom {
        operation = operation.asking("labelSelector", own);
    } else if random.chance(25) {
        // A list with a limit has no selector: with both, kube-apiserver returns a continue token even if no further
        // object matches.
        operation = operation.asking("limit", random.pick(&["1", "2", "0", "100", "-1", "x"]));
    } else if random.chance(60) {
        operation = operation.asking("labelSelector", random.pick(&LABEL_SELECTORS));
    } else {
        operation = operation.asking("fieldSelector", random.pick(&FIELD_SELECTORS));
    }
    // A continue token is valid only for the list that returned it, so only a list with that path is continued.
    if operation.path == list && random.chance(10) {
        operation = operation.asking("continue", &format!("<continue:{list}>"));
    }
    if random.chance(12) {
        let name = NAMES[random.below(NAMES.len())];
        let revision =
            [format!("<rv:{list}/{name}>"), "0".to_owned(), "nonsense".to_owned(), "-5".to_owned()];
        operation = operation.asking("resourceVersion", &revision[random.below(revision.len())]);
    }
    if random.chance(8) {
        operation = operation.asking(
            "resourceVersionMatch",
            random.pick(&["Exact", "NotOlderThan", "Sometimes", ""]),
        );
    }
    operation
}

/// Returns a request that no server can carry out, such as a PUT to the path of a list.
fn odd(random: &mut Random, custom: bool, list: &str, one: &str) -> Operation {
    match random.below(9) {
        // The handlers of custom resources treat a POST to the path of an object in a special way, on which no client
        // relies.
        0 if !custom => Operation::new(Method::POST, one).with(&json!({})),
        1 => Operation::new(Method::PUT, list).with(&json!({})),
        2 => Operation::new(Method::PATCH, list).with(&json!({})),
        3 => Operation::new(Method::GET, format!("{one}/none")),
        4 => Operation::new(Method::GET, format!("{list}x")),
        5 => Operation::new(Method::DELETE, format!("{one}/status")),
        6 => Operation { body: "{\"kind\":".to_owned(), ..Operation::new(Method::POST, list) },
        7 => Operation { body: "kind: x\n- y".to_owned(), ..Operation::new(Method::PUT, one) }
            .of_type("application/yaml"),
        _ => Operation::new(Method::PATCH, one).with(&json!({})).of_type("text/plain"),
    }
}

/// Returns whether the two servers may write a number in this value in different ways. The operation `test` of a JSON
/// patch compares numbers as texts, so it would have different results.
fn spelled_by_each(value: &Value) -> bool {
    value.to_string().contains("e+")
}
