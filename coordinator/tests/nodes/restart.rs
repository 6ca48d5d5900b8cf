use std::collections::BTreeMap;

use crate::agent::{Agent, hello, with_agent};
use crate::standalone_coordinator::{StandaloneCoordinator, status};

const COUNT: usize = 20;

#[tokio::test]
async fn reports_from_before_and_after_a_restart_of_the_coordinator_are_all_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, mut agent) = with_agent(&directory).await;
    for index in 0..COUNT {
        coordinator.create_mount("compute-1", &format!("job-{index}"), "compute-1").await;
    }
    let mut known = BTreeMap::new();
    for _ in 0..COUNT {
        let desired = agent.desired().await;
        // Only half of the reports are sent before the coordinator ends.
        if known.len() < COUNT / 2 {
            agent.report(&desired, &status("mounted"), false).await;
        }
        known.insert(desired.name.clone(), desired);
    }
    coordinator.stop().await;
    assert!(agent.next().await.is_err());

    let coordinator = StandaloneCoordinator::start(&directory).await;
    let mut agent = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    for desired in known.values() {
        agent.report(desired, &status("mounted"), false).await;
    }
    let mut received = Vec::new();
    for _ in 0..COUNT {
        let desired = agent.desired().await;
        agent.report(&desired, &status("mounted"), false).await;
        received.push(desired.name);
    }
    agent.synced().await;
    received.sort();
    assert_eq!(received, known.keys().cloned().collect::<Vec<_>>());
    for name in known.keys() {
        coordinator.await_status("compute-1", name, status("mounted")).await;
    }
    coordinator.stop().await;
}

#[tokio::test]
async fn each_of_two_coordinators_of_one_api_serves_the_node_that_is_connected_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    coordinator.create_profile().await;
    let replica = coordinator.start_replica(&directory).await;
    let mut here = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    let mut there = Agent::connect(&replica, hello("compute-2", 1)).await.unwrap();
    here.synced().await;
    there.synced().await;
    for node in ["compute-1", "compute-2"] {
        coordinator.create_mount(node, "job", node).await;
    }
    for (agent, node) in [(&mut here, "compute-1"), (&mut there, "compute-2")] {
        let desired = agent.desired().await;
        assert_eq!(desired.namespace, node);
        agent.report(&desired, &status("mounted"), false).await;
        coordinator.await_status(node, "job", status("mounted")).await;
    }
    coordinator.stop().await;
}
