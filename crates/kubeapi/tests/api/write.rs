//! Tests of create, update and patch.

use crate::exchange::{JSON_PATCH, WIDGETS};
use crate::server::Server;
use serde_json::{Value, json};

fn path(name: &str) -> String {
    format!("{WIDGETS}/{name}")
}

#[tokio::test]
async fn the_server_sets_defaults_and_metadata_of_a_new_object() {
    let server = Server::start().await;
    let mut body = server.draft("a", json!({"node": "n"}));
    body["status"] = json!({"ready": true});
    body["metadata"]["uid"] = json!("mine");
    body["metadata"]["generation"] = json!(7);
    let object = server.post(WIDGETS, &body).await.expect(201);
    assert_eq!(object["spec"], json!({"node": "n", "count": 1}));
    assert_eq!(object["metadata"]["generation"], 1);
    assert_eq!(object["metadata"]["namespace"], server.namespace());
    assert_ne!(object["metadata"]["uid"], "mine");
    assert!(object["metadata"]["creationTimestamp"].is_string());
    assert!(object.get("status").is_none(), "status is written through its subresource only");
}

#[tokio::test]
async fn generated_names_are_unique() {
    let server = Server::start().await;
    let body = json!({"apiVersion": "test.example/v1", "kind": "Widget", "metadata": {"generateName": "w-"}, "spec": {"node": "n"}});
    let first = server.post(WIDGETS, &body).await.expect(201);
    let second = server.post(WIDGETS, &body).await.expect(201);
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(
        name(&first).starts_with("w-") && name(&first).len() == 7 && name(&first) != name(&second)
    );
}

#[tokio::test]
async fn the_refusal_of_an_invalid_object_names_the_invalid_field() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    assert_eq!(
        server.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await.refused(409),
        "widgets.test.example \"a\" already exists"
    );
    let elsewhere = "/apis/test.example/v1/namespaces/nowhere/widgets";
    assert_eq!(
        server.post(elsewhere, &server.draft("a", json!({"node": "n"}))).await.refused(404),
        "namespaces \"nowhere\" not found"
    );
    let cases = [
        (json!({}), "spec.node: Required value"),
        (
            json!({"node": 1}),
            "spec.node: Invalid value: \"integer\": spec.node in body must be of type string: \"integer\"",
        ),
        (
            json!({"node": ""}),
            "spec.node: Invalid value: \"\": spec.node in body should be at least 1 chars long",
        ),
        (
            json!({"node": "n", "count": -1}),
            "spec.count: Invalid value: -1: spec.count in body should be ",
        ),
        (
            json!({"node": "n", "mode": "x"}),
            "spec.mode: Unsupported value: \"x\": supported values: \"on\", \"off\"",
        ),
        (json!({"node": "n", "items": [{}]}), "spec.items[0].name: Required value"),
        (
            json!({"node": "n", "items": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}),
            "spec.items: Too many: 4: ",
        ),
        (json!({"node": "n", "port": 1.5}), "spec.port in body must be of type integer,string"),
    ];
    for (spec, message) in cases {
        let answer = server.post(WIDGETS, &server.draft("b", spec)).await;
        let cause = answer.body["details"]["causes"][0].clone();
        let refusal = answer.refused(422);
        assert!(refusal.starts_with("Widget.test.example \"b\" is invalid: "), "{refusal}");
        assert!(refusal.contains(message), "{refusal}");
        let field = cause["field"].as_str().unwrap();
        assert!(message.starts_with(field), "{cause}");
    }
    assert_eq!(server.get(WIDGETS).await.expect(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn objects_with_invalid_metadata_are_refused() {
    let server = Server::start().await;
    for (pointer, value, message) in [
        (
            "/metadata/name",
            json!("Upper"),
            "metadata.name: Invalid value: \"Upper\": a lowercase RFC 1123 subdomain",
        ),
        (
            "/metadata/name",
            json!(""),
            "metadata.name: Required value: name or generateName is required",
        ),
        ("/metadata/labels", json!({"a": "b c"}), "metadata.labels: Invalid value: \"b c\""),
        ("/metadata/labels", json!({"-a": "b"}), "metadata.labels: Invalid value: \"-a\""),
        ("/metadata/finalizers", json!(["a b"]), "metadata.finalizers: Invalid value: \"a b\""),
        (
            "/metadata/ownerReferences",
            json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": ""}]),
            "metadata.ownerReferences.uid",
        ),
    ] {
        let mut body = server.draft("a", json!({"node": "n"}));
        body["metadata"][pointer.rsplit('/').next().unwrap()] = value;
        let refusal = server.post(WIDGETS, &body).await.refused(422);
        assert!(refusal.contains(message), "{refusal}");
    }
    let mut body = server.draft("a", json!({"node": "n"}));
    body["metadata"]["namespace"] = json!("other");
    assert!(
        server.post(WIDGETS, &body).await.refused(400).contains("does not match the namespace")
    );
    body["metadata"] = json!({"name": "a", "labels": 1});
    server.post(WIDGETS, &body).await.refused(400);
}

#[tokio::test]
async fn field_validation_decides_whether_unknown_fields_are_dropped_reported_or_refused() {
    let server = Server::start().await;
    let body = server.draft(
        "a",
        json!({"node": "n", "free": {"any": {"thing": 1}}, "typo": 1, "items": [{"name": "x", "nope": 2}]}),
    );
    let strict =
        server.post(&format!("{WIDGETS}?fieldValidation=Strict"), &body).await.refused(400);
    assert!(strict.contains("strict decoding error: unknown field \"spec.items[0].nope\", unknown field \"spec.typo\""), "{strict}");
    let silent = server.post(&format!("{WIDGETS}?fieldValidation=Ignore&dryRun=All"), &body).await;
    assert!(silent.warnings.is_empty());
    let answer = server.post(WIDGETS, &body).await;
    assert_eq!(
        answer.warnings,
        [
            "299 - \"unknown field \\\"spec.items[0].nope\\\"\"",
            "299 - \"unknown field \\\"spec.typo\\\"\""
        ]
    );
    let object = answer.expect(201);
    assert_eq!(
        object["spec"],
        json!({"node": "n", "count": 1, "free": {"any": {"thing": 1}}, "items": [{"name": "x", "size": 7}]})
    );
}

#[tokio::test]
async fn null_members_of_an_object_count_as_absent() {
    let server = Server::start().await;
    let object =
        server.widget("a", json!({"node": "n", "count": null, "mode": null, "note": null})).await;
    assert_eq!(object["spec"], json!({"node": "n", "count": 1, "note": null}));
    let labels = json!({"metadata": {"labels": {"a": null, "b": "c"}}});
    let object = server.merge(&path("a"), &labels).await.expect(200);
    assert_eq!(object["metadata"]["labels"], json!({"b": "c"}));
}

#[tokio::test]
async fn a_put_succeeds_only_with_the_current_resource_version() {
    let server = Server::start().await;
    let first = server.widget("a", json!({"node": "n", "mode": "on"})).await;
    let mut second = first.clone();
    second["spec"] = json!({"node": "n", "count": 5});
    second["status"] = json!({"ready": true});
    let stored = server.put(&path("a"), &second).await.expect(200);
    assert_eq!(stored["spec"], json!({"node": "n", "count": 5}));
    assert_eq!(stored["metadata"]["generation"], 2);
    assert!(stored.get("status").is_none());

    assert!(
        server.put(&path("a"), &second).await.refused(409).contains("the object has been modified")
    );
    second["metadata"]["resourceVersion"] = Value::Null;
    second["spec"]["count"] = json!(6);
    assert!(
        server
            .put(&path("a"), &second)
            .await
            .refused(422)
            .contains("must be specified for an update")
    );
    let mut other = stored.clone();
    other["metadata"]["uid"] = json!("another");
    assert!(server.put(&path("a"), &other).await.refused(409).contains("Precondition failed: UID"));
    other = stored.clone();
    other["metadata"]["name"] = json!("b");
    assert!(
        server
            .put(&path("a"), &other)
            .await
            .refused(400)
            .contains("does not match the name on the URL")
    );
    other = stored.clone();
    other["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    assert_eq!(server.put(&path("a"), &other).await.expect(200), stored);
    assert!(
        server
            .put(&path("zz"), &server.draft("zz", json!({"node": "n"})))
            .await
            .refused(404)
            .contains("not found")
    );
    assert_eq!(server.get(&path("a")).await.expect(200), stored);
}

#[tokio::test]
async fn a_write_without_a_change_stores_nothing() {
    let server = Server::start().await;
    let object = server.widget("a", json!({"node": "n"})).await;
    assert_eq!(server.put(&path("a"), &object).await.expect(200), object);
    assert_eq!(
        server
            .merge(&path("a"), &json!({"spec": {"count": 1}, "metadata": {"labels": {}}}))
            .await
            .expect(200),
        object
    );
    assert_eq!(
        server
            .merge(&format!("{}/status", path("a")), &json!({"spec": {"count": 9}}))
            .await
            .expect(200),
        object
    );
    assert_eq!(server.get(&path("a")).await.expect(200), object);
}

#[tokio::test]
async fn the_status_subresource_writes_status_only() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let body = json!({"status": {"ready": true, "unknown": 1}, "spec": {"count": 9}, "metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]}});
    let object = server.merge(&format!("{}/status", path("a")), &body).await.expect(200);
    assert_eq!(object["status"], json!({"ready": true}));
    assert_eq!(object["spec"]["count"], 1);
    assert_eq!(object["metadata"].get("labels"), None);
    assert_eq!(object["metadata"].get("finalizers"), None);
    assert_eq!(object["metadata"]["generation"], 1);
    assert!(
        server
            .merge(&format!("{}/status", path("a")), &json!({"status": {"ready": "x"}}))
            .await
            .refused(422)
            .contains("status.ready")
    );
    let refusal = server
        .merge(&format!("{}/status", path("a")), &json!({"status": {"since": "soon"}}))
        .await
        .refused(422);
    assert!(refusal.contains("status.since: Invalid value: \"soon\""), "{refusal}");
    let kept = server
        .merge(&path("a"), &json!({"status": {"ready": false}, "spec": {"count": 2}}))
        .await
        .expect(200);
    assert_eq!(kept["status"], json!({"ready": true}));
    assert_eq!(kept["metadata"]["generation"], 2);
    assert_eq!(server.get(&format!("{}/status", path("a"))).await.expect(200), kept);
}

#[tokio::test]
async fn json_patches_are_applied_completely_or_not_at_all() {
    let server = Server::start().await;
    let object = server.widget("a", json!({"node": "n"})).await;
    let half = json!([{"op": "replace", "path": "/spec/count", "value": 5}, {"op": "test", "path": "/spec/node", "value": "x"}]);
    server.patch(&path("a"), JSON_PATCH, &half).await.refused(422);
    server
        .patch(&path("a"), JSON_PATCH, &json!([{"op": "remove", "path": "/spec/absent"}]))
        .await
        .refused(422);
    server.patch(&path("a"), JSON_PATCH, &json!([{"op": "jump"}])).await.refused(422);
    assert_eq!(server.get(&path("a")).await.expect(200), object);
    let good = json!([{"op": "test", "path": "/spec/node", "value": "n"}, {"op": "add", "path": "/spec/items", "value": [{"name": "i"}]}]);
    let patched = server.patch(&path("a"), JSON_PATCH, &good).await.expect(200);
    assert_eq!(patched["spec"]["items"], json!([{"name": "i", "size": 7}]));
}

#[tokio::test]
async fn a_merge_patch_with_an_outdated_resource_version_is_refused() {
    let server = Server::start().await;
    let object = server.widget("a", json!({"node": "n"})).await;
    let old = object["metadata"]["resourceVersion"].clone();
    let body = |count: u32| json!({"metadata": {"resourceVersion": old}, "spec": {"count": count}});
    server.merge(&path("a"), &body(2)).await.expect(200);
    server.merge(&path("a"), &body(3)).await.refused(409);
    server.merge(&path("a"), &json!({"metadata": {"name": "b"}})).await.refused(400);
    let refusal = server
        .merge(&format!("{}?fieldValidation=Strict", path("a")), &json!({"spec": {"typo": 1}}))
        .await
        .refused(422);
    assert!(refusal.contains("unknown field \"spec.typo\""), "{refusal}");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let server = Server::start().await;
    let before = server.get(WIDGETS).await.expect(200);
    let draft = server
        .post(&format!("{WIDGETS}?dryRun=All"), &server.draft("a", json!({"node": "n"})))
        .await
        .expect(201);
    assert_eq!(draft["spec"]["count"], 1);
    assert_eq!(draft["metadata"].get("resourceVersion"), None);
    assert_eq!(server.get(WIDGETS).await.expect(200)["items"], before["items"]);
    let object = server.widget("a", json!({"node": "n"})).await;
    server.delete(&format!("{}?dryRun=All", path("a")), &Value::Null).await.expect(200);
    assert_eq!(server.get(&path("a")).await.expect(200), object);
    server
        .post(&format!("{WIDGETS}?dryRun=Some"), &server.draft("b", json!({"node": "n"})))
        .await
        .refused(422);
}

#[tokio::test]
async fn patches_that_make_an_object_too_large_or_too_deep_are_refused() {
    let server = Server::start().await;
    let object =
        server.widget("a", json!({"node": "n", "free": {"x": {"y": "z".repeat(1000)}}})).await;
    let doubling: Vec<Value> =
        (0..40).map(|index| json!({"op": "copy", "from": "/spec/free", "path": format!("/spec/free/c{index}")})).collect();
    server.patch(&path("a"), JSON_PATCH, &json!(doubling)).await.refused(422);
    let nesting = "/x".repeat(150);
    server
        .patch(
            &path("a"),
            JSON_PATCH,
            &json!([{"op": "add", "path": format!("/spec/free{nesting}"), "value": 1}]),
        )
        .await
        .refused(422);
    let mut deep = json!(1);
    for _ in 0..110 {
        deep = json!([deep]);
    }
    server.merge(&path("a"), &json!({"spec": {"free": deep}})).await.refused(422);
    assert_eq!(server.get(&path("a")).await.expect(200), object);
}

#[tokio::test]
async fn configmaps_and_secrets_are_checked_by_the_rules_of_their_kind() {
    let server = Server::start().await;
    let maps = server.core("configmaps");
    let map = |name: &str, members: Value| {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        map.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        map
    };
    for data in [json!({"a b": "x"}), json!({"..": "x"}), json!({"": "x"})] {
        let refusal = server.post(&maps, &map("m", json!({"data": data}))).await.refused(422);
        assert!(refusal.contains("data["), "{refusal}");
    }
    let twice = json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}});
    let refusal = server.post(&maps, &map("m", twice)).await.refused(422);
    assert!(
        refusal.contains("data[a]: Invalid value: \"a\": duplicate of key present in binaryData"),
        "{refusal}"
    );
    server
        .post(&maps, &map("m", json!({"data": {"a.b_C-1": "x"}, "immutable": true})))
        .await
        .expect(201);
    let refusal =
        server.merge(&format!("{maps}/m"), &json!({"data": {"b": "y"}})).await.refused(422);
    assert!(refusal.contains("field is immutable when `immutable` is set"), "{refusal}");
    server
        .merge(&format!("{maps}/m"), &json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect(200);

    let secrets = server.core("secrets");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "t"});
    server.post(&secrets, &secret).await.expect(201);
    let refusal =
        server.merge(&format!("{secrets}/s"), &json!({"type": "other"})).await.refused(422);
    assert!(refusal.contains("type: Invalid value") && refusal.contains("immutable"), "{refusal}");
}
