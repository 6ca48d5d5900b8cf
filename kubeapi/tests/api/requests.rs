//! Requests that are not what they should be.

use crate::server::{Server, WIDGETS, request, widget};
use http::{Method, Request};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::json;

async fn post(server: &Server, media_type: &str, body: &[u8]) -> crate::server::Answer {
    server.answer(request(Method::POST, WIDGETS, media_type, body)).await
}

#[tokio::test]
async fn broken_bodies_are_told_where_they_break() {
    let server = Server::start();
    let told = post(&server, "application/json", b"{\"kind\": ").await.refused(400);
    assert!(told.contains("not valid JSON") && told.contains("line 1"), "{told}");
    let told = post(&server, "application/json", b"{\"a\": \"\xff\"}").await.refused(400);
    assert_eq!(told, "the body is not valid UTF-8: wrong byte at offset 7");
    post(&server, "application/yaml", b"a: [").await.refused(400);
    post(&server, "application/json", b"[1]").await.refused(400);
    post(&server, "application/json", b"").await.refused(400);
    post(&server, "application/json", &b"[".repeat(100_000)).await.refused(400);
    post(&server, "application/yaml", &b"[".repeat(100_000)).await.refused(400);
    post(&server, "text/html", b"<p>").await.refused(415);
    let wrong = widget("a", json!({})).to_string().replace("Widget", "Gadget");
    assert!(
        post(&server, "application/json", wrong.as_bytes()).await.refused(400).contains("Gadget")
    );
    let wrong = widget("a", json!({})).to_string().replace("/v1", "/v9");
    assert!(
        post(&server, "application/json", wrong.as_bytes())
            .await
            .refused(400)
            .contains("test.example/v9")
    );
}

#[tokio::test]
async fn yaml_is_as_good_as_json() {
    let server = Server::start();
    let yaml = "apiVersion: test.example/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  node: n\n  count: 4\n";
    let object = post(&server, "application/yaml", yaml.as_bytes()).await.expect(201);
    assert_eq!(object["spec"]["count"], 4);
}

#[tokio::test]
async fn a_body_over_three_mebibytes_is_refused() {
    let server = Server::start();
    let large = widget("a", json!({"node": "n", "free": {"x": "y".repeat(3 << 20)}})).to_string();
    post(&server, "application/json", large.as_bytes()).await.refused(413);
    let fits = widget("a", json!({"node": "n", "free": {"x": "y".repeat(2 << 20)}})).to_string();
    post(&server, "application/json", fits.as_bytes()).await.expect(201);
}

#[tokio::test]
async fn forms_that_are_not_offered_are_not_acceptable() {
    let server = Server::start();
    let get = |accept: &str| {
        Request::builder()
            .uri(WIDGETS)
            .header("accept", accept)
            .body(Full::new(Bytes::new()))
            .unwrap()
    };
    server.answer(get("application/vnd.kubernetes.protobuf")).await.refused(406);
    server.answer(get("application/vnd.kubernetes.protobuf,application/json")).await.expect(200);
    server.answer(get("*/*")).await.expect(200);
    server.answer(get("text/html, application/json;q=0.9")).await.expect(200);
}
