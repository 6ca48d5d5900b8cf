use futures::StreamExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, WatchEvent, WatchParams};
use proto::v1::to_node::Message as CoordinatorMessage;
use serde_json::json;

use crate::agent::{Agent, hello, object, with_agent};
use crate::standalone_coordinator::{DEADLINE, StandaloneCoordinator, status, wait_for};

#[tokio::test]
async fn the_coordinator_writes_a_mount_four_times_in_its_life_cycle() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, mut agent) = with_agent(&directory).await;
    let mounts = coordinator.mounts("compute-1");
    let created = coordinator.create_mount("compute-1", "job", "compute-1").await;
    let version = created.metadata.resource_version.unwrap();
    let mut events = mounts.watch(&WatchParams::default(), &version).await.unwrap().boxed();

    let desired = agent.desired().await;
    assert_eq!(
        object(&desired)["metadata"]["finalizers"],
        json!(["nnf.cray.hpe.com/nnf_clientmount"])
    );
    assert!(desired.profile_missing.is_empty() && !desired.profile.is_empty());
    agent.report(&desired, &status("mounted"), false).await;
    agent.report(&desired, &status("mounted"), false).await;
    coordinator.await_status("compute-1", "job", status("mounted")).await;
    agent.report(&desired, &status("mounted"), false).await;

    coordinator.set_desired("compute-1", "job", "unmounted").await;
    let desired = agent.desired().await;
    assert_eq!(object(&desired)["spec"]["desiredState"], "unmounted");
    agent.report(&desired, &status("unmounted"), true).await;
    coordinator.await_status("compute-1", "job", status("unmounted")).await;

    mounts.delete("job", &DeleteParams::default()).await.unwrap();
    let desired = agent.desired().await;
    assert!(object(&desired)["metadata"]["deletionTimestamp"].is_string());
    agent.report(&desired, &status("unmounted"), true).await;
    assert!(
        matches!(agent.next().await.unwrap(), CoordinatorMessage::Gone(gone) if gone.name == "job")
    );

    // The coordinator writes the finalizer, the status mounted and the status unmounted, and removes the finalizer,
    // which also deletes the object. The user writes the spec and the deletion.
    let mut changes = Vec::new();
    loop {
        let event = tokio::time::timeout(DEADLINE, events.next()).await.unwrap().unwrap().unwrap();
        match event {
            WatchEvent::Modified(object) => changes.push(summary(&object)),
            WatchEvent::Deleted(_) => break,
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Added(_) | WatchEvent::Error(_) => panic!("{event:?}"),
        }
    }
    assert_eq!(
        changes,
        [
            "mounted, reported nothing, finalizer",
            "mounted, reported mounted, finalizer",
            "unmounted, reported mounted, finalizer",
            "unmounted, reported unmounted, finalizer",
            "unmounted, reported unmounted, finalizer, deleting"
        ]
    );
    coordinator.stop().await;
}

fn summary(object: &DynamicObject) -> String {
    let text = |pointer: &str| {
        object
            .data
            .pointer(pointer)
            .and_then(|value| value.as_str())
            .unwrap_or("nothing")
            .to_owned()
    };
    let finalizers = object.metadata.finalizers.as_ref();
    let finalizer = if finalizers.is_some_and(|finalizers| !finalizers.is_empty()) {
        ", finalizer"
    } else {
        ""
    };
    let deleting = if object.metadata.deletion_timestamp.is_some() { ", deleting" } else { "" };
    format!(
        "{}, reported {}{finalizer}{deleting}",
        text("/spec/desiredState"),
        text("/status/mounts/0/state")
    )
}

#[tokio::test]
async fn the_finalizer_is_added_only_once_the_nodes_agent_is_connected() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    coordinator.create_profile().await;
    coordinator.create_mount("compute-1", "waiting", "compute-1").await;
    // The life cycle of another node's object shows that the coordinator has had the time to add the finalizer.
    let mut other = Agent::connect(coordinator.socket(), hello("compute-2", 1)).await.unwrap();
    other.synced().await;
    coordinator.create_mount("compute-2", "job", "compute-2").await;
    let desired = other.desired().await;
    other.report(&desired, &status("mounted"), false).await;
    coordinator.await_status("compute-2", "job", status("mounted")).await;
    let waiting = coordinator.mounts("compute-1").get("waiting").await.unwrap();
    assert_eq!(waiting.metadata.finalizers, None);

    let mut agent = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    assert_eq!(agent.desired().await.name, "waiting");
    agent.synced().await;
    coordinator.stop().await;
}

#[tokio::test]
async fn a_node_receives_gone_when_another_client_removes_the_finalizer_of_a_deleted_object() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, mut agent) = with_agent(&directory).await;
    coordinator.create_mount("compute-1", "job", "compute-1").await;
    let desired = agent.desired().await;
    let mounts = coordinator.mounts("compute-1");
    mounts.delete("job", &DeleteParams::default()).await.unwrap();
    assert_eq!(agent.desired().await.uid, desired.uid);
    let without_finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    mounts.patch("job", &PatchParams::default(), &without_finalizers).await.unwrap();
    match agent.next().await.unwrap() {
        CoordinatorMessage::Gone(gone) => assert_eq!(gone.uid, desired.uid),
        other => panic!("{other:?}"),
    }
    coordinator.await_gone("compute-1", "job").await;
    coordinator.stop().await;
}

/// If another client overwrites a reported status, the node reports again.
#[tokio::test]
async fn an_object_with_an_overwritten_status_is_sent_to_the_node_again() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, mut agent) = with_agent(&directory).await;
    coordinator.create_mount("compute-1", "job", "compute-1").await;
    let desired = agent.desired().await;
    agent.report(&desired, &status("mounted"), false).await;
    coordinator.await_status("compute-1", "job", status("mounted")).await;
    for overwritten in [status("unmounted"), json!({"mounts": [], "allReady": false}), json!(null)]
    {
        coordinator.overwrite_status("compute-1", "job", &overwritten).await;
        let again = agent.desired().await;
        assert_eq!(again.uid, desired.uid);
        agent.report(&again, &status("mounted"), false).await;
        coordinator.await_status("compute-1", "job", status("mounted")).await;
    }
    // The coordinator's own writes cause no message: the next message is about another object.
    coordinator.create_mount("compute-1", "next", "compute-1").await;
    assert_eq!(agent.desired().await.name, "next");
    coordinator.stop().await;
}

#[tokio::test]
async fn an_object_is_sent_without_its_missing_profile_and_again_once_the_profile_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    let mut agent = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    agent.synced().await;
    coordinator.create_mount("compute-1", "job", "compute-1").await;
    let without = agent.desired().await;
    assert!(without.profile.is_empty());
    assert!(
        without.profile_missing.contains("default/pinned does not exist"),
        "{}",
        without.profile_missing
    );
    coordinator.create_profile().await;
    let with = agent.desired().await;
    assert!(with.profile_missing.is_empty() && !with.profile.is_empty());
    agent.report(&with, &status("mounted"), false).await;
    coordinator.await_status("compute-1", "job", status("mounted")).await;
    coordinator.stop().await;
}

#[tokio::test]
async fn fifty_objects_at_once_are_all_sent_and_their_reports_are_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, mut agent) = with_agent(&directory).await;
    for index in 0..50 {
        coordinator.create_mount("compute-1", &format!("job-{index}"), "compute-1").await;
    }
    for _ in 0..50 {
        let desired = agent.desired().await;
        agent.report(&desired, &status("mounted"), false).await;
    }
    for index in 0..50 {
        coordinator.await_status("compute-1", &format!("job-{index}"), status("mounted")).await;
    }
    wait_for(coordinator.mounts("compute-1"), "job-0", |object: Option<&DynamicObject>| {
        object.is_some()
    })
    .await;
    coordinator.stop().await;
}
