use crate::exchange::{MERGE_PATCH, WIDGETS};
use crate::script::Script;
use crate::server::Server;
use crate::stream::{Watch, revision};
use serde_json::{Value, json};

#[tokio::test]
async fn watches_send_the_recorded_events() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let first = script.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await;
    let from = revision(&first).to_owned();
    let mut all = Watch::open(&server, &format!("resourceVersion={from}")).await;
    let mut on_n =
        Watch::open(&server, &format!("resourceVersion={from}&fieldSelector=spec.node%3Dn")).await;
    let mut labelled =
        Watch::open(&server, &format!("resourceVersion={from}&labelSelector=l%3Dx")).await;
    let mut named =
        Watch::open(&server, &format!("resourceVersion={from}&fieldSelector=metadata.name%3Db"))
            .await;
    script.post(WIDGETS, &server.draft("b", json!({"node": "m"}))).await;
    script.patch("widgets/a", MERGE_PATCH, &json!({"metadata": {"labels": {"l": "x"}}})).await;
    script.patch("widgets/a", MERGE_PATCH, &json!({"spec": {"count": 2}})).await;
    script.patch("widgets/a/status", MERGE_PATCH, &json!({"status": {"ready": true}})).await;
    script.patch("widgets/a/status", MERGE_PATCH, &json!({"status": {"ready": true}})).await;
    script.patch("widgets/a", MERGE_PATCH, &json!({"metadata": {"labels": {"l": "y"}}})).await;
    script
        .patch(
            "widgets/a",
            MERGE_PATCH,
            &json!({"metadata": {"labels": {"l": "x"}, "finalizers": ["x/hold"]}}),
        )
        .await;
    script.delete("widgets/a", &Value::Null).await;
    script.patch("widgets/a", MERGE_PATCH, &json!({"metadata": {"finalizers": null}})).await;
    script.delete("widgets/b", &Value::Null).await;
    script.events("all", &mut all, 9).await;
    script.events("on n", &mut on_n, 7).await;
    script.events("labelled", &mut labelled, 6).await;
    script.events("named", &mut named, 2).await;
    script.end("watch");
}

#[tokio::test]
async fn watches_begin_with_the_recorded_events() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    script.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await;
    script.post(WIDGETS, &server.draft("b", json!({"node": "m"}))).await;
    let initial =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for (query, count) in [
        ("", 2),
        ("resourceVersion=0", 2),
        (initial, 3),
        (&format!("{initial}&resourceVersion=0"), 3),
        (&format!("{initial}&fieldSelector=spec.node%3Dm"), 2),
    ] {
        let mut watch = Watch::open(&server, query).await;
        script.events(query, &mut watch, count).await;
    }
    for query in [
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Exact&resourceVersion=5",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "resourceVersion=x",
        "resourceVersion=-1",
        "fieldSelector=spec.count%3D1",
        "labelSelector=a,",
        "sendInitialEvents=x",
        "continue=x",
    ] {
        script.get(&format!("{WIDGETS}?watch=true&timeoutSeconds=1&{query}")).await;
    }
    let forms = [
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ];
    for accept in forms {
        for query in ["", initial] {
            let mut watch = Watch::open_as(&server, query, accept).await;
            let count = if query.is_empty() { 2 } else { 3 };
            script.events(&format!("{accept} {query}"), &mut watch, count).await;
        }
    }
    script.end("watch-beginnings");
}
