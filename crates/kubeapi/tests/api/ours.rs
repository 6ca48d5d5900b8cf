//! Tests with the CRDs and sample objects of the `api` crate: the server accepts each object without warnings, returns
//! the object unchanged, and lists it.

use crate::server::Server;
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn fixtures() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/fixtures");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let yaml = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let read =
        |path: &Path| serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut found: Vec<(String, Value)> = yaml
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(&path)))
        .collect();
    found.sort_by(|(left, _), (right, _)| left.cmp(right));
    found
}

/// Returns the path of the collection that an object belongs to.
pub(crate) async fn place(server: &Server, object: &Value) -> String {
    let group_version = object["apiVersion"].as_str().unwrap();
    let root =
        if group_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{group_version}") };
    let resources = server.get(&root).await.expect(200);
    let kinds = resources["resources"].as_array().unwrap();
    let plural = kinds.iter().find(|kind| kind["kind"] == object["kind"]).unwrap()["name"].as_str();
    format!("{root}/namespaces/{}/{}", server.namespace(), plural.unwrap())
}

#[tokio::test]
async fn objects_of_our_kinds_are_stored_unchanged() {
    let server = Server::ours().await;
    let fixtures = fixtures();
    assert!(fixtures.len() > 10);
    for (file, fixture) in fixtures {
        let mut object = fixture.clone();
        let path = place(&server, &fixture).await;
        // Gives the sample a new name and no revision, because the samples were captured from other servers.
        let name = file.trim_end_matches(".yaml");
        object["metadata"] = json!({"name": name, "labels": fixture["metadata"]["labels"]});
        let strict = format!("{path}?fieldValidation=Strict");
        let created = server.post(&strict, &object).await.expect(201);
        covers(&created["spec"], &fixture["spec"], &format!("{file}: spec"));
        covers(&created["data"], &fixture["data"], &format!("{file}: data"));
        // A Workflow has no status subresource.
        if fixture["kind"] == "Workflow" {
            let status = json!({"status": fixture["status"]});
            let patched = server.merge(&format!("{path}/{name}"), &status).await.expect(200);
            covers(&patched["status"], &fixture["status"], &format!("{file}: status"));
        } else if fixture["status"].is_object() {
            let status = json!({"status": fixture["status"]});
            let patched = server.merge(&format!("{path}/{name}/status"), &status).await.expect(200);
            covers(&patched["status"], &fixture["status"], &format!("{file}: status"));
        }
        server.get(&path).await.expect(200);
    }
}

/// Checks that `found` has all members of `wanted`; defaults may have been added, and nulls dropped.
#[track_caller]
fn covers(found: &Value, wanted: &Value, at: &str) {
    match wanted {
        Value::Null => {}
        Value::Object(map) => {
            for (name, value) in map {
                covers(&found[name], value, &format!("{at}.{name}"));
            }
        }
        Value::Array(items) => {
            assert_eq!(found.as_array().map(Vec::len), Some(items.len()), "{at}");
            for (index, item) in items.iter().enumerate() {
                covers(&found[index], item, &format!("{at}[{index}]"));
            }
        }
        _ => assert_eq!(found, wanted, "{at}"),
    }
}
