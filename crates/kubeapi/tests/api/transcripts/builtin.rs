use crate::exchange::{JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH};
use crate::script::Script;
use crate::server::Server;
use serde_json::{Value, json};

fn object(kind: &str, name: &str, members: &Value) -> Value {
    let version = match kind {
        "Lease" => "coordination.k8s.io/v1",
        _ => "v1",
    };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    object
}

#[tokio::test]
async fn requests_for_configmaps_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let maps = server.core("configmaps");
    for members in [
        json!({}),
        json!({"data": {"a b": "x"}}),
        json!({"data": {"..": "x"}}),
        json!({"data": {"": "x"}}),
        json!({"data": {"x".repeat(254): "x"}}),
        json!({"data": {"a": 1}}),
        json!({"data": []}),
        json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}),
        json!({"binaryData": {"a": "?"}}),
        json!({"data": {"a": null}}),
        json!({"typo": 1}),
        json!({"immutable": "x"}),
        json!({"data": {}}),
    ] {
        script.post(&format!("{maps}?dryRun=All"), &object("ConfigMap", "m", &members)).await;
    }
    script.post(&maps, &object("ConfigMap", "Upper", &json!({}))).await;
    script.post(&maps, &object("ConfigMap", "m", &json!({"data": {"a.b_C-1": "x"}}))).await;
    let m = format!("{maps}/m");
    script.patch(&m, MERGE_PATCH, &json!({"data": {"b": "y", "a.b_C-1": null}})).await;
    script.patch(&m, STRATEGIC_PATCH, &json!({"data": {"c": "z", "b": null}})).await;
    script
        .patch(
            &m,
            STRATEGIC_PATCH,
            &json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["x/one"]}}),
        )
        .await;
    script.patch(&m, STRATEGIC_PATCH, &json!({"metadata": {"finalizers": ["x/two"]}})).await;
    script
        .patch(
            &m,
            STRATEGIC_PATCH,
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/one"]}}),
        )
        .await;
    script.patch(&m, STRATEGIC_PATCH, &json!({"metadata": {"finalizers": null}})).await;
    script
        .patch(&m, STRATEGIC_PATCH, &json!({"data": {"$patch": "replace", "only": "this"}}))
        .await;
    script.patch(&m, STRATEGIC_PATCH, &json!({"data": {"n": 1}})).await;
    script.patch(&m, MERGE_PATCH, &json!({"data": {"n": 1}})).await;
    script.patch(&m, JSON_PATCH, &json!([{"op": "add", "path": "/data/n", "value": "2"}])).await;
    script.patch(&m, MERGE_PATCH, &json!({"typo": 1})).await;
    script.patch(&format!("{m}?fieldValidation=Strict"), MERGE_PATCH, &json!({"typo": 1})).await;
    script
        .put(&m, &object("ConfigMap", "m", &json!({"data": {"put": "x"}, "immutable": true})))
        .await;
    script.patch(&m, MERGE_PATCH, &json!({"data": {"b": "y"}})).await;
    script.patch(&m, MERGE_PATCH, &json!({"immutable": false})).await;
    script.patch(&m, MERGE_PATCH, &json!({"metadata": {"labels": {"a": "c"}}})).await;
    script.put(&format!("{maps}/new"), &object("ConfigMap", "new", &json!({}))).await;
    script.get_as(&m, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    script.get(&format!("{maps}?fieldSelector=data%3Dx")).await;
    script.delete(&m, &Value::Null).await;
    script.end("configmaps");
}

#[tokio::test]
async fn requests_for_secrets_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let secrets = server.core("secrets");
    for members in [
        json!({"data": {"a": "eA=="}}),
        json!({"data": {"a": "?"}}),
        json!({"data": {"a": 1}}),
        json!({"stringData": {"a": "x"}}),
        json!({"stringData": {"a": null}}),
        json!({"stringData": {"": null}}),
        json!({"data": {"a": "eA=="}, "stringData": {"a": "y"}}),
        json!({"data": {"a b": "eA=="}}),
        json!({"type": ""}),
        json!({"type": "t"}),
    ] {
        script.post(&format!("{secrets}?dryRun=All"), &object("Secret", "s", &members)).await;
    }
    script
        .post(&secrets, &object("Secret", "s", &json!({"type": "t", "stringData": {"k": "v"}})))
        .await;
    let s = format!("{secrets}/s");
    script.patch(&s, MERGE_PATCH, &json!({"type": "other"})).await;
    script.patch(&s, MERGE_PATCH, &json!({"stringData": {"k": "w"}})).await;
    script.patch(&s, MERGE_PATCH, &json!({"immutable": true})).await;
    script.patch(&s, MERGE_PATCH, &json!({"data": {"k": "eA=="}})).await;
    script.get_as(&s, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    script.get(&format!("{secrets}?fieldSelector=type%3Dt")).await;
    script.end("secrets");
}

#[tokio::test]
async fn requests_for_leases_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", server.namespace());
    for spec in [
        json!({}),
        json!({"holderIdentity": "me", "leaseDurationSeconds": 0}),
        json!({"leaseDurationSeconds": -1}),
        json!({"leaseTransitions": -1}),
        json!({"renewTime": "soon"}),
        json!({"renewTime": "2001-01-02T03:04:05Z"}),
        json!({"renewTime": "2001-01-02T03:04:05.000006Z"}),
        json!({"leaseDurationSeconds": "x"}),
        json!({"holderIdentity": ""}),
        json!({"preferredHolder": "you"}),
    ] {
        script
            .post(&format!("{leases}?dryRun=All"), &object("Lease", "l", &json!({"spec": spec})))
            .await;
    }
    script.post(&leases, &object("Lease", "l", &json!({"spec": {"holderIdentity": "me"}}))).await;
    let stored = script.get(&format!("{leases}/l")).await;
    script
        .put(
            &format!("{leases}/l"),
            &object("Lease", "l", &json!({"spec": {"holderIdentity": "you"}})),
        )
        .await;
    script.put(&format!("{leases}/l"), &stored).await;
    script
        .patch(&format!("{leases}/l"), MERGE_PATCH, &json!({"spec": {"holderIdentity": null}}))
        .await;
    script.get_as(&leases, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    script.end("leases");
}

#[tokio::test]
async fn requests_for_events_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let (old, new) = (
        server.core("events"),
        format!("/apis/events.k8s.io/v1/namespaces/{}/events", server.namespace()),
    );
    let about = json!({"kind": "Widget", "namespace": server.namespace(), "name": "a"});
    for members in [
        json!({"involvedObject": about}),
        json!({"involvedObject": about, "type": "Odd", "reason": "R", "message": "m", "count": 3, "firstTimestamp": "2001-01-01T00:00:00Z", "lastTimestamp": "2001-01-01T00:00:00Z", "source": {"component": "c"}}),
        json!({"involvedObject": about, "eventTime": "2001-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"}),
    ] {
        script.post(&format!("{old}?dryRun=All"), &object("Event", "e", &members)).await;
    }
    let whole = json!({"regarding": about, "eventTime": "2001-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal", "note": "n"});
    let mut event = object("Event", "e", &whole);
    event["apiVersion"] = json!("events.k8s.io/v1");
    script.post(&new, &event).await;
    script.get(&format!("{old}/e")).await;
    script.get(&format!("{old}?fieldSelector=involvedObject.name%3Da,reason%3DR")).await;
    script
        .patch(
            &format!("{new}/e"),
            MERGE_PATCH,
            &json!({"series": {"count": 2, "lastObservedTime": "2001-01-01T00:00:00.000000Z"}}),
        )
        .await;
    script.end("events");
}

#[tokio::test]
async fn requests_for_namespaces_get_the_recorded_answers() {
    let server = Server::start().await;
    let mut script = Script::new(&server);
    let all = "/api/v1/namespaces";
    let other = format!("{}-2", server.namespace());
    for name in ["Upper", "a.b", ""] {
        script.post(&format!("{all}?dryRun=All"), &object("Namespace", name, &json!({}))).await;
    }
    script
        .post(
            all,
            &object(
                "Namespace",
                &other,
                &json!({"spec": {"finalizers": ["x/y"]}, "status": {"phase": "Terminating"}}),
            ),
        )
        .await;
    script.post(all, &object("Namespace", &other, &json!({}))).await;
    let path = format!("{all}/{other}");
    script.patch(&path, MERGE_PATCH, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    script.patch(&path, MERGE_PATCH, &json!({"spec": {"finalizers": []}})).await;
    script
        .patch(
            &path,
            MERGE_PATCH,
            &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}}),
        )
        .await;
    script.patch(&path, MERGE_PATCH, &json!({"metadata": {"labels": null}})).await;
    script
        .patch(&format!("{path}/status"), MERGE_PATCH, &json!({"status": {"phase": "Active"}}))
        .await;
    script.get_as(&path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    for name in ["default", "kube-system"] {
        script.delete(&format!("{all}/{name}"), &Value::Null).await;
    }
    script.delete(&path, &json!({"preconditions": {"uid": "other"}})).await;
    script.delete(&format!("{path}?dryRun=All"), &Value::Null).await;
    script.end("namespaces");
}
