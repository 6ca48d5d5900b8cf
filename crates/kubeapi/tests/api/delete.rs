//! Tests of deletion: finalizers, preconditions, owners, namespaces.

use crate::exchange::{Answer, JSON_PATCH, WIDGETS};
use crate::server::Server;
use serde_json::{Value, json};

fn path(name: &str) -> String {
    format!("{WIDGETS}/{name}")
}

async fn finalized(server: &Server, name: &str, finalizers: &[&str]) -> Value {
    let mut body = server.draft(name, json!({"node": "n"}));
    body["metadata"]["finalizers"] = json!(finalizers);
    server.post(WIDGETS, &body).await.expect(201)
}

async fn owned(server: &Server, name: &str, owner: &Value, block: bool) -> Value {
    let mut body = server.draft(name, json!({"node": "n"}));
    body["metadata"]["ownerReferences"] = json!([reference(owner, block)]);
    server.post(WIDGETS, &body).await.expect(201)
}

fn reference(owner: &Value, block: bool) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block})
}

async fn names(server: &Server) -> Vec<String> {
    let list = server.get(WIDGETS).await.expect(200);
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until the real server's garbage collector knows all objects created so far. The collector learns of
/// objects through its own watches. If an owner is deleted before the collector has seen the owner and its
/// dependents, the dependents stay.
async fn collector_caught_up(server: &Server) {
    let last_owner = server.widget("last-owner", json!({"node": "n"})).await;
    owned(server, "last-child", &last_owner, false).await;
    server.delete(&path("last-owner"), &Value::Null).await.expect(200);
    server.wait_until_gone(&path("last-child")).await;
}

/// Waits until exactly these objects exist.
async fn remain(server: &Server, expected: &[&str]) {
    let what = format!("{expected:?} remain");
    server.eventually(&what, async || names(server).await == expected).await;
}

/// Waits until an object has only this owner left: the collector removes deleted owners from their dependents one by
/// one, after it has deleted other objects.
async fn wait_for_sole_owner(server: &Server, name: &str, owner: &Value) {
    let what = format!("{name} is left with one owner");
    let holds = async || {
        let found = server.get(&path(name)).await.expect(200);
        found["metadata"]["ownerReferences"] == json!([owner])
    };
    server.eventually(&what, holds).await;
}

#[tokio::test]
async fn an_object_with_finalizers_is_removed_once_the_last_finalizer_is_gone() {
    let server = Server::start().await;
    let plain = server.widget("a", json!({"node": "n"})).await;
    let answer = server.delete(&path("a"), &Value::Null).await.expect(200);
    assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(answer["details"]["uid"], plain["metadata"]["uid"]);
    server.delete(&path("a"), &Value::Null).await.refused(404);

    finalized(&server, "b", &["x/one", "x/two"]).await;
    let marked = server.delete(&path("b"), &Value::Null).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(
        server.delete(&path("b"), &Value::Null).await.expect(200),
        marked,
        "a second delete changes nothing"
    );
    let refusal = server
        .merge(&path("b"), &json!({"metadata": {"finalizers": ["x/one", "x/two", "x/new"]}}))
        .await
        .refused(422);
    assert!(refusal.contains("no new finalizers can be added"), "{refusal}");
    server.merge(&path("b"), &json!({"metadata": {"finalizers": ["x/two"]}})).await.expect(200);
    remain(&server, &["b"]).await;
    server.merge(&path("b"), &json!({"metadata": {"finalizers": []}})).await.expect(200);
    remain(&server, &[]).await;
}

#[tokio::test]
async fn a_delete_whose_preconditions_do_not_hold_changes_nothing() {
    let server = Server::start().await;
    let object = server.widget("a", json!({"node": "n"})).await;
    let other = json!({"preconditions": {"uid": "other"}});
    let refusal = server.delete(&path("a"), &other).await.refused(409);
    assert!(refusal.contains("the UID in the precondition (other) does not match"), "{refusal}");
    let stale = json!({"preconditions": {"resourceVersion": "1"}});
    assert!(
        server
            .delete(&path("a"), &stale)
            .await
            .refused(409)
            .contains("the ResourceVersion in the precondition (1)")
    );
    let right = json!({"kind": "DeleteOptions", "preconditions": {
        "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"]}});
    server.delete(&path("a"), &right).await.expect(200);
    server.delete(&path("a"), &json!({"propagationPolicy": "Sideways"})).await.refused(422);
}

#[tokio::test]
async fn deleting_a_collection_deletes_only_the_selected_objects() {
    let server = Server::start().await;
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
        server.widget(name, json!({"node": node})).await;
    }
    let deleted = server
        .delete(&format!("{WIDGETS}?fieldSelector=spec.node%3Dn1"), &Value::Null)
        .await
        .expect(200);
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    remain(&server, &["b"]).await;
}

#[tokio::test]
async fn dependents_are_deleted_with_their_last_owner() {
    let server = Server::start().await;
    let first = server.widget("one", json!({"node": "n"})).await;
    let second = server.widget("two", json!({"node": "n"})).await;
    let child = owned(&server, "child", &first, false).await;
    owned(&server, "grandchild", &child, false).await;
    let mut shared = server.draft("shared", json!({"node": "n"}));
    shared["metadata"]["ownerReferences"] =
        json!([reference(&first, false), reference(&second, false)]);
    server.post(WIDGETS, &shared).await.expect(201);
    collector_caught_up(&server).await;

    server.delete(&path("one"), &Value::Null).await.expect(200);
    remain(&server, &["shared", "two"]).await;
    wait_for_sole_owner(&server, "shared", &reference(&second, false)).await;
    server.delete(&path("two"), &Value::Null).await.expect(200);
    remain(&server, &[]).await;
}

#[tokio::test]
async fn a_dependent_of_a_missing_owner_is_deleted_unless_the_owners_kind_is_unknown() {
    let server = Server::start().await;
    let ghost = json!({"apiVersion": server.group().to_owned() + "/v1", "kind": "Widget", "metadata": {"name": "ghost", "uid": "1"}});
    owned(&server, "a", &ghost, false).await;
    let foreign = json!({"apiVersion": "elsewhere.example/v1", "kind": "Thing", "metadata": {"name": "x", "uid": "2"}});
    owned(&server, "b", &foreign, false).await;
    remain(&server, &["b"]).await;
}

#[tokio::test]
async fn an_owner_in_foreground_deletion_waits_for_blocking_dependents() {
    let server = Server::start().await;
    let owner = server.widget("owner", json!({"node": "n"})).await;
    let mut body = server.draft("child", json!({"node": "n"}));
    body["metadata"]["ownerReferences"] = json!([reference(&owner, true)]);
    body["metadata"]["finalizers"] = json!(["x/hold"]);
    server.post(WIDGETS, &body).await.expect(201);
    collector_caught_up(&server).await;
    server.delete(&path("owner"), &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    let waiting = server.get(&path("owner")).await.expect(200);
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    server
        .eventually("the child is marked", async || {
            let child = server.get(&path("child")).await.expect(200);
            child["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    server.merge(&path("child"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    remain(&server, &[]).await;
}

#[tokio::test]
async fn orphaned_dependents_are_not_deleted() {
    let server = Server::start().await;
    let owner = server.widget("owner", json!({"node": "n"})).await;
    owned(&server, "child", &owner, true).await;
    collector_caught_up(&server).await;
    server
        .delete(&format!("{}?propagationPolicy=Orphan", path("owner")), &Value::Null)
        .await
        .expect(200);
    server
        .eventually("the child has no owner", async || {
            let child = server.get(&path("child")).await.expect(200);
            child["metadata"].get("ownerReferences").is_none()
        })
        .await;
    remain(&server, &["child"]).await;
}

async fn in_another(server: &Server, name: &str, finalizers: &[&str]) -> Answer {
    let mut body = server.draft(name, json!({"node": "n"}));
    body["metadata"]["finalizers"] = json!(finalizers);
    server.post(&another(server), &body).await
}

/// Returns the path of the widgets in a second namespace.
fn another(server: &Server) -> String {
    format!("/apis/{}/v1/namespaces/{}-2/widgets", server.group(), server.namespace())
}

#[tokio::test]
async fn a_deleted_namespace_is_removed_once_it_is_empty() {
    let server = Server::start().await;
    let name = format!("{}-2", server.namespace());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let created = server.post("/api/v1/namespaces", &namespace).await.expect(201);
    assert_eq!(created["status"]["phase"], "Active");
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], name);
    in_another(&server, "held", &["x/hold"]).await.expect(201);
    in_another(&server, "free", &[]).await.expect(201);

    let path = format!("/api/v1/namespaces/{name}");
    let marked = server.delete(&path, &Value::Null).await.expect(200);
    assert_eq!(
        (&marked["kind"], &marked["status"]["phase"]),
        (&json!("Namespace"), &json!("Terminating"))
    );
    let answer = in_another(&server, "late", &[]).await;
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert!(answer.refused(403).contains("because it is being terminated"));
    server.wait_until_gone(&format!("{}/free", another(&server))).await;
    server.eventually("the namespace lists what remains", async || {
        let ending = server.get(&path).await.expect(200);
        let conditions = ending["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let message = |kind: &str| {
            let found = conditions.iter().find(|condition| condition["type"] == kind)?;
            (found["status"] == "True").then(|| found["message"].as_str().unwrap().to_owned())
        };
        let resources = format!(
            "Some resources are remaining: widgets.{} has 1 resource instances", server.group());
        message("NamespaceContentRemaining").as_deref() == Some(resources.as_str())
            && message("NamespaceFinalizersRemaining").as_deref() == Some(
                "Some content in the namespace has finalizers remaining: x/hold in 1 resource instances")
    })
    .await;
    let held_path = format!("{}/held", another(&server));
    server.merge(&held_path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    server.wait_until_gone(&path).await;
    assert!(
        server
            .delete("/api/v1/namespaces/default", &Value::Null)
            .await
            .refused(403)
            .contains("may not be deleted")
    );
}

#[tokio::test]
async fn delete_options_that_cannot_be_read_delete_nothing() {
    let server = Server::start().await;
    server.widget("a", json!({"node": "n"})).await;
    let refused = [
        (json!({"dryRun": ["Some"]}), 422),
        (json!({"dryRun": "All"}), 400),
        (json!({"preconditions": {"uid": 7}}), 400),
        (json!({"preconditions": "uid"}), 400),
        (json!({"propagationPolicy": true}), 400),
        (json!({"propagationPolicy": "Background", "orphanDependents": true}), 422),
        (json!({"kind": "Widget"}), 400),
        (json!([]), 400),
    ];
    for (options, code) in refused {
        let refusal = server.delete(&path("a"), &options).await.refused(code);
        assert!(!refusal.is_empty(), "{options}");
    }
    server.delete(&path("a"), &json!({"dryRun": ["All"]})).await.expect(200);
    for query in ["fieldSelector=spec.count!%3D1", "fieldSelector=nonsense", "labelSelector=a,"] {
        server.delete(&format!("{WIDGETS}?{query}"), &Value::Null).await.refused(400);
    }
    remain(&server, &["a"]).await;
    server.delete("/api/v1/namespaces", &Value::Null).await.refused(405);
    let refusal = server.delete("/api/v1/namespaces/default", &Value::Null).await.refused(403);
    assert!(refusal.contains("this namespace may not be deleted"), "{refusal}");
}

#[tokio::test]
async fn a_foreground_deletion_leaves_dependents_that_have_another_owner() {
    let server = Server::start().await;
    let first = server.widget("one", json!({"node": "n"})).await;
    let second = server.widget("two", json!({"node": "n"})).await;
    let mut shared = server.draft("shared", json!({"node": "n"}));
    shared["metadata"]["ownerReferences"] =
        json!([reference(&first, true), reference(&second, true)]);
    server.post(WIDGETS, &shared).await.expect(201);
    collector_caught_up(&server).await;
    server.delete(&path("one"), &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    remain(&server, &["shared", "two"]).await;
    wait_for_sole_owner(&server, "shared", &reference(&second, true)).await;
}

#[tokio::test]
async fn a_foreground_deletion_completes_for_a_tree_and_for_a_circle_of_owners() {
    let server = Server::start().await;
    let top = server.widget("top", json!({"node": "n"})).await;
    let middle = owned(&server, "middle", &top, true).await;
    let mut leaf = server.draft("leaf", json!({"node": "n"}));
    leaf["metadata"]["ownerReferences"] = json!([reference(&middle, true)]);
    leaf["metadata"]["finalizers"] = json!(["x/hold"]);
    server.post(WIDGETS, &leaf).await.expect(201);
    collector_caught_up(&server).await;
    server.delete(&path("top"), &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    remain(&server, &["leaf", "middle", "top"]).await;
    // An owner that waits for its dependents does not wait for a dependent whose owner reference is removed.
    let let_go = json!({"metadata": {"ownerReferences": null}});
    server.merge(&path("leaf"), &let_go).await.expect(200);
    remain(&server, &["leaf"]).await;

    let a = server.widget("a", json!({"node": "n"})).await;
    let b = owned(&server, "b", &a, true).await;
    let circle = json!({"metadata": {"ownerReferences": [reference(&b, true)]}});
    server.merge(&path("a"), &circle).await.expect(200);
    collector_caught_up(&server).await;
    server.delete(&path("a"), &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    remain(&server, &["leaf"]).await;
}

#[tokio::test]
async fn a_second_delete_can_turn_a_foreground_deletion_into_a_background_deletion() {
    let server = Server::start().await;
    let owner = server.widget("owner", json!({"node": "n"})).await;
    let mut child = server.draft("child", json!({"node": "n"}));
    child["metadata"]["ownerReferences"] = json!([reference(&owner, true)]);
    child["metadata"]["finalizers"] = json!(["x/hold"]);
    server.post(WIDGETS, &child).await.expect(201);
    collector_caught_up(&server).await;
    server.delete(&path("owner"), &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    server.delete(&path("owner"), &Value::Null).await.expect(200);
    remain(&server, &["child", "owner"]).await;
    server.delete(&path("owner"), &json!({"propagationPolicy": "Background"})).await.expect(200);
    remain(&server, &["child"]).await;
}

#[tokio::test]
async fn a_json_patch_can_remove_the_last_finalizer() {
    let server = Server::start().await;
    finalized(&server, "a", &["x/one", "x/two"]).await;
    server.delete(&path("a"), &Value::Null).await.expect(200);
    let patch =
        async |path: &str, operations: Value| server.patch(path, JSON_PATCH, &operations).await;
    let wrong = json!([{"op": "test", "path": "/metadata/finalizers/0", "value": "x/two"},
        {"op": "remove", "path": "/metadata/finalizers/0"}]);
    patch(&path("a"), wrong).await.refused(422);
    let add = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "x/three"}]);
    let refusal = patch(&path("a"), add).await.refused(422);
    assert!(refusal.contains("no new finalizers can be added"), "{refusal}");
    let remove = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    let of_status = format!("{}/status", path("a"));
    patch(&of_status, json!([{"op": "remove", "path": "/metadata/finalizers"}])).await.expect(200);
    let patched = patch(&path("a"), remove.clone()).await.expect(200);
    assert_eq!(patched["metadata"]["finalizers"], json!(["x/two"]));
    patch(&path("a"), remove).await.expect(200);
    remain(&server, &[]).await;
}
