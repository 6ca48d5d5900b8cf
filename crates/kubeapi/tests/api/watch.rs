//! Tests of watches: order, resumption, selectors, bookmarks, expiry.

use crate::exchange::WIDGETS;
use crate::server::Server;
use crate::stream::{Watch, revision};
use serde_json::{Value, json};

#[tokio::test]
async fn a_watch_without_revision_starts_with_the_existing_objects() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let mut watch = Watch::open(&server, "").await;
    assert_eq!(watch.next_line().await, "ADDED a");
    server.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"count": 2}})).await.expect(200);
    server.delete(&format!("{WIDGETS}/a"), &Value::Null).await.expect(200);
    assert_eq!(watch.next_line().await, "MODIFIED a");
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["spec"]["count"]), (&json!("DELETED"), &json!(2)));
}

#[tokio::test]
async fn a_watch_can_send_the_existing_objects_and_then_a_bookmark() {
    let server = Server::start().await;
    let object = server.widget("a", json!({"node": "n"})).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Watch::open(&server, query).await;
    assert_eq!(watch.next_line().await, "ADDED a");
    let mark = watch.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let number = |object: &Value| revision(object).parse::<u64>().unwrap();
    assert!(number(&mark["object"]) >= number(&object));
    server.get(&format!("{WIDGETS}?watch=true&sendInitialEvents=true")).await.refused(422);
}

#[tokio::test]
async fn an_object_that_leaves_the_selector_is_reported_as_deleted() {
    let server = Server::start().await;
    let mut watch = Watch::open(&server, "labelSelector=a%3Db").await;
    server.widget("a", json!({"node": "n"})).await;
    let label = |value: Value| json!({"metadata": {"labels": {"a": value}}});
    for value in [json!("b"), json!("c"), json!("b")] {
        server.merge(&format!("{WIDGETS}/a"), &label(value)).await.expect(200);
    }
    server.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"count": 3}})).await.expect(200);
    server.delete(&format!("{WIDGETS}/a"), &Value::Null).await.expect(200);
    for expected in ["ADDED a", "DELETED a", "ADDED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(watch.next_line().await, expected);
    }
}

#[tokio::test]
async fn the_removal_of_the_last_finalizer_is_one_event() {
    let server = Server::start().await;
    let mut body = server.draft("a", json!({"node": "n"}));
    body["metadata"]["finalizers"] = json!(["x/y"]);
    server.post(WIDGETS, &body).await.expect(201);
    let mut watch = Watch::open(&server, "fieldSelector=metadata.name%3Da").await;
    server.delete(&format!("{WIDGETS}/a"), &Value::Null).await.expect(200);
    server
        .merge(&format!("{WIDGETS}/a"), &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    for expected in ["ADDED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(watch.next_line().await, expected);
    }
}

#[tokio::test]
async fn every_event_comes_once_and_in_order() {
    let server = Server::start().await;
    let start = server.widget("start", json!({"node": "n"})).await;
    let names: Vec<String> = (0..300).map(|index| format!("w{index:03}")).collect();
    let write = futures::future::join_all(
        names.iter().map(|name| server.widget(name, json!({"node": "n"}))),
    );
    let (_, received) = futures::join!(write, followed(&server, &start, names.len()));
    let revisions: Vec<u64> =
        received.iter().map(|object| revision(object).parse().unwrap()).collect();
    assert!(revisions.is_sorted_by(|a, b| a < b));
    let mut listed: Vec<&str> =
        received.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(listed, names);
}

/// Returns the next `count` objects that a watch delivers from the revision of the object `after` on. If the server
/// ends the watch early, opens another one at the last revision: kube-apiserver ends a watch whose client reads too
/// slowly (`forget` in its watch cache). A watch that ends without any event fails the test.
async fn followed(server: &Server, after: &Value, count: usize) -> Vec<Value> {
    let mut received = vec![after.clone()];
    while received.len() <= count {
        let from = revision(received.last().unwrap()).to_owned();
        let mut watch = Watch::open(server, &format!("resourceVersion={from}")).await;
        let before = received.len();
        while received.len() <= count
            && let Some(event) = watch.next().await
        {
            received.push(event["object"].clone());
        }
        assert!(received.len() > before, "a watch from {from} ended without an event");
    }
    received.split_off(1)
}

#[tokio::test]
async fn a_watch_ends_at_its_time_limit() {
    let server = Server::start().await;
    let mut watch = Watch::open(&server, "timeoutSeconds=5&allowWatchBookmarks=true").await;
    let mut bookmarks = 0;
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        bookmarks += 1;
    }
    assert!(bookmarks > 0);
}

#[tokio::test]
async fn the_watches_of_a_kind_end_when_its_crd_changes() {
    let server = Server::alone().await;
    server.widget("a", json!({"node": "n"})).await;
    let mut watch = Watch::open(&server, "").await;
    assert_eq!(watch.next_line().await, "ADDED a");
    let mut crd = server.crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["extra"] =
        json!({"type": "string"});
    server.merge(&server.widget_crd(), &json!({"spec": crd["spec"]})).await.expect(200);
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_watch_with_initial_events_at_a_future_revision_gets_an_error_event_with_code_504() {
    let server = Server::start().await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999";
    let event = server.get(&format!("{WIDGETS}?{query}&timeoutSeconds=10")).await.expect(200);
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(504)));
    assert!(
        event["object"]["message"].to_string().contains("Too large resource version"),
        "{event}"
    );
}
