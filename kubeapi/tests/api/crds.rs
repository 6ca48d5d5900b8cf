//! CustomResourceDefinitions at run time.

use crate::exchange::{CRDS, WIDGETS};
use crate::server::Server;
use serde_json::{Value, json};

fn gadgets(server: &Server) -> Value {
    let mut gadgets = server.crd();
    gadgets["metadata"]["name"] = json!(format!("gadgets.{}", server.group()));
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    gadgets["spec"]["scope"] = json!("Cluster");
    gadgets
}

#[tokio::test]
async fn a_kind_lives_and_dies_with_its_crd() {
    let server = Server::alone().await;
    let path = format!("/apis/{}/v1/gadgets", server.group());
    let path = path.as_str();
    server.get(path).await.refused(404);
    let made = server.post(CRDS, &gadgets(&server)).await.expect(201);
    let conditions = made["status"]["conditions"].to_string();
    assert!(conditions.contains("Established") && conditions.contains("NamesAccepted"), "{made}");
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "GadgetList");
    let mut gadget = server.draft("g", json!({"node": "n"}));
    gadget["kind"] = json!("Gadget");
    gadget["metadata"]["finalizers"] = json!(["x/hold"]);
    server.post(path, &gadget).await.expect(201);

    server.delete(&format!("{CRDS}/gadgets.{}", server.group()), &Value::Null).await.expect(200);
    gadget["metadata"] = json!({"name": "late"});
    assert!(server.post(path, &gadget).await.refused(405).contains("terminating"));
    server
        .merge(&format!("{path}/g"), &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    server.get(path).await.refused(404);
    server.get(&format!("{CRDS}/gadgets.{}", server.group())).await.refused(404);
}

#[tokio::test]
async fn a_changed_schema_shows_in_old_objects() {
    let server = Server::alone().await;
    server.widget("a", json!({"node": "n"})).await;
    let mut changed = server.crd();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["added"] = json!({"type": "string", "default": "new"});
    server.merge(&server.widget_crd(), &json!({"spec": changed["spec"]})).await.expect(200);
    assert_eq!(server.get(&format!("{WIDGETS}/a")).await.expect(200)["spec"]["added"], "new");
}

#[tokio::test]
async fn what_became_invalid_can_still_be_finalized() {
    let server = Server::alone().await;
    let mut body = server.draft("a", json!({"node": "n", "count": 9}));
    body["metadata"]["finalizers"] = json!(["x/hold"]);
    server.post(WIDGETS, &body).await.expect(201);
    let mut changed = server.crd();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["count"]["maximum"] = json!(5);
    server.merge(&server.widget_crd(), &json!({"spec": changed["spec"]})).await.expect(200);
    server.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"count": 8}})).await.refused(422);
    server.delete(&format!("{WIDGETS}/a"), &Value::Null).await.expect(200);
    server
        .merge(&format!("{WIDGETS}/a"), &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    server.get(&format!("{WIDGETS}/a")).await.refused(404);
}

#[tokio::test]
async fn a_crd_that_asks_for_too_much_is_refused() {
    let server = Server::alone().await;
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let cases = [
        (
            format!("{schema}/x-kubernetes-validations/0/rule"),
            json!("self.node.url() == ''"),
            "url",
        ),
        (
            format!("{schema}/x-kubernetes-validations/0/rule"),
            json!("self.node ="),
            "does not compile",
        ),
        (
            format!("{schema}/x-kubernetes-validations/0/rule"),
            json!("other.node == ''"),
            "neither self nor oldSelf",
        ),
        (
            format!("{schema}/properties/node/minLength"),
            json!("x"),
            "minLength: Invalid value: must be a count",
        ),
        ("/spec/names/plural".to_owned(), json!("gizmos"), "must be spec.names.plural"),
        ("/spec/versions/0/storage".to_owned(), json!(false), "exactly one version"),
        (
            "/spec/versions/0/additionalPrinterColumns/0/jsonPath".to_owned(),
            json!(".spec["),
            "jsonPath",
        ),
        ("/spec/scope".to_owned(), json!("World"), "spec.scope: Unsupported value"),
    ];
    for (pointer, value, message) in cases {
        let mut crd = gadgets(&server);
        *crd.pointer_mut(&pointer).unwrap() = value;
        let told = server.post(CRDS, &crd).await.refused(422);
        assert!(told.contains(message), "{pointer}: {told}");
    }
    let mut crd = gadgets(&server);
    crd["spec"]["names"]["kind"] = json!("Widget");
    assert!(server.post(CRDS, &crd).await.refused(422).contains("already in use"));
    let mut crd = gadgets(&server);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["node"]
        ["$ref"] = json!("#/x");
    assert!(server.post(CRDS, &crd).await.refused(422).contains("$ref"));
}

#[tokio::test]
async fn what_objects_are_stored_under_stays() {
    let server = Server::alone().await;
    let widgets = server.widget_crd();
    server.widget("a", json!({"node": "n"})).await;
    let told = server.merge(&widgets, &json!({"spec": {"scope": "Cluster"}})).await.refused(422);
    assert!(told.contains("spec.scope: Invalid value: \"Cluster\": field is immutable"), "{told}");
    let told =
        server.merge(&widgets, &json!({"spec": {"names": {"kind": "Gizmo"}}})).await.refused(422);
    assert!(told.contains("spec.names.kind"), "{told}");
    server.merge(&widgets, &json!({"spec": {"names": {"shortNames": ["w"]}}})).await.expect(200);
    assert_eq!(server.get(&format!("{WIDGETS}/a")).await.expect(200)["kind"], "Widget");
}

#[tokio::test]
async fn a_cluster_scoped_object_has_no_namespace_whatever_it_says() {
    let server = Server::alone().await;
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": "default"}});
    let made = server.post("/api/v1/namespaces", &namespace).await.expect(201);
    assert_eq!(made["metadata"].get("namespace"), None);
    namespace["metadata"]["labels"] = json!({"a": "b"});
    let put = server.put("/api/v1/namespaces/n", &namespace).await.expect(200);
    assert_eq!(put["metadata"].get("namespace"), None);
    let merged = server.merge("/api/v1/namespaces/n", &namespace).await.expect(200);
    assert_eq!(merged, put);
}
