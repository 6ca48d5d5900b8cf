//! Tests of a log that has dropped old changes. A real server's history is shortened only when its operator
//! compacts it, see `tests/kube/compaction.rs`.

use crate::exchange::WIDGETS;
use crate::server::Server;
use crate::stream::{Watch, revision};
use serde_json::json;

#[tokio::test]
async fn a_revision_that_has_left_the_log_is_expired() {
    let server = Server::with_history(8).await;
    let first = server.widget("a", json!({"node": "n"})).await;
    let page = server.get(&format!("{WIDGETS}?limit=1")).await.expect(200);
    for count in 0..20 {
        server.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"count": count}})).await.expect(200);
    }
    let mut watch = Watch::open(&server, &format!("resourceVersion={}", revision(&first))).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, None);
    let exact = format!("{WIDGETS}?resourceVersionMatch=Exact&resourceVersion={}", revision(&page));
    server.get(&exact).await.refused(410);
}

#[tokio::test]
async fn a_watch_without_events_gets_a_bookmark_before_its_revision_leaves_the_log() {
    let server = Server::with_history(40).await;
    let mut watch =
        Watch::open(&server, "allowWatchBookmarks=true&fieldSelector=spec.node%3Dquiet").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
    let noise = async {
        for _ in 0..30 {
            server.post(&server.core("configmaps"), &map).await.expect(201);
        }
    };
    let (event, ()) = futures::join!(watch.next_line(), noise);
    assert_eq!(event, "BOOKMARK -");
}

#[tokio::test]
async fn a_watch_whose_client_reads_too_slowly_ends_with_an_error() {
    let server = Server::with_history(8).await;
    server.widget("a", json!({"node": "n"})).await;
    let mut watch = Watch::open(&server, "").await;
    assert_eq!(watch.next_line().await, "ADDED a");
    for count in 0..20 {
        server.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"count": count}})).await.expect(200);
    }
    // The server encodes one chunk of events before the client asks for it, so one event may still arrive.
    let mut event = watch.next().await.unwrap();
    if event["type"] == "MODIFIED" {
        event = watch.next().await.unwrap();
    }
    assert_eq!((&event["type"], &event["object"]["reason"]), (&json!("ERROR"), &json!("Expired")));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_continue_token_for_a_revision_outside_the_log_is_expired() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let server = Server::with_history(4).await;
    server.widget("a", json!({"node": "n"})).await;
    server.widget("b", json!({"node": "n"})).await;
    let page = server.get(&format!("{WIDGETS}?limit=1")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    for count in 2..9 {
        let spec = json!({"spec": {"count": count}});
        server.merge(&format!("{WIDGETS}/a"), &spec).await.expect(200);
    }
    let refusal = server.get(&format!("{WIDGETS}?limit=1&continue={token}")).await.refused(410);
    assert!(refusal.contains("too old"), "{refusal}");
    let future = URL_SAFE_NO_PAD.encode(r#"{"rv":9999,"ns":"test-namespace","name":"a"}"#);
    server.get(&format!("{WIDGETS}?continue={future}")).await.refused(410);
}

/// A real server waits silently for the revision, for as long as the watch lasts. The embedded server answers
/// that the revision is expired, because the server may have been restored from an older backup and its clients
/// have to list again.
#[tokio::test]
async fn a_watch_from_a_revision_in_the_future_is_expired() {
    let server = Server::start().await;
    let mut watch = Watch::open(&server, "resourceVersion=999999999").await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
}
