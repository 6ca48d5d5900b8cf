//! Claims of container runs (the right of one coordinator to work on a run) on the embedded API. `privilege/claims.rs`
//! has the same cases on a real API server.

use anyhow::{Context, ensure};
use api::{ContainerRun, ContainerRunSpec};
use control_plane::client;
use kube::{
    Api,
    api::{Patch, PostParams},
};
use serde_json::json;
use tests::{
    claims::{Coordinator, NAMESPACE, contested, refusal, renewed},
    cluster::PATIENCE,
    program::Program,
};

/// User name that the embedded API gives every client that sends its token.
const USER: &str = "admin";

#[test]
fn one_of_two_coordinators_claims_a_run_and_the_embedded_api_refuses_the_other()
-> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let at = directory.path();
    let _coordinator = Program::coordinator(at)?;
    let kubeconfig = at.join("data/kubeconfig");
    tokio::runtime::Runtime::new()?.block_on(async {
        let served = async {
            loop {
                if let Ok(client) = client(&kubeconfig).await
                    && client.apiserver_version().await.is_ok()
                {
                    break client;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let client = tokio::time::timeout(PATIENCE, served).await.context("the API")?;
        let [c1, c2] = ["1", "2"].map(|nonce| Coordinator::new(client.clone(), USER, nonce));
        contested(&client, &c1, &c2).await?;
        renewed(&c1, &c2).await?;
        foreign_claim_is_refused_by_user(&client).await
    })
}

/// Scenario S3.1 of `crates/containers/src/claim/scenarios.rs`: who may write depends on the user of the request, not
/// on the holder that the object names.
async fn foreign_claim_is_refused_by_user(client: &kube::Client) -> anyhow::Result<()> {
    let spec: ContainerRunSpec = serde_json::from_value(json!({}))?;
    let runs: Api<ContainerRun> = Api::namespaced(client.clone(), NAMESPACE);
    let run = runs.create(&PostParams::default(), &ContainerRun::new("stolen", spec)).await?;
    let claim = json!({"holder": "somebody/1", "epoch": 1});
    let status = json!({
        "claim": claim, "writer": {"holder": "somebody/1", "epoch": 1, "seq": 1},
        "phase": "Claimed", "attempt": 1,
    });
    let why = refusal(client, &run, &Patch::Merge(json!({"status": status}))).await?;
    ensure!(why.contains("V1") && !why.contains("R9"), "{why}");
    Ok(())
}
