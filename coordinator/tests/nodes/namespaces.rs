use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams};

use crate::agent::{Agent, hello, object};
use crate::standalone_coordinator::{StandaloneCoordinator, status, wait_for};

/// Without its namespace a node has no ClientMounts, and no object reports the reason.
#[tokio::test]
async fn a_deleted_namespace_is_created_again() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = StandaloneCoordinator::start(&directory).await;
    coordinator.create_profile().await;
    let namespaces: Api<Namespace> = Api::all(coordinator.client.clone());
    for _ in 0..2 {
        let deleted = namespaces.get("compute-1").await.unwrap().metadata.uid;
        namespaces.delete("compute-1", &DeleteParams::default()).await.unwrap();
        wait_for(namespaces.clone(), "compute-1", move |now: Option<&Namespace>| {
            now.is_some_and(|now| now.metadata.uid != deleted)
        })
        .await;
    }
    let mut agent = Agent::connect(coordinator.socket(), hello("compute-1", 1)).await.unwrap();
    agent.synced().await;
    coordinator.create_mount("compute-1", "job", "compute-1").await;
    let desired = agent.desired().await;
    assert_eq!(object(&desired)["metadata"]["name"], "job");
    agent.report(&desired, &status("mounted"), false).await;
    coordinator.await_status("compute-1", "job", status("mounted")).await;
    coordinator.stop().await;
}
