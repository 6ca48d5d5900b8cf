//! Tests of objects, watches and CRDs after the server was restarted.

use crate::client::{object, widgets};
use crate::exchange::{CRDS, WIDGETS};
use crate::server::Server;
use crate::stream::Watch;
use futures::StreamExt;
use kube::api::PostParams;
use serde_json::{Value, json};

#[tokio::test]
async fn a_watch_can_resume_at_a_revision_from_before_a_restart() {
    let server = Server::start().await;
    let api = widgets(&server);
    let first_revision = api
        .create(&PostParams::default(), &object(&server, "a"))
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    api.create(&PostParams::default(), &object(&server, "b")).await.unwrap();
    let server = server.restart();
    let api = widgets(&server);
    api.create(&PostParams::default(), &object(&server, "c")).await.unwrap();
    let events =
        api.watch(&kube::api::WatchParams::default(), &first_revision).await.unwrap().boxed();
    let names: Vec<String> = events
        .take(2)
        .map(|event| match event.unwrap() {
            kube::api::WatchEvent::Added(object) => object.metadata.name.unwrap(),
            other => panic!("{other:?}"),
        })
        .collect()
        .await;
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test]
async fn installing_the_same_crd_again_changes_nothing() {
    let server = Server::start().await;
    let before = server.get(CRDS).await.expect(200);
    let server = server.restart();
    assert_eq!(server.get(CRDS).await.expect(200), before);
}

#[tokio::test]
async fn all_objects_exist_after_a_restart() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    server.widget("b", json!({"node": "n"})).await;
    server.delete(&format!("{WIDGETS}/b"), &Value::Null).await.expect(200);
    let before = server.get(WIDGETS).await.expect(200);
    let server = server.restart();
    assert_eq!(server.get(WIDGETS).await.expect(200), before);
    let next = server.widget("c", json!({"node": "n"})).await;
    let number = |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };
    assert!(number(&next) > number(&before));
}

#[tokio::test]
async fn watches_end_when_the_server_closes() {
    let server = Server::start().await;
    let mut watch = Watch::open(&server, "").await;
    server.api.close();
    assert_eq!(watch.next().await, None);
    server.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await.refused(503);
}

#[tokio::test]
async fn a_deleted_crd_of_the_configuration_comes_back_after_a_restart() {
    let server = Server::start().await;
    server.delete(&server.widget_crd(), &Value::Null).await.expect(200);
    let server = server.restart();
    // The configuration of the server contains the CRD, so the CRD comes back, without objects.
    assert_eq!(server.get(WIDGETS).await.expect(200)["items"], json!([]));
}
