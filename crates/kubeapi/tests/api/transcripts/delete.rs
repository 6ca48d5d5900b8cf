use crate::exchange::{MERGE_PATCH, WIDGETS};
use crate::script::Script;
use crate::server::Server;
use http::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn deletions_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let first = script.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await;
    for options in [
        json!({"preconditions": {"uid": "other"}}),
        json!({"preconditions": {"resourceVersion": "1"}}),
        json!({"preconditions": {"uid": first["metadata"]["uid"], "resourceVersion": "1"}}),
        json!({"propagationPolicy": "Sideways"}),
        json!({"dryRun": ["Some"]}),
        json!({"dryRun": ["All", "Some"]}),
        json!({"dryRun": "All"}),
        json!({"preconditions": {"uid": 7}}),
        json!({"preconditions": "uid"}),
        json!({"propagationPolicy": true}),
        json!({"propagationPolicy": "Background", "orphanDependents": true}),
        json!({"kind": "Widget"}),
        json!({"apiVersion": "v1", "kind": "Status"}),
        json!([]),
        json!("x"),
        json!({"dryRun": ["All"]}),
        json!({"gracePeriodSeconds": -1, "dryRun": ["All"]}),
        json!({"gracePeriodSeconds": "x"}),
        json!({"unknown": 1, "dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": first["apiVersion"], "dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}),
    ] {
        script.delete("widgets/a", &options).await;
    }
    for query in [
        "dryRun=Some",
        "dryRun=All",
        "propagationPolicy=Sideways",
        "orphanDependents=x&dryRun=All",
        "gracePeriodSeconds=x",
        "gracePeriodSeconds=3&dryRun=All",
    ] {
        script.delete(&format!("widgets/a?{query}"), &Value::Null).await;
    }
    script.raw(Method::DELETE, "widgets/a", "application/json", "{\"dryRun\": ").await;
    script.raw(Method::DELETE, "widgets/a", "text/html", "<p>").await;
    let right = json!({"preconditions": {"uid": first["metadata"]["uid"], "resourceVersion": first["metadata"]["resourceVersion"]}});
    script.delete("widgets/a", &right).await;
    script.delete("widgets/a", &Value::Null).await;
    script.end("delete");
}

#[tokio::test]
async fn deletions_of_objects_with_finalizers_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let mut finalized = server.draft("a", json!({"node": "n"}));
    finalized["metadata"]["finalizers"] = json!(["x/one", "x/two"]);
    script.post(WIDGETS, &finalized).await;
    script.delete("widgets/a?dryRun=All", &Value::Null).await;
    script.delete("widgets/a", &json!({"preconditions": {"uid": "other"}})).await;
    script.delete("widgets/a", &Value::Null).await;
    script.delete("widgets/a", &Value::Null).await;
    script.delete("widgets/a", &json!({"gracePeriodSeconds": 30})).await;
    script.post(WIDGETS, &finalized).await;
    for patch in [
        json!({"metadata": {"finalizers": ["x/one", "x/two", "x/new"]}}),
        json!({"metadata": {"finalizers": ["x/new"]}}),
        json!({"metadata": {"deletionTimestamp": null}}),
        json!({"metadata": {"deletionGracePeriodSeconds": null}}),
        json!({"spec": {"count": 5}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["x/two"]}}),
    ] {
        script.patch("widgets/a", MERGE_PATCH, &patch).await;
    }
    script.patch("widgets/a/status", MERGE_PATCH, &json!({"status": {"ready": true}})).await;
    script.patch("widgets/a/status", MERGE_PATCH, &json!({"metadata": {"finalizers": []}})).await;
    script
        .patch("widgets/a?dryRun=All", MERGE_PATCH, &json!({"metadata": {"finalizers": null}}))
        .await;
    script
        .patch(
            "widgets/a",
            MERGE_PATCH,
            &json!({"metadata": {"finalizers": null}, "spec": {"count": 6}}),
        )
        .await;
    script.get("widgets/a").await;
    // An update that removes the last finalizer removes the object, as a patch does.
    script.post(WIDGETS, &finalized).await;
    let mut marked = script.delete("widgets/a", &Value::Null).await;
    marked["metadata"]["finalizers"] = json!([]);
    script.put("widgets/a", &marked).await;
    script.get("widgets/a").await;
    script.end("finalizers");
}

#[tokio::test]
async fn deletions_of_collections_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
        let mut widget = server.draft(name, json!({"node": node}));
        widget["metadata"]["labels"] = json!({"name": name});
        script.post(WIDGETS, &widget).await;
    }
    for query in [
        "fieldSelector=spec.count!%3D1",
        "fieldSelector=nonsense",
        "labelSelector=a,",
        "labelSelector=a%20b",
        "limit=x",
        "dryRun=Some",
        "fieldSelector=spec.node%3Dnone",
        "dryRun=All&labelSelector=name%3Da",
    ] {
        script.delete(&format!("{WIDGETS}?{query}"), &Value::Null).await;
    }
    script.delete(WIDGETS, &json!({"propagationPolicy": "Sideways"})).await;
    script.delete(&format!("{WIDGETS}?fieldSelector=spec.node%3Dn1"), &Value::Null).await;
    script.get(WIDGETS).await;
    script.delete(WIDGETS, &json!({"propagationPolicy": "Background"})).await;
    script.get(WIDGETS).await;
    script.delete("/api/v1/namespaces", &Value::Null).await;
    script.delete(&format!("/apis/{}/v1/widgets", server.group()), &Value::Null).await;
    script.end("delete-collection");
}
