//! Tests that a rabbit whose agent is silent is Offline for workload managers, and Ready again with the next session.

use std::time::Duration;

use api::{NnfNode, Storage};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Resource,
    api::{Api, Patch, PatchParams, PostParams},
};
use proto::v1::{Alive, FromNode, Hello, Role, from_node::Message};
use serde_json::json;
use tempfile::TempDir;

use crate::agent::{Agent, hello};
use crate::standalone_coordinator::{StandaloneCoordinator, wait_for};

const RABBIT: &str = "rabbit-1";

async fn start(directory: &TempDir) -> StandaloneCoordinator {
    let settings = workflow::Settings {
        silent_after: Some(Duration::from_secs(3)),
        ..workflow::Settings::default()
    };
    StandaloneCoordinator::start_as(directory, None, Some(settings)).await
}

fn rabbit(started_at: u64) -> Hello {
    Hello { role: Role::Rabbit.into(), alive_every: 1, ..hello(RABBIT, started_at) }
}

/// Creates the rabbit's NnfNode, whose agent has reported that all is well.
async fn report_ready(coordinator: &StandaloneCoordinator) {
    let nodes: Api<NnfNode> = Api::namespaced(coordinator.client.clone(), RABBIT);
    let node = json!({
        "apiVersion": NnfNode::api_version(&()), "kind": "NnfNode", "metadata": {"name": "nnf-nlc"},
        "spec": {"name": "nnf-nlc", "pod": "", "state": "Enable"}
    });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let status = Patch::Merge(
        json!({"status": {"status": "Ready", "health": "OK", "capacity": 1, "fenced": false}}),
    );
    nodes.patch_status("nnf-nlc", &PatchParams::default(), &status).await.unwrap();
}

/// Waits until the rabbit's Storage has this status; returns its message.
async fn message_with(coordinator: &StandaloneCoordinator, status: &str) -> String {
    let storages: Api<Storage> = Api::namespaced(coordinator.client.clone(), "default");
    let wanted = status.to_owned();
    let is_there = move |storage: Option<&Storage>| {
        let status = storage.and_then(|storage| storage.status.as_ref());
        status.and_then(|status| status.status.as_ref()).is_some_and(|s| s.to_string() == wanted)
    };
    wait_for(storages.clone(), RABBIT, is_there).await;
    storages.get(RABBIT).await.unwrap().status.unwrap().message
}

#[tokio::test]
async fn a_rabbit_is_offline_while_its_agent_has_no_session_or_says_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = start(&directory).await;
    report_ready(&coordinator).await;
    message_with(&coordinator, "Ready").await;

    let agent = Agent::connect(coordinator.socket(), rabbit(1)).await.unwrap();
    // Nothing is sent although the connection stays open, as by a stopped process.
    let before = Timestamp::now();
    let message = message_with(&coordinator, "Offline").await;
    assert!(message.starts_with("the agent of rabbit-1 is silent since "), "{message}");
    assert!(Timestamp::now().duration_since(before).as_secs() >= 1, "not at once");

    let alive = || FromNode { message: Some(Message::Alive(Alive {})) };
    agent.send(alive()).await;
    assert_eq!(message_with(&coordinator, "Ready").await, "");
    drop(agent);
    message_with(&coordinator, "Offline").await;
    let agent = Agent::connect(coordinator.socket(), rabbit(2)).await.unwrap();
    message_with(&coordinator, "Ready").await;
    drop(agent);
    coordinator.stop().await;
}

#[tokio::test]
async fn a_coordinator_that_has_just_begun_knows_that_a_rabbit_had_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = start(&directory).await;
    report_ready(&coordinator).await;
    let agent = Agent::connect(coordinator.socket(), rabbit(1)).await.unwrap();
    let storages: Api<Storage> = Api::namespaced(coordinator.client.clone(), "default");
    let is_noted = |storage: Option<&Storage>| {
        let annotations = storage.and_then(|storage| storage.metadata.annotations.as_ref());
        annotations.is_some_and(|all| all.contains_key(api::names::annotation::HAD_SESSION))
    };
    wait_for(storages, RABBIT, is_noted).await;
    coordinator.stop().await;
    drop(agent);

    let coordinator = start(&directory).await;
    let message = message_with(&coordinator, "Offline").await;
    assert!(message.contains("when this coordinator began"), "{message}");
    coordinator.stop().await;
}
