use crate::exchange::{CRDS, WIDGETS};
use crate::script::Script;
use crate::server::Server;
use serde_json::json;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[tokio::test]
async fn tables_and_partial_metadata_equal_the_recorded_ones() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    script.get_as(WIDGETS, TABLE).await;
    script.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await;
    script.post(WIDGETS, &server.draft("b", json!({"node": "m"}))).await;
    script
        .patch(
            "widgets/a/status",
            crate::exchange::MERGE_PATCH,
            &json!({"status": {"ready": true}}),
        )
        .await;
    for accept in [
        TABLE,
        METADATA,
        METADATA_LIST,
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=Chair;v=v1;g=meta.k8s.io",
        "text/html",
        "*/*",
        "application/json;as=Table;v=v1;g=other.example,application/json",
        "application/json;q=0.4",
    ] {
        script.get_as(WIDGETS, accept).await;
        script.get_as("widgets/a", accept).await;
    }
    for include in ["None", "Metadata", "Object", "Most", ""] {
        script.get_as(&format!("widgets/a?includeObject={include}"), TABLE).await;
    }
    script.get_as(&format!("{WIDGETS}?limit=1"), TABLE).await;
    script.get_as(&format!("{WIDGETS}?limit=1"), METADATA_LIST).await;
    script.get_as("widgets/zz", TABLE).await;
    script.end("forms");
}

#[tokio::test]
async fn cells_of_every_column_type_equal_the_recorded_cells() {
    let server = Server::alone().await;
    let mut crd = server.crd();
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let mut columns = vec![
        column("Text", "string", ".spec.node"),
        column("Number", "integer", ".spec.count"),
        column("Absent", "string", ".spec.mode"),
        column("Items", "string", ".spec.items[*].name"),
        column("First", "string", ".spec.items[0].name"),
        column("Whole", "string", ".spec.items"),
        column("Map", "string", ".spec.free"),
        column("Since", "date", ".status.since"),
        column("Ready", "boolean", ".status.ready"),
        column("ReadyText", "string", ".status.ready"),
        column("CountText", "string", ".spec.count"),
        column("NodeNumber", "integer", ".spec.node"),
        column("Fraction", "number", ".spec.free.fraction"),
        column("Label", "string", ".metadata.labels.a\\.b/c"),
        column("Found", "string", ".spec.items[?(@.name==\"y\")].size"),
        column("Age", "date", ".metadata.creationTimestamp"),
        column("Null", "string", ".spec.note"),
        column("FractionInt", "integer", ".spec.free.fraction"),
        column("Port", "string", ".spec.port"),
    ];
    columns[0]["description"] = json!("Where it is");
    columns[1]["format"] = json!("int32");
    columns[1]["priority"] = json!(1);
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!(columns);
    server.merge(&server.widget_crd(), &json!({"spec": crd["spec"]})).await.expect(200);
    let shown = async || {
        server.get_as(WIDGETS, TABLE).await.body["columnDefinitions"].as_array().map(Vec::len)
            == Some(20)
    };
    server.eventually("the columns are shown", shown).await;
    let mut script = Script::new(&server);
    let mut widget = server.draft("a", json!({"node": "n", "items": [{"name": "x"}, {"name": "y", "size": 2}], "free": {"fraction": 1.5, "b": {"c": [1, "d"]}}, "port": 8080, "note": null}));
    widget["metadata"]["labels"] = json!({"a.b/c": "label"});
    script.post(WIDGETS, &widget).await;
    script
        .patch(
            "widgets/a/status",
            crate::exchange::MERGE_PATCH,
            &json!({"status": {"ready": false, "since": "2001-01-01T00:00:00Z"}}),
        )
        .await;
    script.post(WIDGETS, &server.draft("bare", json!({"node": "n"}))).await;
    script.get_as(&format!("{WIDGETS}?includeObject=None"), TABLE).await;
    script.end("columns");
}

#[tokio::test]
async fn discovery_documents_equal_the_recorded_ones() {
    let server = Server::alone().await;
    let mut script = Script::new(&server);
    let group = server.group().to_owned();
    script.get(&format!("/apis/{group}")).await;
    script.get(&format!("/apis/{group}/v1")).await;
    script.get("/apis/coordination.k8s.io/v1").await;
    script.get(&format!("{CRDS}/none")).await;
    script.get("/openapi/v3/none").await;
    script.end("discovery");
}
