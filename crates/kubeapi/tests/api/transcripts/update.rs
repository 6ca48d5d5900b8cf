use crate::exchange::{MERGE_PATCH, WIDGETS};
use crate::script::Script;
use crate::server::Server;
use serde_json::{Value, json};

#[tokio::test]
async fn replacements_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let first = script.post(WIDGETS, &server.draft("a", json!({"node": "n", "mode": "on"}))).await;
    let changed = |path: &[&str], value: Value| {
        let mut object = first.clone();
        let mut at = &mut object;
        for part in path {
            at = &mut at[*part];
        }
        *at = value;
        object
    };
    script.put("widgets/a", &first).await;
    script.put("widgets/a", &changed(&["metadata", "name"], json!("b"))).await;
    script.put("widgets/a", &changed(&["metadata", "namespace"], json!("other"))).await;
    script.put("widgets/a", &changed(&["metadata", "namespace"], Value::Null)).await;
    script.put("widgets/a", &changed(&["metadata", "uid"], json!("other"))).await;
    script.put("widgets/a", &changed(&["metadata", "resourceVersion"], json!("1"))).await;
    script.put("widgets/a", &changed(&["metadata", "resourceVersion"], json!("x"))).await;
    script
        .put(
            "widgets/a",
            &changed(&["metadata", "creationTimestamp"], json!("2001-01-01T00:00:00Z")),
        )
        .await;
    script
        .put(
            "widgets/a",
            &changed(&["metadata", "deletionTimestamp"], json!("2001-01-01T00:00:00Z")),
        )
        .await;
    script.put("widgets/a", &changed(&["metadata", "generation"], json!(9))).await;
    script.put("widgets/a", &changed(&["metadata", "generateName"], json!("w-"))).await;
    script.put("widgets/a", &changed(&["spec", "node"], json!("m"))).await;
    script.put("widgets/a", &changed(&["spec", "count"], json!("x"))).await;
    script.put("widgets/a", &changed(&["kind"], json!("Gadget"))).await;
    script.put("widgets/b", &server.draft("b", json!({"node": "n"}))).await;
    script.put(WIDGETS, &first).await;
    let mut bare = server.draft("a", json!({"node": "n"}));
    bare["metadata"]["labels"] = json!({"l": "x"});
    script.put("widgets/a", &bare).await;
    bare["metadata"]["resourceVersion"] = json!("");
    bare["spec"]["count"] = json!(4);
    script.put("widgets/a?fieldManager=me", &bare).await;
    script.put("widgets/a", &first).await;
    script.get("widgets/a").await;
    bare["spec"]["typo"] = json!(4);
    script.put("widgets/a?fieldValidation=Strict", &bare).await;
    script.put("widgets/a?dryRun=All", &bare).await;
    script.put("widgets/a?dryRun=Some", &bare).await;
    script.end("update");
}

#[tokio::test]
async fn writes_of_status_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let first = script.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await;
    let mut put = first.clone();
    put["status"] = json!({"ready": true});
    put["spec"]["count"] = json!(9);
    put["metadata"]["labels"] = json!({"a": "b"});
    put["metadata"]["finalizers"] = json!(["x/y"]);
    put["metadata"]["annotations"] = json!({"x": "y"});
    script.put("widgets/a/status", &put).await;
    script.put("widgets/a/status", &put).await;
    for patch in [
        json!({"status": {"ready": false}, "spec": {"count": 7}, "metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]}}),
        json!({"status": {"ready": "x"}}),
        json!({"status": {"unknown": 1}}),
        json!({"status": null}),
        json!({"status": {"ready": null}}),
        json!({"status": {}}),
        json!({"status": "x"}),
        json!({"metadata": {"resourceVersion": "1"}, "status": {"ready": true}}),
        json!({"metadata": {"name": "b"}}),
        json!({"spec": {"node": "m"}}),
        json!({"spec": {"node": ""}, "status": {"ready": true}}),
        json!({"metadata": {"annotations": {"x": "y"}, "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}]}}),
    ] {
        script.patch("widgets/a/status", MERGE_PATCH, &patch).await;
    }
    script.get("widgets/a/status").await;
    script.patch("widgets/zz/status", MERGE_PATCH, &json!({"status": {"ready": true}})).await;
    script.delete("widgets/a/status", &Value::Null).await;
    script.post("widgets/a/status", &first).await;
    script.get("widgets/a/scale").await;
    script.end("status");
}
