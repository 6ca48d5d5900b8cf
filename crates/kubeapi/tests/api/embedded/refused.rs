//! Requests that a real server and the embedded server treat differently: the embedded server refuses most of them.
//! Most tests say what the real server does.

use crate::crds::gadgets;
use crate::exchange::{CRDS, WIDGETS};
use crate::server::Server;
use serde_json::json;

#[tokio::test]
async fn unsupported_patches_are_refused_with_the_reason() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let refusal = server
        .patch(&format!("{WIDGETS}/a"), "application/apply-patch+yaml", &json!({}))
        .await
        .refused(415);
    assert!(refusal.contains("server-side apply"), "{refusal}");
    server
        .patch(&format!("{WIDGETS}/a"), "application/strategic-merge-patch+json", &json!({}))
        .await
        .refused(415);
    server.patch(&format!("{WIDGETS}/a"), "text/plain", &json!({})).await.refused(415);
}

/// kube-apiserver 1.36.3 breaks the connection here: it looks for the selectable fields in a schema that
/// it has just refused.
#[tokio::test]
async fn a_reference_in_a_schema_is_refused() {
    let server = Server::alone().await;
    let mut crd = server.crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["node"]
        ["$ref"] = json!("#/x");
    assert!(server.post(CRDS, &crd).await.refused(422).contains("$ref"));
}

/// The embedded server compiles columns when it stores the CRD; kube-apiserver accepts the invalid path, and
/// shows an empty column.
#[tokio::test]
async fn a_column_with_an_invalid_path_is_refused() {
    let server = Server::alone().await;
    let mut crd = server.crd();
    crd["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] = json!(".spec[");
    assert!(server.post(CRDS, &crd).await.refused(422).contains("jsonPath"));
}

/// kube-apiserver uses the last value of the key, with a warning. No client writes a key twice on purpose.
#[tokio::test]
async fn yaml_with_a_duplicate_key_is_refused() {
    let server = Server::start().await;
    let yaml = "apiVersion: test.example/v1\nkind: Widget\nmetadata: {name: b}\nspec: {node: m, node: o}\n";
    let request = server.request(http::Method::POST, WIDGETS, "application/yaml", yaml.as_bytes());
    assert!(server.answer(request).await.refused(400).contains("node"));
}

/// The embedded server reads YAML 1.2, in which `n` and `on` are strings; kube-apiserver reads YAML 1.1, in
/// which both are booleans.
#[tokio::test]
async fn unquoted_n_and_on_in_yaml_are_strings() {
    let server = Server::start().await;
    let yaml = "apiVersion: test.example/v1\nkind: Widget\nmetadata: {name: a}\nspec: {node: n, mode: on}\n";
    let request = server.request(http::Method::POST, WIDGETS, "application/yaml", yaml.as_bytes());
    let spec = server.answer(request).await.expect(201)["spec"].clone();
    assert_eq!((&spec["node"], &spec["mode"]), (&json!("n"), &json!("on")));
}

/// kube-apiserver accepts control characters, because for an Event it accepts every name that can be one segment of a
/// URL path.
#[tokio::test]
async fn control_characters_in_the_name_of_an_event_are_refused() {
    let server = Server::alone().await;
    let events = server.core("events");
    for name in ["a\0b", "a\nb", "a\u{1b}[2J"] {
        for field in ["name", "generateName"] {
            let mut event = json!({"apiVersion": "v1", "kind": "Event",
                "involvedObject": {"kind": "ConfigMap", "namespace": server.namespace()}});
            event["metadata"] = json!({field: name});
            let refusal = server.post(&events, &event).await.refused(422);
            assert!(refusal.contains("control characters"), "{refusal}");
        }
    }
    server.restart();
}

/// A real server accepts these keywords, which Warren's own CRDs do not use.
#[tokio::test]
async fn keywords_that_are_not_enforced_are_refused() {
    let server = Server::start().await;
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let cases = [
        (
            schema.to_owned(),
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}),
        ),
        (format!("{schema}/properties/node"), json!({"type": "string", "format": "ipv4"})),
    ];
    for (pointer, value) in cases {
        let mut crd = gadgets(&server);
        *crd.pointer_mut(&pointer).unwrap() = value;
        server.post(CRDS, &crd).await.refused(422);
    }
}
