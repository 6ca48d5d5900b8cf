//! Tests of CustomResourceDefinitions that are created, changed and deleted while the server runs.

use crate::exchange::{CRDS, WIDGETS};
use crate::server::Server;
use serde_json::{Value, json};

pub(crate) fn gadgets(server: &Server) -> Value {
    let mut gadgets = server.crd();
    gadgets["metadata"]["name"] = json!(format!("gadgets.{}", server.group()));
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    gadgets["spec"]["scope"] = json!("Cluster");
    gadgets
}

#[tokio::test]
async fn a_kind_is_served_until_its_crd_is_deleted() {
    let server = Server::alone().await;
    let path = format!("/apis/{}/v1/gadgets", server.group());
    let path = path.as_str();
    assert_eq!(server.get(path).await.code, 404);
    server.post(CRDS, &gadgets(&server)).await.expect(201);
    let definition = format!("{CRDS}/gadgets.{}", server.group());
    server
        .eventually("gadgets are established", async || {
            let status = server.get(&definition).await.expect(200)["status"].clone();
            let conditions = status["conditions"].to_string();
            status["acceptedNames"]["listKind"] == "GadgetList"
                && ["Established", "NamesAccepted"].iter().all(|kind| conditions.contains(kind))
        })
        .await;
    server.eventually("gadgets are served", async || server.get(path).await.code == 200).await;
    let mut gadget = server.draft("g", json!({"node": "n"}));
    gadget["kind"] = json!("Gadget");
    gadget["metadata"]["finalizers"] = json!(["x/hold"]);
    server.post(path, &gadget).await.expect(201);

    server.delete(&definition, &Value::Null).await.expect(200);
    gadget["metadata"] = json!({"name": "late"});
    server
        .eventually("no more gadgets are accepted", async || {
            let answer = server.post(&format!("{path}?dryRun=All"), &gadget).await;
            answer.code == 403 && answer.refused(403).contains("terminating")
        })
        .await;
    let object_path = format!("{path}/g");
    server.merge(&object_path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    server.wait_until_gone(path).await;
    server.wait_until_gone(&definition).await;
}

#[tokio::test]
async fn existing_objects_show_a_default_that_the_schema_got_later() {
    let server = Server::alone().await;
    server.widget("a", json!({"node": "n"})).await;
    let mut changed = server.crd();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["added"] = json!({"type": "string", "default": "new"});
    server.merge(&server.widget_crd(), &json!({"spec": changed["spec"]})).await.expect(200);
    let path = format!("{WIDGETS}/a");
    let added = async || server.get(&path).await.body["spec"]["added"] == "new";
    server.eventually("the new default shows", added).await;
}

#[tokio::test]
async fn finalizers_can_be_removed_from_an_object_that_a_new_schema_forbids() {
    let server = Server::alone().await;
    let mut body = server.draft("a", json!({"node": "n", "count": 9}));
    body["metadata"]["finalizers"] = json!(["x/hold"]);
    server.post(WIDGETS, &body).await.expect(201);
    let mut changed = server.crd();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["count"]["maximum"] = json!(5);
    server.merge(&server.widget_crd(), &json!({"spec": changed["spec"]})).await.expect(200);
    let path = format!("{WIDGETS}/a?dryRun=All");
    let refused = async || server.merge(&path, &json!({"spec": {"count": 8}})).await.code == 422;
    server.eventually("the new limit holds", refused).await;
    server.delete(&format!("{WIDGETS}/a"), &Value::Null).await.expect(200);
    server
        .merge(&format!("{WIDGETS}/a"), &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    server.get(&format!("{WIDGETS}/a")).await.refused(404);
}

#[tokio::test]
async fn a_crd_with_unsupported_features_is_refused() {
    let server = Server::alone().await;
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let cases = [
        (format!("{schema}/type"), json!("thing")),
        (format!("{schema}/properties/node"), json!({"type": "string", "pattern": "("})),
        ("/spec/versions/0/schema".to_owned(), Value::Null),
        ("/spec/versions/0/additionalPrinterColumns/0/jsonPath".to_owned(), json!("spec.node")),
        ("/spec/names/plural".to_owned(), json!("gizmos")),
        ("/spec/versions/0/storage".to_owned(), json!(false)),
        ("/spec/scope".to_owned(), json!("World")),
    ];
    for (pointer, value) in cases {
        let mut crd = gadgets(&server);
        *crd.pointer_mut(&pointer).unwrap() = value;
        server.post(CRDS, &crd).await.refused(422);
    }
}

#[tokio::test]
async fn scope_and_kind_of_a_crd_are_immutable_but_its_short_names_can_change() {
    let server = Server::alone().await;
    let widgets = server.widget_crd();
    server.widget("a", json!({"node": "n"})).await;
    let refusal = server.merge(&widgets, &json!({"spec": {"scope": "Cluster"}})).await.refused(422);
    assert!(
        refusal.contains("spec.scope: Invalid value: \"Cluster\": field is immutable"),
        "{refusal}"
    );
    let refusal =
        server.merge(&widgets, &json!({"spec": {"names": {"kind": "Gizmo"}}})).await.refused(422);
    assert!(refusal.contains("spec.names.kind"), "{refusal}");
    server.merge(&widgets, &json!({"spec": {"names": {"shortNames": ["w"]}}})).await.expect(200);
    assert_eq!(server.get(&format!("{WIDGETS}/a")).await.expect(200)["kind"], "Widget");
}

#[tokio::test]
async fn the_namespace_in_the_body_of_a_cluster_scoped_object_is_dropped() {
    let server = Server::alone().await;
    let name = format!("{}-n", server.namespace());
    let path = format!("/api/v1/namespaces/{name}");
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": "default"}});
    let created = server.post("/api/v1/namespaces", &namespace).await.expect(201);
    assert_eq!(created["metadata"].get("namespace"), None);
    namespace["metadata"]["labels"] = json!({"a": "b"});
    let put = server.put(&path, &namespace).await.expect(200);
    assert_eq!(put["metadata"].get("namespace"), None);
    let merged = server.merge(&path, &namespace).await.expect(200);
    assert_eq!(merged, put);
}
