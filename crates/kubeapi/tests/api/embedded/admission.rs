//! Tests of the admission functions, which the program that opens an API provides.

use crate::exchange::WIDGETS;
use crate::server::{SHARED, Server};
use kubeapi::{Admission, Change, Status};
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, channel};

/// Returns a server that reports each change of a widget, and refuses changes that concern the node `forbidden`.
fn server() -> (Server, Receiver<String>) {
    let (sender, changes) = channel();
    let admit = move |change: Change<'_>| {
        if change.resource != "widgets" {
            return Ok(());
        }
        let node = |object: Option<&Value>| match object {
            Some(object) => object["spec"]["node"].to_string(),
            None => "none".to_owned(),
        };
        let (old, new) = (node(change.old), node(change.new));
        let part = change.subresource.unwrap_or("whole");
        sender.send(format!("{} {:?} {part} {old} {new}", change.user, change.operation)).unwrap();
        match (old + &new).contains("forbidden") {
            true => Err(Status::new(403, "Forbidden", "not this node")),
            false => Ok(()),
        }
    };
    let (directory, admission) = (tempfile::tempdir().unwrap(), Admission::new(admit));
    (Server::open_with(directory, 100, SHARED, admission), changes)
}

#[tokio::test]
async fn every_change_of_a_client_is_admitted_before_it_is_stored() {
    let (server, changes) = server();
    let server = server.with_namespace().await;
    let widget = server.widget("a", json!({"node": "n"})).await;
    server.merge("widgets/a/status", &json!({"status": {"ready": true}})).await.expect(200);
    server.merge("widgets/a", &json!({"spec": {"node": "n"}})).await.expect(200);
    server.delete("widgets/a", &json!(null)).await.expect(200);
    server.post(WIDGETS, &server.draft("b", json!({"node": "forbidden"}))).await.refused(403);
    server.get("widgets/b").await.refused(404);
    // The server does not call the admission function for an invalid object.
    server.post(WIDGETS, &server.draft("b", json!({"node": 3}))).await.refused(422);
    let expected = [
        r#"test Create whole none "n""#,
        r#"test Update status "n" "n""#,
        r#"test Update whole "n" "n""#,
        r#"test Delete whole "n" none"#,
        r#"test Create whole none "forbidden""#,
    ];
    assert_eq!(changes.try_iter().collect::<Vec<_>>(), expected, "{widget}");
}

#[tokio::test]
async fn a_refused_delete_leaves_the_object() {
    let directory = tempfile::tempdir().unwrap();
    let admission = Admission::new(|change| match (change.resource, change.new) {
        ("widgets", None) => Err(Status::new(403, "Forbidden", "widgets stay")),
        _ => Ok(()),
    });
    let server = Server::open_with(directory, 100, SHARED, admission).with_namespace().await;
    server.widget("a", json!({"node": "n"})).await;
    assert_eq!(server.delete("widgets/a", &json!(null)).await.refused(403), "widgets stay");
    assert_eq!(server.delete(WIDGETS, &json!(null)).await.refused(403), "widgets stay");
    server.get("widgets/a").await.expect(200);
}

#[tokio::test]
async fn a_new_object_is_completed_before_it_is_validated_and_admitted() {
    let directory = tempfile::tempdir().unwrap();
    let admission = Admission::new(|change| match change.new {
        Some(new) if change.resource == "widgets" && new["spec"]["node"] != "completed" => {
            Err(Status::new(403, "Forbidden", "it is not complete"))
        }
        _ => Ok(()),
    });
    let admission = admission.completing(|change| {
        let mut new = change.new.filter(|_| change.resource == "widgets")?.clone();
        new["spec"]["node"] = "completed".into();
        new["metadata"]["name"] = "other".into();
        Some(new)
    });
    let server = Server::open_with(directory, 100, SHARED, admission).with_namespace().await;
    let stored = server.widget("a", json!({"node": 3})).await;
    assert_eq!(stored["spec"]["node"], "completed");
    assert_eq!(stored["metadata"]["name"], "a", "the completion cannot change metadata");
    let changed = server.merge("widgets/a", &json!({"spec": {"node": "changed"}})).await;
    assert_eq!(changed.refused(403), "it is not complete", "only new objects are completed");
}
