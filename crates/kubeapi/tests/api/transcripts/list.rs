use crate::exchange::WIDGETS;
use crate::script::Script;
use crate::server::Server;
use crate::stream::revision;
use serde_json::json;

#[tokio::test]
async fn lists_with_every_option_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    script.get(WIDGETS).await;
    for (name, node, label) in [("a", "n1", "x"), ("b", "n2", "y"), ("c", "n2", "x")] {
        let mut widget = server.draft(name, json!({"node": node}));
        widget["metadata"]["labels"] = json!({"l": label});
        script.post(WIDGETS, &widget).await;
    }
    let last = server.get("widgets/c").await.body;
    let page = server.get(&format!("{WIDGETS}?limit=1")).await.body;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let last_revision = revision(&last).to_owned();
    for query in [
        "",
        "limit=2",
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=",
        "continue=nonsense",
        "resourceVersion=0",
        "resourceVersion=x",
        "resourceVersion=-1",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=Nearly&resourceVersion=5",
        "resourceVersionMatch=NotOlderThan&resourceVersion=0",
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "sendInitialEvents=x",
        "watch=x&timeoutSeconds=1",
        "timeoutSeconds=x",
        "allowWatchBookmarks=true",
        "allowWatchBookmarks=x",
        "watch=0",
        "watch=false",
        "labelSelector=l%20in%20(x)",
        "labelSelector=l%20notin%20(x)",
        "labelSelector=l!%3Dx",
        "labelSelector=l%3D%3Dx",
        "labelSelector=!l",
        "labelSelector=l",
        "labelSelector=l%20in%20()",
        "labelSelector=l%20in%20(",
        "labelSelector=a%20b",
        "labelSelector=a,",
        "labelSelector=,a",
        "labelSelector=l%3E1",
        "labelSelector=l%3Ex",
        "labelSelector=-a%3Db",
        "labelSelector=a%3Db%20c",
        "labelSelector=a/b/c",
        "labelSelector=%3Dx",
        "labelSelector=l%20foo%20x",
        "fieldSelector=spec.node%3Dn2",
        "fieldSelector=spec.node!%3Dn2",
        "fieldSelector=spec.node%3D%3Dn2,metadata.name%3Db",
        "fieldSelector=spec.count%3D1",
        "fieldSelector=nonsense",
        "fieldSelector=metadata.labels%3Dx",
        "fieldSelector=a%3Db%3Dc",
        "fieldSelector=spec.node",
        "fieldSelector=metadata.name%3Da%5C,b",
        "fieldSelector=metadata.namespace%3Delsewhere",
        "labelSelector=l%3Dx&limit=1",
        "limit=1&resourceVersion=0",
        "fieldSelector=",
        "labelSelector=",
        "unknown=1",
        "pretty=true",
    ] {
        script.get(&format!("{WIDGETS}?{query}")).await;
    }
    for query in [
        format!("resourceVersion={last_revision}"),
        format!("resourceVersionMatch=Exact&resourceVersion={last_revision}"),
        format!("resourceVersionMatch=NotOlderThan&resourceVersion={last_revision}"),
        format!("limit=1&resourceVersion={last_revision}"),
        format!("continue={token}"),
        format!("continue={token}&limit=1"),
        format!("continue={token}&resourceVersion={last_revision}"),
        format!("continue={token}&resourceVersion=0"),
        format!(
            "continue={token}&resourceVersionMatch=NotOlderThan&resourceVersion={last_revision}"
        ),
        format!("continue={token}&resourceVersionMatch=Exact"),
    ] {
        let answer = server.get(&format!("{WIDGETS}?{query}")).await;
        script.note(&query.replace(&last_revision, "THERE").replace(&token, "TOKEN"), &answer);
    }
    script.get("widgets/a?resourceVersion=0").await;
    script.get("widgets/a?resourceVersion=x").await;
    script.get("widgets/a?fieldSelector=nonsense").await;
    script.get("widgets/zz").await;
    script.end("list");
}

#[tokio::test]
async fn known_and_unknown_paths_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let group = server.group().to_owned();
    for path in [
        "/nope",
        "/apis/none.example",
        "/apis/none.example/v1",
        "/apis/none.example/v1/things",
        "/api/v2",
        "/api/v1/nothings",
        "/api/v1/nothings/a",
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/none/configmaps",
        "/api/v1/namespaces/none/configmaps/a",
        "/api/v1/namespaces/none",
    ] {
        script.get(path).await;
    }
    for path in ["nothings", "widgets/a/scale", "widgets/a/nothing", "widgets/a/status/more"] {
        script.get(path).await;
    }
    for path in [
        "",
        "/v2",
        "/v2/widgets",
        "/v1/nothings",
        "/v1/widgets/a",
        "/v1/namespaces/none/widgets",
        "/v1/namespaces/none/widgets/a",
    ] {
        script.get(&format!("/apis/{group}{path}")).await;
    }
    let maps = server.core("configmaps");
    script.get(&format!("{maps}/a/status")).await;
    script.post(&format!("{maps}/a"), &json!({})).await;
    script.put(&maps, &json!({})).await;
    script.post("/api/v1/configmaps", &json!({})).await;
    script.post("widgets/a", &json!({})).await;
    script.put("/version", &json!({})).await;
    script.delete("/api/v1", &json!({})).await;
    script.get("/api").await;
    script.end("paths");
}
