//! The work of a controller, through kube's own client and watcher.

use crate::server::Server;
use futures::TryStreamExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube::runtime::watcher::{self, Event};
use serde_json::json;

pub(crate) fn widgets(server: &Server) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(server.group(), "v1", "Widget");
    Api::namespaced_with(server.client(), server.namespace(), &ApiResource::from_gvk(&kind))
}

pub(crate) fn object(server: &Server, name: &str) -> DynamicObject {
    serde_json::from_value(server.draft(name, json!({"node": "n1"}))).unwrap()
}

#[tokio::test]
async fn an_object_is_created_patched_listed_and_deleted_by_a_kube_client() {
    let server = Server::start().await;
    let api = widgets(&server);
    let created = api.create(&PostParams::default(), &object(&server, "a")).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    assert_eq!(created.data["spec"]["count"], 1, "the default is filled in");

    let finalizer = json!({"metadata": {"finalizers": ["test.example/hold"]}});
    api.patch("a", &PatchParams::default(), &Patch::Merge(&finalizer)).await.unwrap();
    let status = json!({"status": {"ready": true}, "spec": {"node": "ignored"}});
    let patched =
        api.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(
        (&patched.data["status"]["ready"], &patched.data["spec"]["node"]),
        (&json!(true), &json!("n1"))
    );
    assert_eq!(patched.metadata.generation, Some(1));

    let pending = api.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(pending.metadata.deletion_timestamp.is_some());
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("a", &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_kube_client_recognizes_an_existing_name_and_an_outdated_revision() {
    let server = Server::start().await;
    let api = widgets(&server);
    let first = api.create(&PostParams::default(), &object(&server, "a")).await.unwrap();
    let error = api.create(&PostParams::default(), &object(&server, "a")).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_already_exists()));

    let mut second = first.clone();
    second.data["spec"]["count"] = json!(2);
    api.replace("a", &PostParams::default(), &second).await.unwrap();
    let error = api.replace("a", &PostParams::default(), &second).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
}

#[tokio::test]
async fn later_pages_of_a_list_show_the_state_at_the_first_page() {
    let server = Server::start().await;
    let api = widgets(&server);
    for name in ["a", "b", "c", "d", "e"] {
        api.create(&PostParams::default(), &object(&server, name)).await.unwrap();
    }
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.items.len(), 2);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    // The second page still shows an object that was deleted between the two pages.
    api.delete("c", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &object(&server, "cc")).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let rest = api.list(&ListParams::default().continue_token(&token)).await.unwrap();
    let names: Vec<_> =
        rest.items.iter().filter_map(|item| item.metadata.name.as_deref()).collect();
    assert_eq!(names, ["c", "d", "e"]);
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
}

async fn watcher_sees(config: watcher::Config) {
    let server = Server::start().await;
    let api = widgets(&server);
    api.create(&PostParams::default(), &object(&server, "a")).await.unwrap();
    // The watcher lists at revision 0, which a real server answers from its cache; the cache may lag behind the latest
    // write.
    let cached = async || {
        let list = server.get("widgets?resourceVersion=0").await.expect(200);
        list["items"].as_array().is_some_and(|items| !items.is_empty())
    };
    server.eventually("the cache holds the object", cached).await;
    let events = watcher::watcher(api.clone(), config);
    futures::pin_mut!(events);
    let mut next = async || events.try_next().await.unwrap().unwrap();
    assert!(matches!(next().await, Event::Init));
    assert!(
        matches!(next().await, Event::InitApply(object) if object.metadata.name.as_deref() == Some("a"))
    );
    assert!(matches!(next().await, Event::InitDone));
    api.create(&PostParams::default(), &object(&server, "b")).await.unwrap();
    assert!(
        matches!(next().await, Event::Apply(object) if object.metadata.name.as_deref() == Some("b"))
    );
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(
        matches!(next().await, Event::Delete(object) if object.metadata.name.as_deref() == Some("a"))
    );
}

#[tokio::test]
async fn a_watcher_that_lists_first_sees_every_change() {
    watcher_sees(watcher::Config::default()).await;
}

#[tokio::test]
async fn a_watcher_that_streams_its_list_sees_every_change() {
    watcher_sees(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test]
async fn built_in_kinds_work_with_typed_clients() {
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Namespace, Secret};
    use k8s_openapi::api::events::v1::Event as NewEvent;
    let server = Server::start().await;
    let namespaces: Api<Namespace> = Api::all(server.client());
    let names: Vec<_> = namespaces
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|n| n.metadata.name)
        .collect();
    assert!(["default", "kube-system"].iter().all(|name| names.contains(&(*name).to_owned())));

    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"a": "b"}})).unwrap();
    assert_eq!(maps.create(&PostParams::default(), &map).await.unwrap().data, map.data);

    let secrets: Api<Secret> = Api::default_namespaced(server.client());
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}}))
            .unwrap();
    let secret = secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(secret.data.unwrap()["k"].0, b"v");
    assert_eq!((secret.type_.as_deref(), secret.string_data), (Some("Opaque"), None));

    let leases: Api<Lease> = Api::default_namespaced(server.client());
    let lease: Lease = serde_json::from_value(
        json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
    )
    .unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();

    let newer: Api<NewEvent> = Api::default_namespaced(server.client());
    let event: NewEvent =
        serde_json::from_value(json!({"metadata": {"generateName": "e-"}, "note": "hello",
        "regarding": {"kind": "Widget", "name": "a", "namespace": server.namespace()}, "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "test.example/suite", "reportingInstance": "suite-1", "action": "Tested", "reason": "Asked", "type": "Normal"}))
        .unwrap();
    let event = newer.create(&PostParams::default(), &event).await.unwrap();
    assert!(event.metadata.name.unwrap().starts_with("e-"));
    let older: Api<CoreEvent> = Api::default_namespaced(server.client());
    let params = ListParams::default().fields("involvedObject.name=a");
    let found = older.list(&params).await.unwrap().items;
    assert_eq!(found.first().and_then(|event| event.message.as_deref()), Some("hello"));
}
