use crate::exchange::WIDGETS;
use crate::script::Script;
use crate::server::Server;
use http::Method;
use serde_json::{Value, json};

/// Returns a widget with these members of metadata added or replaced.
fn with_metadata(server: &Server, members: &Value) -> Value {
    let mut widget = server.draft("b", json!({"node": "n"}));
    let metadata = widget["metadata"].as_object_mut().unwrap();
    metadata.extend(members.as_object().unwrap().clone());
    widget
}

#[tokio::test]
async fn creations_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    script.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await;
    script.get("widgets/a").await;
    script.post(WIDGETS, &server.draft("a", json!({"node": "n"}))).await;
    let full = json!({"node": "n", "count": 3, "mode": "on", "items": [{"name": "x"}, {"name": "y", "size": 1}],
        "port": "http", "free": {"a": [1, null, {"b": null}]}, "note": null});
    script.post(WIDGETS, &server.draft("full", full)).await;
    script.post(WIDGETS, &server.draft("port", json!({"node": "n", "port": 80}))).await;
    let mut with_status = server.draft("status", json!({"node": "n"}));
    with_status["status"] = json!({"ready": true, "unknown": 1});
    script.post(WIDGETS, &with_status).await;
    script.post(&format!("{WIDGETS}?dryRun=All"), &server.draft("dry", json!({"node": "n"}))).await;
    script.get("widgets/dry").await;
    let elsewhere = format!("/apis/{}/v1/namespaces/nowhere/widgets", server.group());
    script.post(&elsewhere, &server.draft("a", json!({"node": "n"}))).await;
    script
        .post(&format!("/apis/{}/v1/widgets", server.group()), &server.draft("a", json!({})))
        .await;
    script.end("create");
}

#[tokio::test]
async fn unknown_fields_and_options_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let typo =
        server.draft("a", json!({"node": "n", "typo": 1, "items": [{"name": "x", "nope": 2}]}));
    for validation in ["Strict", "Warn", "Ignore", "Nearly", ""] {
        script.post(&format!("{WIDGETS}?dryRun=All&fieldValidation={validation}"), &typo).await;
    }
    script.post(WIDGETS, &typo).await;
    let metadata = with_metadata(&server, &json!({"labels": {"a": "b"}, "typo": 1}));
    script.post(&format!("{WIDGETS}?dryRun=All"), &metadata).await;
    script.post(&format!("{WIDGETS}?fieldValidation=Strict"), &metadata).await;
    let mut beside = server.draft("b", json!({"node": "n"}));
    beside["beside"] = json!({"x": 1});
    script.post(&format!("{WIDGETS}?dryRun=All"), &beside).await;
    script.post(&format!("{WIDGETS}?dryRun=Some"), &beside).await;
    script.post(&format!("{WIDGETS}?dryRun="), &server.draft("empty", json!({"node": "n"}))).await;
    script.end("unknown-fields");
}

#[tokio::test]
async fn creations_with_every_kind_of_metadata_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let owner = json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"});
    let owner_without = |field: &str| {
        let mut owner = owner.clone();
        owner.as_object_mut().unwrap().remove(field);
        json!({"ownerReferences": [owner]})
    };
    let mut controller = owner.clone();
    controller["controller"] = json!(true);
    let mut second = controller.clone();
    second["name"] = json!("y");
    second["uid"] = json!("2");
    let cases = [
        json!({"name": ""}),
        json!({"name": "Upper"}),
        json!({"name": "a_b"}),
        json!({"name": "-a"}),
        json!({"name": "a/b"}),
        json!({"name": "x".repeat(254)}),
        json!({"name": "."}),
        json!({"name": null}),
        json!({"labels": {"a": "b c"}}),
        json!({"labels": {"-a": "b"}}),
        json!({"labels": {"a/b/c": "b"}}),
        json!({"labels": {"": "b"}}),
        json!({"labels": {"a": "x".repeat(64)}}),
        json!({"labels": {"x".repeat(64): "a"}}),
        json!({"labels": {"Up.er/a": "a"}}),
        json!({"labels": {"a": null}}),
        json!({"labels": {}}),
        json!({"annotations": {}}),
        json!({"annotations": {"A/b": "any thing"}}),
        json!({"annotations": {"a b": "c"}}),
        json!({"finalizers": ["a b"]}),
        json!({"finalizers": ["plain"]}),
        json!({"finalizers": [""]}),
        json!({"finalizers": ["x/y", "x/y"]}),
        json!({"finalizers": ["orphan", "foregroundDeletion"]}),
        owner_without("apiVersion"),
        owner_without("kind"),
        owner_without("name"),
        owner_without("uid"),
        json!({"ownerReferences": [controller, second]}),
        json!({"namespace": "other"}),
        json!({"uid": "mine", "generation": 7, "selfLink": "x"}),
        json!({"creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 7}),
        json!({"creationTimestamp": null}),
        json!({"managedFields": []}),
    ];
    for members in cases {
        script.post(&format!("{WIDGETS}?dryRun=All"), &with_metadata(&server, &members)).await;
    }
    script.end("metadata");
}

#[tokio::test]
async fn creations_with_valid_and_invalid_values_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    for spec in [
        json!({}),
        json!({"node": ""}),
        json!({"node": 1}),
        json!({"node": null}),
        json!({"node": "x".repeat(21)}),
        json!({"node": "n", "count": "1"}),
        json!({"node": "n", "count": -1}),
        json!({"node": "n", "count": 1.5}),
        json!({"node": "n", "count": 1.0}),
        json!({"node": "n", "count": 2_147_483_648_u64}),
        json!({"node": "n", "count": null}),
        json!({"node": "n", "mode": "maybe"}),
        json!({"node": "n", "mode": null}),
        json!({"node": "n", "mode": ""}),
        json!({"node": "n", "items": {}}),
        json!({"node": "n", "items": [{}]}),
        json!({"node": "n", "items": [null]}),
        json!({"node": "n", "items": [1, "x"]}),
        json!({"node": "n", "items": [{"name": "1"}, {"name": "2"}, {"name": "3"}, {"name": "4"}]}),
        json!({"node": "n", "items": [{"name": "x", "size": null}]}),
        json!({"node": "n", "items": []}),
        json!({"node": "n", "items": null}),
        json!({"node": "n", "port": true}),
        json!({"node": "n", "port": 1.5}),
        json!({"node": "n", "port": null}),
        json!({"node": "n", "free": null}),
        json!({"node": "n", "free": []}),
        json!({"node": "n", "note": 1}),
        json!({"node": "", "count": -1, "mode": "x"}),
        json!([]),
        json!("x"),
        json!(null),
    ] {
        script.post(&format!("{WIDGETS}?dryRun=All"), &server.draft("b", spec)).await;
    }
    script.end("values");
}

#[tokio::test]
async fn bodies_of_every_media_type_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let good = server.draft("b", json!({"node": "n"}));
    for (field, value) in [
        ("kind", json!("Gadget")),
        ("kind", json!("")),
        ("kind", Value::Null),
        ("apiVersion", json!("v9")),
        ("apiVersion", json!("")),
        ("apiVersion", json!("other.example/v1")),
        ("apiVersion", Value::Null),
    ] {
        let mut wrong = good.clone();
        wrong[field] = value;
        script.post(&format!("{WIDGETS}?dryRun=All"), &wrong).await;
    }
    for (media_type, body) in [
        ("application/json", ""),
        ("application/json", "{\"kind\": "),
        ("application/json", "[1]"),
        ("application/json", "{}"),
        ("application/json", "null"),
        ("application/yaml", "a: ["),
        ("text/html", "<p>"),
        ("text/plain", "{}"),
        ("", "{}"),
    ] {
        script.raw(Method::POST, WIDGETS, media_type, body).await;
    }
    let mut metadata = good.clone();
    metadata["metadata"] = json!("x");
    script.post(WIDGETS, &metadata).await;
    script.end("types-and-bodies");
}
