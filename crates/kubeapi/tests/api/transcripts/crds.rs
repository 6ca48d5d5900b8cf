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
async fn definitions() {
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
        json!({"spec": {"versions": []}}),
        json!({"metadata": {"name": "other"}}),
    ] {
        script.patch(&path, MERGE_PATCH, &patch).await;
    }
    // A version that objects may be stored under cannot go.
    let mut versions = gadgets(&server)["spec"]["versions"].clone();
    versions[0]["name"] = json!("v2");
    script.patch(&path, MERGE_PATCH, &json!({"spec": {"versions": versions}})).await;
    script
        .patch(&format!("{path}/status"), MERGE_PATCH, &json!({"status": {"storedVersions": []}}))
        .await;
    script.end("crds");
}

#[tokio::test]
async fn refused_definitions() {
    let server = Server::alone().await;
    let mut script = Script::new(&server);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let cases = [
        ("/spec/names/plural".to_owned(), json!("gizmos")),
        ("/spec/versions/0/storage".to_owned(), json!(false)),
        ("/spec/versions/0/served".to_owned(), json!(false)),
        ("/spec/scope".to_owned(), json!("World")),
        ("/spec/scope".to_owned(), Value::Null),
        ("/spec/group".to_owned(), json!("")),
        ("/spec/names/kind".to_owned(), json!("gadget")),
        ("/spec/names/kind".to_owned(), json!("Gad get")),
        ("/spec/versions/0/name".to_owned(), json!("V1")),
        ("/spec/versions".to_owned(), json!([])),
        ("/metadata/name".to_owned(), json!("gadgets")),
        ("/spec/versions/0/additionalPrinterColumns/0/jsonPath".to_owned(), json!("spec.node")),
        ("/spec/versions/0/additionalPrinterColumns/0/type".to_owned(), json!("text")),
        ("/spec/versions/0/additionalPrinterColumns/0/name".to_owned(), json!("")),
        ("/spec/versions/0/selectableFields/0/jsonPath".to_owned(), json!(".spec.absent")),
        ("/spec/versions/0/selectableFields/0/jsonPath".to_owned(), json!(".spec.items")),
        ("/spec/versions/0/selectableFields/0/jsonPath".to_owned(), json!(".metadata.name")),
        ("/spec/versions/0/schema".to_owned(), Value::Null),
        ("/spec/versions/0/schema/openAPIV3Schema/type".to_owned(), json!("string")),
        (format!("{spec}/type"), json!("thing")),
        (format!("{spec}/properties/node/type"), json!("")),
        (format!("{spec}/properties/count/default"), json!("x")),
        (format!("{spec}/properties/count/default"), json!(-1)),
        (format!("{spec}/properties/node/pattern"), json!("(")),
    ];
    for (pointer, value) in cases {
        let mut crd = gadgets(&server);
        match crd.pointer_mut(&pointer) {
            Some(at) => *at = value,
            None => {
                crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
                    ["node"]["pattern"] = value;
            }
        }
        script.post(&format!("{CRDS}?dryRun=All"), &crd).await;
    }
    script.end("refused-crds");
}
