//! Does the work of kube-controller-manager after each operation on the real server. kube-controller-manager itself
//! does not run: it would do this work at times that differ in every run.

use crate::operation::{Memory, Operation};
use crate::servers::{Prepared, Reply, Server};
use http::Method;
use serde_json::{Value, json};

/// Completes the deletion of an operation's objects, if they are being deleted: the real server leaves this to
/// controllers, the embedded server does it itself.
pub(crate) async fn settle(server: &Server, memory: &Memory, operation: &Operation, reply: &Reply) {
    if !server.is_real() || reply.code >= 300 || matches!(operation.method, Method::GET) {
        return;
    }
    let names = if operation.is_about_one() {
        vec![None]
    } else if operation.method == Method::DELETE {
        let items = reply.body["items"].as_array().into_iter().flatten();
        items.map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
    } else {
        return;
    };
    let about = operation.path.trim_end_matches("/status").trim_end_matches("/finalize");
    for name in names {
        let path = memory.fill(about);
        let path = name.map_or(path.clone(), |name| format!("{path}/{name}"));
        release(server, &path).await;
    }
}

/// Ends the deletion of an owner without dependents, and of a namespace without content.
async fn release(server: &Server, path: &str) {
    let mut object = server.send(&Prepared::new(Method::GET, path)).await.body;
    if object["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let waits = |name: &Value| *name == "foregroundDeletion" || *name == "orphan";
    let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if finalizers.iter().any(waits) {
        let rest: Vec<Value> = finalizers.into_iter().filter(|name| !waits(name)).collect();
        let patch = json!({"metadata": {"finalizers": rest}});
        object = server.send(&Prepared::new(Method::PATCH, path).with(&patch)).await.body;
    }
    if object["kind"] == "Namespace" && object["spec"]["finalizers"] != Value::Null {
        object["spec"] = json!({});
        let finalize = format!("{path}/finalize");
        server.send(&Prepared::new(Method::PUT, finalize).with(&object)).await;
    }
}

/// Deletes an object, and removes its finalizers, so that it is gone at once.
pub(crate) async fn purge(server: &Server, path: &str) {
    let patch = json!({"metadata": {"finalizers": null}});
    server.send(&Prepared::new(Method::DELETE, path)).await;
    let reply = server.send(&Prepared::new(Method::PATCH, path).with(&patch)).await;
    if reply.code == 200 && reply.body["kind"] == "Namespace" {
        release(server, path).await;
    }
}
