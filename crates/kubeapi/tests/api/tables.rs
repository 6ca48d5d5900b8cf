//! Tests of answers in the form of a table, which kubectl asks for.

use crate::exchange::WIDGETS;
use crate::server::Server;
use serde_json::{Value, json};

async fn table(server: &Server, path: &str, accept: &str) -> Value {
    server.get_as(path, accept).await.expect(200)
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn a_table_has_the_columns_that_the_crd_declares() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    server
        .merge(&format!("{WIDGETS}/a/status"), &json!({"status": {"ready": true}}))
        .await
        .expect(200);
    let list = table(&server, WIDGETS, TABLE).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let header: Vec<&str> = list["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(header, ["Name", "NODE", "READY", "AGE"]);
    let row = &list["rows"][0];
    assert_eq!(
        row["cells"].as_array().unwrap().get(..3).unwrap(),
        [json!("a"), json!("n"), json!(true)]
    );
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    let object = table(&server, &format!("{WIDGETS}/a?includeObject=Object"), TABLE).await;
    assert_eq!(object["rows"][0]["object"]["spec"]["node"], "n");
    let none = table(&server, &format!("{WIDGETS}?includeObject=None"), TABLE).await;
    assert_eq!(none["rows"][0]["object"], Value::Null);
}

#[tokio::test]
async fn a_list_can_be_reduced_to_metadata() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = table(&server, WIDGETS, accept).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert_eq!(list["items"][0].get("spec"), None);
}
