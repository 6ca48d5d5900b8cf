use crate::exchange::{CRDS, MERGE_PATCH};
use crate::script::Script;
use crate::server::Server;
use serde_json::{Value, json};

fn gadgets(server: &Server) -> Value {
    let mut gadgets = server.crd();
    gadgets["metadata"]["name"] = json!(format!("gadgets.{}", server.group()));
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    gadgets
}

#[tokio::test]
async fn accepted_crds_get_the_recorded_answers() {
    let server = Server::alone().await;
    let mut script = Script::new(&server);
    let path = format!("{CRDS}/gadgets.{}", server.group());
    script.post(&format!("{CRDS}?dryRun=All"), &gadgets(&server)).await;
    server.post(CRDS, &gadgets(&server)).await.expect(201);
    let established = async || {
        let body = server.get(&path).await.body;
        let conditions = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    server.eventually("gadgets are established", established).await;
    server.eventually("gadgets are served", async || server.get("gadgets").await.code == 200).await;
    script.get(&path).await;
    script.get_as(&path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    script.post(CRDS, &gadgets(&server)).await;
    for patch in [
        json!({"spec": {"scope": "Cluster"}}),
        json!({"spec": {"names": {"kind": "Gizmo"}}}),
        json!({"spec": {"names": {"plural": "gizmos"}}}),
        json!({"spec": {"group": "other.example"}}),
        json!({"metadata": {"name": "other"}}),
    ] {
        script.patch(&path, MERGE_PATCH, &patch).await;
    }
    // A CRD cannot lose a version in which objects may be stored.
    let mut versions = gadgets(&server)["spec"]["versions"].clone();
    versions[0]["name"] = json!("v2");
    script.patch(&path, MERGE_PATCH, &json!({"spec": {"versions": versions}})).await;
    script
        .patch(&format!("{path}/status"), MERGE_PATCH, &json!({"status": {"storedVersions": []}}))
        .await;
    script.end("crds");
}

#[tokio::test]
async fn invalid_crds_get_the_recorded_refusals() {
    let server = Server::alone().await;
    let mut script = Script::new(&server);
    for (pointer, value) in [
        ("/spec/names/plural", json!("gizmos")),
        ("/spec/scope", json!("World")),
        ("/spec/scope", Value::Null),
        ("/spec/group", json!("")),
        ("/metadata/name", json!("gadgets")),
    ] {
        let mut crd = gadgets(&server);
        *crd.pointer_mut(pointer).unwrap() = value;
        script.post(&format!("{CRDS}?dryRun=All"), &crd).await;
    }
    script.end("refused-crds");
}
