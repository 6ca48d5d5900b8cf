//! Tests the admission of new Workflows, with and without a running coordinator.

use anyhow::{Context, ensure};
use control_plane::client;
use kube::Client;
use serde_json::{Value, json};
use tests::{
    cluster::PATIENCE,
    gate,
    program::{Program, until},
};

use crate::{block_on, changes::workflow, cluster, on_cluster, until_ok};

/// Checks the fields that flux-coral2 reads in the answer to a creation and in the first event of a watch.
fn check_complete(created: &Value) -> anyhow::Result<()> {
    let (status, spec) = (&created["status"], &created["spec"]);
    ensure!(status["state"] == "Proposal" && status["ready"] == false, "{status}");
    ensure!(status["env"]["DW_WORKFLOW_NAME"] == created["metadata"]["name"], "{status}");
    ensure!(status["computes"]["namespace"] == "default", "{status}");
    let drivers = status["drivers"].as_array().context("drivers")?;
    let states: Vec<&Value> = drivers.iter().map(|share| &share["watchState"]).collect();
    ensure!(states == ["Proposal", "Setup", "PreRun", "PostRun", "Teardown"], "{states:?}");
    ensure!(spec["desiredState"] == "Proposal", "{spec}");
    Ok(())
}

async fn create(client: &Client, object: &Value) -> kube::Result<Value> {
    let request = http::Request::post(
        "/apis/dataworkflowservices.github.io/v1alpha7/namespaces/default/workflows",
    )
    .header("Content-Type", "application/json")
    .body(object.to_string().into_bytes())
    .map_err(|error| kube::Error::Service(error.into()))?;
    client.request(request).await
}

#[test]
fn a_new_workflow_has_its_status_on_the_embedded_api() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let _coordinator = Program::coordinator(directory.path())?;
    let kubeconfig = directory.path().join("data/kubeconfig");
    block_on(async {
        let mut name = 0;
        until_ok("a status from the first moment", async || {
            name += 1;
            let object = workflow(&format!("w-{name}"), "Proposal", &json!({}));
            check_complete(&create(&client(&kubeconfig).await?, &object).await?)
        })
        .await
    })
}

#[test]
fn a_new_workflow_has_its_status_on_a_cluster() -> anyhow::Result<()> {
    if !gate::real_server() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let at = directory.path();
    let (server, webhook) = cluster(at)?;
    // Without a coordinator, the API server admits a Workflow with any directives.
    let refused_later = json!(["#DW jobdw type=ext4 capacity=1GiB name=scratch"]);
    let mut unchecked = workflow("unchecked", "Proposal", &json!({}));
    unchecked["spec"]["dwDirectives"] = refused_later.clone();
    server.create(&unchecked)?;
    until("a status from the first moment, without a coordinator", PATIENCE, || {
        let probe = json!({"generateName": "probe-", "namespace": "default"});
        let created = server.create(&json!({
            "apiVersion": unchecked["apiVersion"], "kind": "Workflow", "metadata": probe, "spec": unchecked["spec"],
        }))?;
        ensure!(created["status"] == json!({"ready": false}), "{created}");
        Ok(())
    })?;
    block_on(async {
        let client = control_plane::client(&server.kubeconfig()).await?;
        workflow::shipped::install(&client).await.context("install the rules")
    })?;
    let _coordinator = on_cluster(at, &server, &webhook)?;
    block_on(async {
        let mut name = 0;
        until_ok("a status from the first moment", async || {
            name += 1;
            let object = workflow(&format!("w-{name}"), "Proposal", &json!({}));
            check_complete(&create(&client(&server.kubeconfig()).await?, &object).await?)
        })
        .await?;
        let client = client(&server.kubeconfig()).await?;
        let mut checked = workflow("checked", "Proposal", &json!({}));
        checked["spec"]["dwDirectives"] = refused_later;
        let Err(kube::Error::Api(refusal)) = create(&client, &checked).await else {
            anyhow::bail!("the webhook admitted an unknown type")
        };
        ensure!(refusal.code == 403 && refusal.message.contains("type=ext4"), "{refusal:?}");
        Ok(())
    })?;
    // Later the engine refuses the Workflow, which the webhook did not see, with the same message as the webhook's.
    until("the engine to refuse the directive", PATIENCE, || {
        let stored = server.get(&unchecked)?.context("the Workflow is gone")?;
        let status = &stored["status"];
        ensure!(status["status"] == "Error", "{status}");
        ensure!(status["message"].as_str().unwrap_or_default().contains("type=ext4"), "{status}");
        Ok(())
    })
}
