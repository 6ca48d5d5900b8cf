use proto::v1::cluster_client::ClusterClient;
use proto::v1::{Health, ListNodesRequest, ListNodesResponse, NodeRecord};
use tonic::Code;

use crate::agent::{Agent, channel, hello};
use crate::standalone_coordinator::{StandaloneCoordinator, status};

#[tokio::test]
async fn the_newer_of_two_agents_of_a_node_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    coordinator.create_profile().await;
    coordinator.create_mount("compute-1", "job", "compute-1").await;
    let mut old = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    let desired = old.desired().await;
    old.synced().await;

    let mut new = Agent::connect(coordinator.socket(), hello("compute-1", 2)).await.unwrap();
    let end = old.next().await.unwrap_err();
    assert_eq!(end.code(), Code::Aborted);
    assert!(
        end.message().starts_with("superseded by a newer agent of this node (boot boot-1)"),
        "{}",
        end.message()
    );
    let again = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.err().unwrap();
    assert_eq!(again.code(), Code::FailedPrecondition);

    let mut rebooted = hello("compute-1", 1);
    rebooted.boot_id = "boot-2".to_owned();
    rebooted.booted_at += 60;
    let mut newest = Agent::connect(coordinator.socket(), rebooted).await.unwrap();
    assert_eq!(newest.desired().await.uid, desired.uid);
    newest.synced().await;
    new.desired().await;
    new.synced().await;
    assert_eq!(new.next().await.unwrap_err().code(), Code::Aborted);
    let former = Agent::connect(coordinator.socket(), hello("compute-1", 3)).await.err().unwrap();
    assert_eq!(former.code(), Code::AlreadyExists, "{}", former.message());
    newest.report(&desired, &status("mounted"), false).await;
    coordinator.await_status("compute-1", "job", status("mounted")).await;
    coordinator.stop().await;
}

#[tokio::test]
async fn nodes_are_listed_with_location_and_session() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    let _agent = Agent::connect(coordinator.socket(), hello("compute-2", 1)).await.unwrap();
    let mut cluster = ClusterClient::new(channel(coordinator.socket()).await);
    let answer = cluster.list_nodes(ListNodesRequest {}).await.unwrap().into_inner();
    assert!(answer.gaps.is_empty(), "{:?}", answer.gaps);
    let nodes: Vec<_> = answer
        .nodes
        .iter()
        .map(|record| {
            (record.node.as_str(), record.rabbit.as_str(), record.index, record.connected)
        })
        .collect();
    assert_eq!(
        nodes,
        [
            ("compute-1", "rabbit-1", Some(0), false),
            ("compute-2", "rabbit-1", Some(1), true),
            ("rabbit-1", "", None, false)
        ]
    );
    coordinator.stop().await;
}

/// A large message of one node must not prevent the list of all nodes.
#[tokio::test]
async fn nodes_are_listed_although_a_node_has_sent_a_very_large_health_message() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    let mut cluster = ClusterClient::new(channel(coordinator.socket()).await);
    let mut agents = Vec::new();
    for (node, bytes) in [("compute-1", 1 << 20), ("compute-2", 8 << 20)] {
        let agent = Agent::connect(coordinator.socket(), hello(node, 1)).await.unwrap();
        agent.send_health(Health { message: "x".repeat(bytes), ..Health::default() }).await;
        agents.push(agent);
    }
    // A message above the limit ends the session with a reason; a long text within the limit is shortened.
    let end = loop {
        match agents[1].next().await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    assert_eq!(end.code(), Code::OutOfRange, "{}", end.message());
    let record = |answer: &ListNodesResponse, node: &str| {
        answer.nodes.iter().find(|record| record.node == node).cloned().unwrap()
    };
    let health = |record: NodeRecord| record.health.unwrap_or_default().message;
    loop {
        let answer = cluster.list_nodes(ListNodesRequest {}).await.unwrap().into_inner();
        let message = health(record(&answer, "compute-1"));
        if !message.is_empty() && !record(&answer, "compute-2").connected {
            assert!(
                message.len() <= 4096 && message.ends_with("(1048576 bytes in all)"),
                "{message}"
            );
            assert_eq!(health(record(&answer, "compute-2")), "");
            break;
        }
        tokio::task::yield_now().await;
    }
    coordinator.stop().await;
}

#[tokio::test]
async fn the_services_of_health_and_reflection_answer_on_the_unix_socket() {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    };

    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    let channel = channel(coordinator.socket()).await;
    let request = HealthCheckRequest { service: "warren.v1.NodeLink".to_owned() };
    let health = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
    assert_eq!(health.status(), ServingStatus::Serving);

    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::once(list))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(services) = answer else { panic!("{answer:?}") };
    let names: Vec<_> = services.service.iter().map(|service| service.name.as_str()).collect();
    assert!(
        names.contains(&"warren.v1.Cluster") && names.contains(&"warren.v1.NodeLink"),
        "{names:?}"
    );
    drop(answers);
    coordinator.stop().await;
}
