//! What a real server does and this one refuses, each with the reason why nobody here needs it.

use crate::exchange::WIDGETS;
use crate::server::Server;
use serde_json::json;

#[tokio::test]
async fn patches_that_are_not_implemented_say_so() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let told = server
        .patch(&format!("{WIDGETS}/a"), "application/apply-patch+yaml", &json!({}))
        .await
        .refused(415);
    assert!(told.contains("server-side apply"), "{told}");
    server
        .patch(&format!("{WIDGETS}/a"), "application/strategic-merge-patch+json", &json!({}))
        .await
        .refused(415);
    server.patch(&format!("{WIDGETS}/a"), "text/plain", &json!({})).await.refused(415);
}
