//! Tests of a backup of all objects, and of the server that is restored from it.

use crate::exchange::WIDGETS;
use crate::server::{SHARED, Server};
use crate::stream::{Watch, revision};
use http::Method;
use http_body_util::BodyExt;
use kubeapi::{RestoreError, restore};
use serde_json::{Value, json};
use tempfile::TempDir;

async fn backup(server: &Server) -> Vec<u8> {
    let answer = server.send(server.request(Method::GET, "/backup", "", b"")).await;
    assert_eq!(answer.status(), 200);
    answer.into_body().collect().await.unwrap().to_bytes().to_vec()
}

/// Returns a server with various objects: custom resources, an object with a status, objects with finalizers and
/// owners, and an object that is being deleted.
async fn filled() -> Server {
    let server = Server::start().await;
    let owner = server.widget("a", json!({"node": "n", "count": 3})).await;
    let mut dependent = server.draft("b", json!({"node": "ö\u{2028}\""}));
    dependent["metadata"]["finalizers"] = json!(["x.io/keep"]);
    dependent["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": "a", "uid": owner["metadata"]["uid"]}]);
    server.post(WIDGETS, &dependent).await.expect(201);
    server
        .merge(&format!("{WIDGETS}/b/status"), &json!({"status": {"ready": true}}))
        .await
        .expect(200);
    server.delete(&format!("{WIDGETS}/b"), &Value::Null).await.expect(200);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}});
    server.post(&server.core("secrets"), &secret).await.expect(201);
    for index in 0..40 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{index}")},
            "data": {"v": "x".repeat(5000)}});
        server.post(&server.core("configmaps"), &map).await.expect(201);
    }
    server
}

/// Returns the items of every kind that [`filled`] creates.
async fn everything(server: &Server) -> Vec<Value> {
    let mut items = Vec::new();
    for path in [
        WIDGETS.to_owned(),
        server.core("secrets"),
        server.core("configmaps"),
        "/api/v1/namespaces".to_owned(),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
    ] {
        items.push(server.get(&path).await.expect(200)["items"].clone());
    }
    items
}

#[tokio::test]
async fn a_restored_server_has_the_objects_of_the_backup() {
    let server = filled().await;
    let before = everything(&server).await;
    let list = server.get(WIDGETS).await.expect(200);
    let text = backup(&server).await;
    server.widget("later", json!({"node": "n"})).await;
    let directory = TempDir::new().unwrap();
    let restored = restore(directory.path(), text.as_slice()).unwrap();
    assert_eq!(restored.objects, text.split(|byte| *byte == b'\n').count() - 3);
    let server = Server::open(directory, 100, SHARED);
    assert_eq!(everything(&server).await, before);
    // A client that knows a later revision than the backup has to list again.
    let mut watch = Watch::open(&server, &format!("resourceVersion={}", revision(&list))).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    let finalizers = json!({"metadata": {"finalizers": null}});
    server.merge(&format!("{WIDGETS}/b"), &finalizers).await.expect(200);
    server.get(&format!("{WIDGETS}/b")).await.refused(404);
    let server = server.restart();
    assert_eq!(server.get(WIDGETS).await.expect(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_truncated_or_changed_backup_restores_nothing() {
    let text = backup(&filled().await).await;
    let ends = [0, 1, text.len() / 2, text.len() - 3];
    let mut damaged: Vec<Vec<u8>> = ends.iter().map(|end| text[..*end].to_vec()).collect();
    let whole = String::from_utf8(text.clone()).unwrap();
    damaged.push(whole.replacen("xxxx", "xxyx", 1).into_bytes());
    damaged.push(whole.replacen("\"backup\":1", "\"backup\":2", 1).into_bytes());
    let lines: Vec<&str> = whole.lines().collect();
    damaged.push([&lines[..3], &lines[4..]].concat().join("\n").into_bytes());
    for text in damaged {
        let directory = TempDir::new().unwrap();
        let error = restore(directory.path(), text.as_slice()).unwrap_err();
        assert!(!matches!(error, RestoreError::Make(_) | RestoreError::Exists { .. }), "{error:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn restoring_a_backup_never_replaces_an_existing_store() {
    let server = filled().await;
    let before = everything(&server).await;
    let text = backup(&server).await;
    let restored = restore(server.directory.path(), text.as_slice());
    assert!(
        matches!(restored, Err(RestoreError::Make(_))),
        "the server still uses the directory: {restored:?}"
    );
    server.api.close();
    let restored = restore(server.directory.path(), text.as_slice());
    assert!(matches!(restored, Err(RestoreError::Exists { .. })), "{restored:?}");
    assert_eq!(everything(&server.restart()).await, before);
}
