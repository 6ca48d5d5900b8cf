use crate::exchange::{JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, WIDGETS};
use crate::script::Script;
use crate::server::Server;
use http::Method;
use serde_json::json;

#[tokio::test]
async fn merge_patches_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let first = script.post(WIDGETS, &server.draft("a", json!({"node": "n", "mode": "on"}))).await;
    for patch in [
        json!({}),
        json!({"spec": {"count": 1}}),
        json!({"spec": {"count": 2, "mode": null}}),
        json!({"spec": {"count": null}}),
        json!({"spec": {"typo": 1}}),
        json!({"spec": {"free": {"a": {"b": null, "c": 1}}}}),
        json!({"spec": null}),
        json!({"spec": [1]}),
        json!({"metadata": {"labels": {"a": "b", "c": null}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"labels": "x"}}),
        json!({"metadata": {"name": "b"}}),
        json!({"metadata": {"namespace": "b"}}),
        json!({"metadata": {"uid": "b"}}),
        json!({"metadata": null}),
        json!({"metadata": {"resourceVersion": "1"}}),
        json!({"metadata": {"resourceVersion": null}, "spec": {"count": 6}}),
        json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "spec": {"count": 7}}),
        json!({"metadata": {"creationTimestamp": null, "generation": 77}}),
        json!({"kind": "Gadget"}),
        json!({"apiVersion": "v1"}),
        json!({"kind": null}),
        json!({"status": {"ready": true}}),
        json!({"spec": {"node": "m"}}),
        json!({"spec": {"items": [{"name": "i"}]}}),
        json!([1]),
        json!("x"),
        json!(null),
    ] {
        script.raw(Method::PATCH, "widgets/a", MERGE_PATCH, &patch.to_string()).await;
    }
    let typo = json!({"spec": {"typo": 1}});
    for query in [
        "fieldValidation=Strict",
        "fieldValidation=Ignore",
        "fieldValidation=Nearly",
        "dryRun=All",
        "dryRun=Some",
        "fieldManager=me",
        "force=true",
    ] {
        script.patch(&format!("widgets/a?{query}"), MERGE_PATCH, &typo).await;
    }
    script.patch("widgets/zz", MERGE_PATCH, &json!({"spec": {"count": 3}})).await;
    script.patch(WIDGETS, MERGE_PATCH, &json!({})).await;
    script.raw(Method::PATCH, "widgets/a", MERGE_PATCH, "{\"spec\": ").await;
    script.raw(Method::PATCH, "widgets/a", MERGE_PATCH, "").await;
    script.patch("widgets/a", STRATEGIC_PATCH, &json!({})).await;
    script.patch("widgets/a", "text/plain", &json!({})).await;
    script.patch("widgets/a", "application/json", &json!({})).await;
    script.get("widgets/a").await;
    script.end("merge-patch");
}

#[tokio::test]
async fn json_patches_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    script.post(WIDGETS, &server.draft("a", json!({"node": "n", "items": [{"name": "i"}]}))).await;
    for patch in [
        json!([]),
        json!([{"op": "test", "path": "/spec/node", "value": "n"}]),
        json!([{"op": "test", "path": "/spec/node", "value": "x"}]),
        json!([{"op": "test", "path": "/spec/absent", "value": null}]),
        json!([{"op": "test", "path": "/spec/absent", "value": 1}]),
        json!([{"op": "replace", "path": "/spec/count", "value": 5}]),
        json!([{"op": "replace", "path": "/spec/absent", "value": 5}]),
        json!([{"op": "replace", "path": "/spec/count", "value": 6}, {"op": "test", "path": "/spec/node", "value": "x"}]),
        json!([{"op": "add", "path": "/spec/items/-", "value": {"name": "j"}}]),
        json!([{"op": "add", "path": "/spec/items/0", "value": {"name": "h"}}]),
        json!([{"op": "add", "path": "/spec/items/9", "value": {"name": "h"}}]),
        json!([{"op": "add", "path": "/spec/absent/x", "value": 1}]),
        json!([{"op": "remove", "path": "/spec/items/1"}]),
        json!([{"op": "remove", "path": "/spec/absent"}]),
        json!([{"op": "remove", "path": "/spec"}]),
        json!([{"op": "copy", "from": "/spec/node", "path": "/spec/note"}]),
        json!([{"op": "move", "from": "/spec/note", "path": "/spec/mode"}]),
        json!([{"op": "copy", "from": "/spec/absent", "path": "/spec/note"}]),
        json!([{"op": "jump"}]),
        json!([{"op": "add", "path": "spec"}]),
        json!([{"op": "add", "path": "/spec/note"}]),
        json!([{"op": "replace", "path": "", "value": {}}]),
        json!([1]),
        json!({"op": "add"}),
        json!([{"op": "replace", "path": "/metadata/name", "value": "b"}]),
        json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]),
        json!([{"op": "add", "path": "/metadata/labels", "value": {"a~b": "x"}}]),
        json!([{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "x"}}]),
        json!([{"op": "replace", "path": "/metadata/annotations/a~1b", "value": "y"}]),
        json!([{"op": "add", "path": "/spec/typo", "value": "y"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "x/y"}]),
        json!([{"op": "add", "path": "/status", "value": {"ready": true}}]),
    ] {
        script.patch("widgets/a", JSON_PATCH, &patch).await;
    }
    script
        .patch(
            "widgets/a/status",
            JSON_PATCH,
            &json!([{"op": "add", "path": "/status", "value": {"ready": true}}]),
        )
        .await;
    script
        .patch(
            "widgets/a/status",
            JSON_PATCH,
            &json!([{"op": "replace", "path": "/spec/count", "value": 55}]),
        )
        .await;
    script.patch("widgets/zz", JSON_PATCH, &json!([])).await;
    script.get("widgets/a").await;
    script.end("json-patch");
}
