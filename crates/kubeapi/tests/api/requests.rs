//! Tests of malformed requests.

use crate::exchange::WIDGETS;
use crate::server::Server;
use http::{Method, Request};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::json;

async fn post(server: &Server, media_type: &str, body: &[u8]) -> crate::exchange::Answer {
    server.answer(server.request(Method::POST, WIDGETS, media_type, body)).await
}

#[tokio::test]
async fn broken_bodies_are_refused() {
    let server = Server::start().await;
    post(&server, "application/json", b"{\"kind\": ").await.refused(400);
    post(&server, "application/json", b"{\"kind\": \"\xff\"}").await.refused(400);
    post(&server, "application/yaml", b"a: [").await.refused(400);
    post(&server, "application/json", b"[1]").await.refused(400);
    post(&server, "application/json", b"").await.refused(400);
    post(&server, "application/json", &b"[".repeat(100_000)).await.refused(400);
    post(&server, "application/yaml", &b"[".repeat(100_000)).await.refused(400);
    post(&server, "text/html", b"<p>").await.refused(415);
    let wrong = server.draft("a", json!({})).to_string().replace("Widget", "Gadget");
    let refusal = post(&server, "application/json", wrong.as_bytes()).await.refused(422);
    assert!(refusal.contains("kind: Invalid value: \"Gadget\": must be Widget"), "{refusal}");
    let wrong = server.draft("a", json!({})).to_string().replace("/v1", "/v9");
    assert!(
        post(&server, "application/json", wrong.as_bytes())
            .await
            .refused(400)
            .contains("test.example/v9")
    );
}

#[tokio::test]
async fn yaml_bodies_are_accepted_like_json() {
    let server = Server::start().await;
    let yaml = "apiVersion: test.example/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  node: m\n  count: 4\n";
    let object = post(&server, "application/yaml", yaml.as_bytes()).await.expect(201);
    assert_eq!(object["spec"]["count"], 4);
}

#[tokio::test]
async fn a_body_over_three_mebibytes_is_refused() {
    let server = Server::start().await;
    let large =
        server.draft("a", json!({"node": "n", "free": {"x": "y".repeat(3 << 20)}})).to_string();
    post(&server, "application/json", large.as_bytes()).await.refused(413);
    let fits =
        server.draft("a", json!({"node": "n", "free": {"x": "y".repeat(1 << 20)}})).to_string();
    post(&server, "application/json", fits.as_bytes()).await.expect(201);
}

#[tokio::test]
async fn unknown_forms_in_the_accept_header_answer_406() {
    let server = Server::start().await;
    let get = |accept: &str| {
        Request::builder()
            .uri(server.uri(WIDGETS))
            .header("accept", accept)
            .body(Full::new(Bytes::new()))
            .unwrap()
    };
    // The form of this refusal is not compared: the client has accepted none that the server has.
    assert_eq!(server.answer(get("application/vnd.kubernetes.protobuf")).await.code, 406);
    server.answer(get("application/vnd.kubernetes.protobuf,application/json")).await.expect(200);
    server.answer(get("*/*")).await.expect(200);
    server.answer(get("text/html, application/json;q=0.9")).await.expect(200);
}

#[tokio::test]
async fn the_first_known_form_in_the_accept_header_is_answered() {
    let server = Server::start().await;
    let kind = async |accept: &str| {
        let request = Request::builder().uri(server.uri(WIDGETS)).header("accept", accept);
        let answer = server.answer(request.body(Full::new(Bytes::new())).unwrap()).await;
        answer.body["kind"].as_str().unwrap().to_owned()
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(kind(&format!("{table},application/json")).await, "Table");
    assert_eq!(kind(&format!("text/html, {table};q=0.5")).await, "Table");
    let foreign = "application/json;as=Table;v=v1;g=other.example";
    assert_eq!(kind(&format!("{foreign},application/json")).await, "WidgetList");
    assert_eq!(kind("application/json;q=0").await, "WidgetList");
}

#[tokio::test]
async fn warnings_may_contain_names_that_are_not_ascii() {
    let server = Server::start().await;
    let body = server.draft("a", json!({"node": "n", "größe": 1})).to_string();
    let request = server.request(Method::POST, WIDGETS, "application/json", body.as_bytes());
    let response = server.send(request).await;
    let warning = response.headers().get("warning").unwrap();
    assert_eq!(warning.as_bytes(), r#"299 - "unknown field \"spec.größe\"""#.as_bytes());
}
