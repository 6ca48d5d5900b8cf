use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use proto::v1::{MountReport, Role};
use serde_json::json;
use tonic::Code;

use crate::agent::{Agent, hello, with_agent};
use crate::standalone_coordinator::{StandaloneCoordinator, status, wait_for};

#[tokio::test]
async fn a_report_on_another_nodes_object_ends_the_session_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    coordinator.create_profile().await;
    let victim = coordinator.create_mount("compute-2", "job", "compute-2").await;
    let mut agent = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    agent.synced().await;
    agent
        .send_report(MountReport {
            namespace: "compute-2".to_owned(),
            name: "job".to_owned(),
            uid: victim.metadata.uid.clone().unwrap(),
            observed_resource_version: victim.metadata.resource_version.clone().unwrap(),
            status: serde_json::to_vec(&status("mounted")).unwrap(),
            released: true,
        })
        .await;
    let end = agent.next().await.unwrap_err();
    assert_eq!(end.code(), Code::PermissionDenied);
    assert!(end.message().contains("compute-2/job"), "{}", end.message());
    let after = coordinator.mounts("compute-2").get("job").await.unwrap();
    assert_eq!(after.metadata.resource_version, victim.metadata.resource_version);
    coordinator.stop().await;
}

#[tokio::test]
async fn an_invalid_report_is_dropped_and_the_session_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, mut agent) = with_agent(&directory).await;
    coordinator.create_mount("compute-1", "job", "compute-1").await;
    let desired = agent.desired().await;
    agent.report(&desired, &json!({"mounts": []}), false).await;
    agent.report(&desired, &json!("mounted"), false).await;
    agent.report(&desired, &status("mounted"), false).await;
    coordinator.await_status("compute-1", "job", status("mounted")).await;
    coordinator.stop().await;
}

#[tokio::test]
async fn the_status_of_an_object_in_another_nodes_namespace_says_that_it_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, mut agent) = with_agent(&directory).await;
    for namespace in ["compute-1", "default"] {
        coordinator.create_mount(namespace, "stray", "compute-2").await;
        wait_for(coordinator.mounts(namespace), "stray", |object: Option<&DynamicObject>| {
            object.is_some_and(|object| {
                object.data.pointer("/status/error/severity") == Some(&json!("Fatal"))
            })
        })
        .await;
        let stray = coordinator.mounts(namespace).get("stray").await.unwrap();
        let error = &stray.data["status"]["error"];
        assert_eq!(error["type"], "User");
        let message = error["userMessage"].as_str().unwrap();
        assert!(message.contains(namespace) && message.contains("\"compute-2\""), "{message}");
        assert_eq!(stray.metadata.finalizers, None);
        assert_eq!(stray.data["status"]["mounts"], json!([{"state": "mounted", "ready": false}]));
        // No agent reports on this object, so the coordinator itself writes a refusal again that was overwritten.
        coordinator.overwrite_status(namespace, "stray", &status("mounted")).await;
        coordinator.await_status(namespace, "stray", stray.data["status"].clone()).await;
    }
    // The node received neither of the two refused objects: its first message is about its own object.
    coordinator.create_mount("compute-1", "job", "compute-1").await;
    assert_eq!(agent.desired().await.name, "job");
    coordinator.stop().await;
}

#[tokio::test]
async fn the_coordinator_does_not_change_client_mounts_of_a_rabbit() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    coordinator.create_profile().await;
    let created = coordinator.create_mount("rabbit-1", "job", "rabbit-1").await;
    coordinator.create_mount("rabbit-1", "stray", "compute-2").await;
    let mut rabbit = hello("rabbit-1", 1);
    rabbit.role = Role::Rabbit.into();
    let mut agent = Agent::connect(coordinator.socket(), rabbit).await.unwrap();
    agent
        .send_report(MountReport {
            namespace: "rabbit-1".to_owned(),
            name: "job".to_owned(),
            uid: created.metadata.uid.clone().unwrap(),
            observed_resource_version: created.metadata.resource_version.clone().unwrap(),
            status: serde_json::to_vec(&status("mounted")).unwrap(),
            released: false,
        })
        .await;
    assert_eq!(agent.next().await.unwrap_err().code(), Code::PermissionDenied);
    for name in ["job", "stray"] {
        let after = coordinator.mounts("rabbit-1").get(name).await.unwrap();
        assert!(after.metadata.finalizers.is_none() && after.data.get("status").is_none());
    }
    coordinator.stop().await;
}

/// A node that the SystemConfiguration does not name counts as a rabbit while its agent's hello says so.
#[tokio::test]
async fn a_node_that_is_not_configured_is_a_rabbit_only_while_its_hello_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    let namespaces: Api<Namespace> = Api::all(coordinator.client.clone());
    let metadata = ObjectMeta { name: Some("rabbit-9".to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let refused = |object: Option<&DynamicObject>| {
        let severity = object.and_then(|object| object.data.pointer("/status/error/severity"));
        severity == Some(&json!("Fatal"))
    };
    let mut rabbit = hello("rabbit-9", 1);
    rabbit.role = Role::Rabbit.into();
    let _rabbit = Agent::connect(coordinator.socket(), rabbit).await.unwrap();
    coordinator.create_mount("rabbit-9", "stray", "compute-2").await;
    // Once another object is refused, the coordinator has had the time to refuse this object too.
    coordinator.create_mount("compute-1", "stray", "compute-2").await;
    wait_for(coordinator.mounts("compute-1"), "stray", refused).await;
    let stray = coordinator.mounts("rabbit-9").get("stray").await.unwrap();
    assert_eq!(stray.data.get("status"), None);
    let _compute = Agent::connect(coordinator.socket(), hello("rabbit-9", 2)).await.unwrap();
    wait_for(coordinator.mounts("rabbit-9"), "stray", refused).await;
    coordinator.stop().await;
}

/// The coordinator relies on this answer: it shows that the object has changed since the coordinator read it.
#[tokio::test]
async fn the_api_answers_a_patch_of_an_old_version_with_a_conflict() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    let created = coordinator.create_mount("compute-1", "job", "compute-1").await;
    coordinator.set_desired("compute-1", "job", "unmounted").await;
    let operations = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": created.metadata.resource_version.unwrap()},
        {"op": "add", "path": "/status", "value": status("mounted")}
    ]);
    let patch = Patch::Json::<()>(serde_json::from_value(operations).unwrap());
    let mounts = coordinator.mounts("compute-1");
    let refused = mounts.patch_status("job", &PatchParams::default(), &patch).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
    assert!(mounts.get("job").await.unwrap().data.get("status").is_none());
    coordinator.stop().await;
}

#[tokio::test]
async fn a_hello_with_an_invalid_node_name_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    let nameless = Agent::connect(coordinator.socket(), hello("", 1)).await.err().unwrap();
    assert_eq!(nameless.code(), Code::InvalidArgument);
    assert!(nameless.message().contains("--node"));
    let long = "x".repeat(100_000);
    for name in ["a/b", "a\nb", "a\u{1b}[2J", &long] {
        let refused = Agent::connect(coordinator.socket(), hello(name, 1)).await.err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument, "{name}");
        assert!(refused.message().starts_with("hello"), "{}", refused.message());
    }
    coordinator.stop().await;
}
