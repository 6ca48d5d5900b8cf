//! Tests of get and list.

use crate::exchange::WIDGETS;
use crate::server::Server;
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn lists_return_the_selected_objects() {
    let server = Server::start().await;
    for (name, node, label) in [("a", "n1", "x"), ("b", "n2", "y"), ("c", "n2", "x")] {
        server.widget(name, json!({"node": node})).await;
        server
            .merge(&format!("{WIDGETS}/{name}"), &json!({"metadata": {"labels": {"l": label}}}))
            .await
            .expect(200);
    }
    let list = async |query: &str| server.get(&format!("{WIDGETS}?{query}")).await.expect(200);
    assert_eq!(names(&list("labelSelector=l%20in%20(x)").await), ["a", "c"]);
    assert_eq!(names(&list("labelSelector=l!%3Dx").await), ["b"]);
    assert_eq!(names(&list("fieldSelector=spec.node%3Dn2,metadata.name!%3Db").await), ["c"]);
    assert_eq!(names(&list("labelSelector=l%3Dx&limit=1").await), ["a"]);
    let everywhere = server.get("/apis/test.example/v1/widgets").await.expect(200);
    assert_eq!(everywhere["kind"], "WidgetList");
    assert!(everywhere["items"].as_array().unwrap().len() >= 3);
    assert!(
        server
            .get(&format!("{WIDGETS}?fieldSelector=spec.count%3D1"))
            .await
            .refused(400)
            .contains("spec.count")
    );
    server.get(&format!("{WIDGETS}?labelSelector=a%20b")).await.refused(400);
    server.get(&format!("{WIDGETS}?limit=x")).await.refused(400);
    server.get(&format!("{WIDGETS}?continue=nonsense")).await.refused(400);
}

#[tokio::test]
async fn a_list_can_show_an_exact_revision() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let then = server.get(WIDGETS).await.expect(200);
    server.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"count": 2}})).await.expect(200);
    server.widget("b", json!({"node": "n"})).await;
    let revision = then["metadata"]["resourceVersion"].as_str().unwrap();
    let again = server
        .get(&format!("{WIDGETS}?resourceVersionMatch=Exact&resourceVersion={revision}"))
        .await
        .expect(200);
    assert_eq!(again["items"], then["items"]);
}

#[tokio::test]
async fn unknown_paths_answer_404() {
    let server = Server::start().await;
    for path in ["/api/v1/nothings", "/api/v1/configmaps/a", &server.core("configmaps/a/status")] {
        server.get(path).await.refused(404);
    }
    // Outside the built-in groups the answer is plain text, not a Status.
    for path in ["/nope", "/apis/none.example/v1", "/apis/test.example/v2/widgets", "nothings"] {
        let answer = server.get(path).await;
        assert_eq!((answer.code, answer.body), (404, json!("404 page not found\n")), "{path}");
    }
    assert_eq!(
        server.get(&server.core("configmaps/a")).await.refused(404),
        "configmaps \"a\" not found"
    );
    server.post("/api/v1/configmaps", &json!({})).await.refused(405);
    server.put(WIDGETS, &json!({})).await.refused(400);
    server.post("/version", &json!({})).await.refused(405);
}

#[tokio::test]
async fn discovery_lists_the_served_kinds() {
    let server = Server::start().await;
    let groups = server.get("/apis").await.expect(200);
    let groups: Vec<&str> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["name"].as_str().unwrap())
        .collect();
    for group in ["apiextensions.k8s.io", "coordination.k8s.io", "events.k8s.io", "test.example"] {
        assert!(groups.contains(&group), "{groups:?}");
    }
    let resources = server.get("/apis/test.example/v1").await.expect(200);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    assert_eq!(resources["resources"][1]["name"], "widgets/status");
    assert_eq!(server.get("/api").await.expect(200)["versions"], json!(["v1"]));
    assert_eq!(server.get("/readyz").await.expect(200), json!("ok"));
    assert_eq!(server.get("/version").await.expect(200)["major"], "1");
    let index = server.get("/openapi/v3").await.expect(200);
    let path = index["paths"]["apis/test.example/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = server.get(path).await.expect(200);
    assert_eq!(
        document["components"]["schemas"]["example.test.v1.Widget"]["properties"]["spec"]["properties"]
            ["count"]["default"],
        1
    );
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let then = server.get(WIDGETS).await.expect(200);
    let revision = then["metadata"]["resourceVersion"].as_str().unwrap();
    server.widget("b", json!({"node": "n"})).await;
    let page = server.get(&format!("{WIDGETS}?limit=1")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let refused = [
        ("resourceVersionMatch=Exact".to_owned(), 422),
        ("resourceVersionMatch=Exact&resourceVersion=0".to_owned(), 422),
        (format!("resourceVersionMatch=Nearly&resourceVersion={revision}"), 422),
        (
            format!(
                "resourceVersionMatch=NotOlderThan&resourceVersion={revision}&continue={token}"
            ),
            422,
        ),
        (format!("resourceVersion={revision}&continue={token}"), 400),
        ("resourceVersion=x".to_owned(), 400),
    ];
    for (query, code) in refused {
        let refusal = server.get(&format!("{WIDGETS}?{query}")).await.refused(code);
        assert!(!refusal.is_empty(), "{query}");
    }
    // A limit with a resourceVersion and without resourceVersionMatch means exactly that revision.
    let old =
        server.get(&format!("{WIDGETS}?resourceVersion={revision}&limit=5")).await.expect(200);
    assert_eq!(names(&old), ["a"]);
    let new = server.get(&format!("{WIDGETS}?resourceVersion={revision}")).await.expect(200);
    assert_eq!(names(&new), ["a", "b"]);
}
