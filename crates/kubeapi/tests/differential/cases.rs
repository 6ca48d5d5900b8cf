//! Operations that the embedded and the real server once answered differently. Random operations need not include
//! these, so a test of its own sends them.

use crate::operation::Operation;
use http::Method;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/<run>-a/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/<run>-a/leases";
const THINGS: &str = "/apis/<run>.example/v1/namespaces/<run>-a/things";

/// Returns all operations, in the order in which they are sent.
pub(crate) fn operations() -> Vec<Operation> {
    let mut all = vec![
        post(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "<run>-a"}}),
        ),
        post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()),
    ];
    all.extend(values());
    all.extend(metadata());
    all.extend(changes());
    all.extend(builtins());
    all.extend(options());
    all.extend(oddities());
    all
}

/// Returns combinations of operations that got different answers in random runs.
fn oddities() -> Vec<Operation> {
    let odd = format!("{THINGS}/odd");
    let patch = |body: Value| Operation::new(Method::PATCH, &odd).with(&body);
    let odd_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}});
    let mut all = vec![post(THINGS, &thing("odd", &json!({"node": "a"}))), post(MAPS, &odd_map)];
    for value in [json!(1), json!(true), json!({}), json!([]), json!(1.5)] {
        all.push(patch(json!({"apiVersion": value})));
        all.push(patch(json!({"kind": value})));
        all.push(patch(json!({"apiVersion": value, "kind": value})));
        all.push(patch(json!({"apiVersion": value, "metadata": {"labels": {"a": "b"}}})));
        let status = Operation::new(Method::PATCH, format!("{odd}/status"));
        all.push(status.with(&json!({"apiVersion": value})));
        let map = Operation::new(Method::PATCH, format!("{MAPS}/odd"));
        all.push(map.with(&json!({"apiVersion": value})));
    }
    let map = Operation::new(Method::PATCH, format!("{MAPS}/odd"));
    all.push(map.with(&json!({"metadata": {"deletionGracePeriodSeconds": 0}})));
    for words in [
        json!({"": null}),
        json!({"": null, "a": null}),
        json!({"": "x", "a": null}),
        json!({"": 1}),
    ] {
        all.push(post(THINGS, &thing("odder", &json!({"node": "a", "words": words}))));
        all.push(patch(json!({"spec": {"words": words}})));
    }
    for member in ["labels", "annotations"] {
        let mut object = thing("odder", &json!({"node": "a"}));
        object["metadata"][member] = json!({"": null});
        all.push(post(THINGS, &object).asking("dryRun", "All"));
    }
    for version in ["a/b/c", "a//c", "/", "a/", "/v1", "", "a/b/c/d"] {
        let owner = json!({"apiVersion": version, "kind": "K", "name": "n", "uid": "u"});
        let bare = json!({"apiVersion": version, "kind": "", "name": "n", "uid": "v"});
        for owners in [json!([owner]), json!([owner, bare])] {
            let mut object = thing("owned", &json!({"node": "a"}));
            object["metadata"]["ownerReferences"] = owners.clone();
            all.push(post(THINGS, &object).asking("dryRun", "All"));
            all.push(
                patch(json!({"metadata": {"ownerReferences": owners}})).asking("dryRun", "All"),
            );
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": owners}});
            all.push(post(MAPS, &map).asking("dryRun", "All"));
        }
    }
    all
}

fn definition() -> Value {
    let spec = json!({
        "type": "object", "required": ["node"],
        "properties": {
            "node": {"type": "string", "maxLength": 5},
            "count": {"type": "integer", "format": "int32", "minimum": 0},
            "part": {"type": "number", "format": "float", "maximum": 7.5},
            "mode": {"type": "string", "enum": ["on", "off"]},
            "level": {"type": "integer", "enum": [1, 2]},
            "since": {"type": "string", "format": "date-time"},
            "list": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "grow": {"type": "integer"},
            "note": {"type": "string", "nullable": true},
            "words": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.<run>.example"},
        "spec": {
            "group": "<run>.example", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "deprecated": true, "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.node"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}

fn post(path: &str, body: &Value) -> Operation {
    Operation::new(Method::POST, path).with(body)
}

fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "<run>.example/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

/// Returns operations whose values violate a schema, each in a different way.
fn values() -> Vec<Operation> {
    let specs = [
        json!({}),
        json!([]),
        json!(5),
        json!({"node": 5}),
        json!({"node": "longer"}),
        json!({"node": "a", "count": 3}),
        json!({"node": "a", "count": -2}),
        json!({"node": "a", "count": 2.5}),
        json!({"node": "a", "count": 4.0}),
        json!({"node": "a", "count": 4_294_967_296_i64}),
        json!({"node": "a", "count": u64::MAX}),
        json!({"node": "a", "part": 8}),
        json!({"node": "a", "part": 1e300}),
        json!({"node": "a", "mode": 0}),
        json!({"node": "a", "mode": "none"}),
        json!({"node": "a", "level": 3}),
        json!({"node": "a", "level": "1"}),
        json!({"node": "a", "since": "2026-01-02"}),
        json!({"node": "a", "since": "2026-01-02t03:04:05z"}),
        json!({"node": "a", "since": 5}),
        json!({"node": "a", "list": ["x", "x", "x", "y"]}),
        json!({"node": "a", "grow": 3.0}),
        json!({"node": null}),
        json!({"node": "a", "note": null, "free": {"float": 3.0, "large": u64::MAX, "list": [null]}, "unknown": 1}),
        json!({"node": "a", "mode": "on", "level": 1, "count": 2, "grow": 1, "part": 1}),
    ];
    specs.iter().map(|spec| post(THINGS, &thing("v", spec)).asking("dryRun", "All")).collect()
}

/// Returns operations with metadata that are invalid or that the server ignores.
fn metadata() -> Vec<Operation> {
    let owner = |uid: &str| json!({"apiVersion": "elsewhere.example/v1", "kind": "Other", "name": "o", "uid": uid, "controller": true});
    let (owner, other) = (
        owner("01234567-89ab-cdef-0123-000000000001"),
        owner("01234567-89ab-cdef-0123-000000000002"),
    );
    let metas = [
        json!({"name": "Upper"}),
        json!({"name": "x".repeat(254)}),
        json!({"name": ""}),
        json!({}),
        json!(true),
        json!({"name": 5}),
        json!({"name": "m", "labels": {}, "annotations": {}, "finalizers": []}),
        json!({"name": "m", "labels": {"a": null}}),
        json!({"name": "m", "labels": {"a b": "x", "a/b/c": "y", "/d": "z", "e": "x y"}}),
        json!({"name": "m", "finalizers": ["hold"]}),
        json!({"name": "m", "finalizers": ["foregroundDeletion", "orphan"]}),
        json!({"name": "m", "finalizers": [""]}),
        json!({"name": "m", "ownerReferences": [owner, other]}),
        json!({"name": "m", "ownerReferences": [{"apiVersion": "a/b/c"}]}),
        json!({"name": "m", "generation": 7}),
        json!({"name": "m", "creationTimestamp": "yesterday"}),
        json!({"name": "m", "namespace": "elsewhere"}),
    ];
    let of_thing = |meta: &Value| {
        let mut body = thing("m", &json!({"node": "a"}));
        body["metadata"] = meta.clone();
        post(THINGS, &body).asking("dryRun", "All")
    };
    let of_map = |meta: &Value| {
        post(MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}))
            .asking("dryRun", "All")
    };
    metas.iter().map(of_thing).chain(metas.iter().map(of_map)).collect()
}

/// Returns the operations in the life of an object, invalid ones among them.
fn changes() -> Vec<Operation> {
    let path = format!("{THINGS}/a");
    let merge = |body: Value| Operation::new(Method::PATCH, &path).with(&body);
    let patch = |body: Value| {
        Operation::new(Method::PATCH, &path).with(&body).of_type("application/json-patch+json")
    };
    let put = |body: Value| Operation::new(Method::PUT, &path).with(&body);
    let mut full = thing("a", &json!({"node": "b", "grow": 1}));
    let stale = full.clone();
    let mut revised = full.clone();
    revised["metadata"]["resourceVersion"] = json!("5");
    full["metadata"]["resourceVersion"] = json!(format!("<rv:{path}>"));
    let mut other = full.clone();
    other["metadata"]["uid"] = json!("01234567-89ab-cdef-0123-456789abcdef");
    let mut nonsense = full.clone();
    nonsense["metadata"]["resourceVersion"] = json!("nonsense");
    vec![
        merge(json!({"spec": 5})),
        put(full.clone()),
        post(THINGS, &revised),
        post(THINGS, &thing("a", &json!({"node": "a", "grow": 2}))),
        post(THINGS, &thing("a", &json!({"node": "a"}))),
        put(full),
        put(stale),
        put(other),
        put(nonsense),
        put(json!({"kind": "Other"})),
        merge(json!({"spec": {"grow": 3, "note": "x"}})),
        merge(json!({"spec": {"grow": 1}})),
        merge(json!({"metadata": {"resourceVersion": null}})),
        merge(json!({"metadata": {"resourceVersion": format!("<oldrv:{path}>")}})),
        merge(json!({"metadata": {"name": "b"}})),
        merge(json!({"metadata": {"creationTimestamp": "2020-01-02T03:04:05Z", "generation": 99}})),
        merge(json!({"metadata": {"deletionGracePeriodSeconds": 0}})),
        merge(json!({"metadata": {"deletionGracePeriodSeconds": 7, "labels": {"a": "b"}}})),
        Operation::new(Method::PATCH, format!("{path}/status"))
            .with(&json!({"metadata": {"deletionGracePeriodSeconds": 0}})),
        merge(json!({"metadata": {"deletionTimestamp": "2020-01-02T03:04:05Z"}})),
        merge(json!({"kind": "Other"})),
        merge(json!([])),
        patch(json!([{"op": "replace", "path": "/spec/mode", "value": "on"}])),
        patch(json!([{"op": "remove", "path": "/spec/none"}])),
        patch(json!([{"op": "test", "path": "/spec/node", "value": "z"}])),
        patch(json!([{"op": "frob", "path": "/spec"}])),
        patch(json!({})),
        Operation::new(Method::PATCH, format!("{path}/status"))
            .with(&json!({"status": {"phase": 5}, "spec": {"node": "z"}})),
        Operation::new(Method::PATCH, format!("{path}/status"))
            .with(&json!({"status": {"phase": "x"}})),
        merge(json!({"metadata": {"finalizers": ["example.org/hold"]}})),
        Operation::new(Method::DELETE, &path)
            .with(&json!({"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}})),
        Operation::new(Method::DELETE, &path).with(&json!({"propagationPolicy": "Sideways"})),
        Operation::new(Method::DELETE, THINGS),
        Operation::new(Method::DELETE, &path),
        merge(json!({"metadata": {"finalizers": ["example.org/hold", "example.org/other"]}})),
        merge(json!({"metadata": {"deletionGracePeriodSeconds": 0}})),
        merge(json!({"metadata": {"deletionGracePeriodSeconds": 7}})),
        merge(json!({"metadata": {"deletionTimestamp": "2020-01-02T03:04:05Z"}})),
        post(THINGS, &thing("a", &json!({"node": "a"}))),
        merge(json!({"metadata": {"finalizers": null}})),
        Operation::new(Method::GET, &path),
    ]
}

/// Returns operations on built-in kinds, which kube-apiserver, unlike custom resources, decodes into Go structs.
fn builtins() -> Vec<Operation> {
    let map = |body: Value| post(MAPS, &body).asking("dryRun", "All");
    let lease = |spec: Value| {
        post(LEASES, &json!({"metadata": {"name": "l"}, "spec": spec})).asking("dryRun", "All")
    };
    let event =
        |body: Value| post("/api/v1/namespaces/<run>-a/events", &body).asking("dryRun", "All");
    vec![
        map(json!({"metadata": {"name": "m"}, "data": {"a": 5}})),
        map(json!({"metadata": {"name": "m"}, "data": {}, "binaryData": {"a": "YQ=="}})),
        map(
            json!({"metadata": {"name": "m"}, "data": {"a": "b", "c d": "e"}, "binaryData": {"a": "YQ=="}}),
        ),
        map(
            json!({"apiVersion": "other.example/v1", "kind": "ConfigMap", "metadata": {"name": "m"}}),
        ),
        map(json!({"kind": "Other", "metadata": {"name": "m"}})),
        map(json!(5)),
        lease(json!({"acquireTime": "2026-01-02T03:04:05Z"})),
        lease(
            json!({"acquireTime": "2026-01-02T05:04:05.000006+02:00", "leaseDurationSeconds": 0}),
        ),
        lease(json!(null)),
        event(
            json!({"metadata": {"name": "a b"}, "involvedObject": {"namespace": "<run>-a"}, "firstTimestamp": "2026-01-02T05:04:05Z", "count": 3}),
        ),
    ]
}

/// Returns requests with various queries and paths.
fn options() -> Vec<Operation> {
    let list = |name: &str, value: &str| Operation::new(Method::GET, THINGS).asking(name, value);
    let labels = [
        "a=b",
        "a in ()",
        "a in (x,,y)",
        "a notin x",
        "!a",
        "a b",
        "a>x",
        ",",
        "a=b,",
        "-a",
        "a/b/c",
        "a=x y",
        "!",
    ];
    let fields =
        ["spec.node=a", "spec.other=a", "metadata.name", "metadata.name=a=b", "metadata.name=a\\b"];
    let mut all: Vec<Operation> = labels.iter().map(|text| list("labelSelector", text)).collect();
    all.extend(fields.iter().map(|text| list("fieldSelector", text)));
    all.extend([
        Operation::new(Method::GET, MAPS).asking("fieldSelector", "spec.node=a"),
        list("limit", "x"),
        list("limit", "-1"),
        list("resourceVersion", "nonsense"),
        list("continue", "nonsense"),
        list("resourceVersionMatch", "Sometimes"),
        list("resourceVersionMatch", "Exact").asking("resourceVersion", "0"),
        post(THINGS, &thing("o", &json!({"node": "a"}))).asking("dryRun", "Some"),
        post(THINGS, &thing("o", &json!({"node": "a"})))
            .asking("fieldValidation", "strict")
            .asking("dryRun", "All"),
        post(THINGS, &thing("o", &json!({"node": "a", "x": 1})))
            .asking("fieldValidation", "Strict"),
        Operation::new(Method::GET, format!("{THINGS}x")),
        Operation::new(Method::GET, format!("{THINGS}/a/none")),
        Operation::new(Method::GET, format!("{MAPS}/a/none")),
        Operation::new(Method::DELETE, format!("{THINGS}/a/status")),
        Operation::new(Method::PUT, THINGS).with(&json!({})),
        Operation::new(Method::DELETE, "/api/v1/namespaces"),
        Operation::new(Method::PATCH, format!("{MAPS}/a")).with(&json!({})).of_type("text/plain"),
        Operation::new(Method::PATCH, format!("{THINGS}/a")).with(&json!({})).of_type("text/plain"),
        Operation { body: "{\"kind\":".to_owned(), ..Operation::new(Method::POST, THINGS) },
    ]);
    all
}
