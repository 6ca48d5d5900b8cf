//! Containers on a real kube-apiserver, by a real Job controller and a real garbage collector. Kubelets are played: a test writes
//! into a pod's status what a kubelet writes there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kubelet;
mod site;

use std::time::Duration;

use serde_json::{Value, json};

use crate::site::Site;

/// A pod whose container runs and is ready.
fn ready() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
}

/// A pod whose container ended.
fn ended(exit: i64, words: &str) -> Value {
    let phase = if exit == 0 { "Succeeded" } else { "Failed" };
    let state = json!({"terminated": {"exitCode": exit, "message": words}});
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
        {"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]})
}

/// All stories on one control plane: it takes longer to start than any of them.
#[test]
fn a_real_job_controller_runs_the_containers_of_workflows() {
    if !gate::real_server() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let site = Site::start(directory.path()).await;
        from_proposal_to_teardown(&site).await;
        one_that_fails(&site).await;
        one_that_does_not_start(&site).await;
        one_that_does_not_end(&site).await;
        torn_down_while_it_runs(&site).await;
    });
}

async fn from_proposal_to_teardown(site: &Site) {
    site.profile("app", json!({})).await;
    site.towards("life", "app", "PreRun").await;
    let pods = site.pods("life", 2).await;
    let spec = &pods[0]["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false, "{spec:#}");
    assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 5000);
    site.tell("life", ready()).await;
    let workflow = site.wait("life", "PreRun", "Completed", "").await;
    assert_eq!(workflow["status"]["env"]["NNF_CONTAINER_HOSTNAMES"], "r,s");
    let told = site.warren(&["containers", "life", "--json"]).await;
    let phases: Vec<_> = told.as_array().unwrap().iter().map(|one| &one["phase"]).collect();
    assert_eq!(phases, ["ready", "ready"], "{told:#}");
    site.place("life", kubelet::with_log("begun\nready\n").await).await;
    let told = site.warren(&["logs", "life", "--rabbit=s", "--json"]).await;
    let of = |name: &str| told[0][name].as_str().unwrap_or_default().to_owned();
    let log = ["rabbit", "container", "text"].map(of);
    assert_eq!(log, ["s", "app", "begun\nready\n"], "{told:#}");
    let is_without_deadline = |job: &Value| job["spec"]["activeDeadlineSeconds"].is_null();
    assert!(site.jobs("life").await.iter().all(is_without_deadline));
    site.ask("life", "PostRun").await;
    site.wait("life", "PostRun", "DriverWait", "containers on r, s to end").await;
    site.tell("life", ended(0, "")).await;
    site.wait("life", "PostRun", "Completed", "").await;
    assert_eq!(site.pods("life", 2).await.len(), 2, "logs are there until Teardown");
    for state in ["DataOut", "Teardown"] {
        site.ask("life", state).await;
        site.wait("life", state, "Completed", "").await;
    }
    assert!(site.jobs("life").await.is_empty());
    site.remove("life").await;
}

async fn one_that_fails(site: &Site) {
    site.profile("fails", json!({"retryLimit": 0})).await;
    site.towards("fails", "fails", "PreRun").await;
    site.pods("fails", 2).await;
    site.tell("fails", ended(3, "no input\n")).await;
    site.wait("fails", "PreRun", "Completed", "").await;
    site.ask("fails", "PostRun").await;
    let why = "container on r failed to run successfully after 1 attempts: container app exited with 3: no input";
    site.wait("fails", "PostRun", "Error", why).await;
    let told = site.warren(&["containers", "--json"]).await;
    let failed = json!({
        "workflow": "fails", "rabbit": "r", "phase": "failed", "retries": 1,
        "why": "container app exited with 3: no input",
    });
    let first = told[0].as_object().unwrap();
    let is_told = |(name, value): (&String, &Value)| first.get(name) == Some(value);
    assert!(failed.as_object().unwrap().iter().all(is_told), "{told:#}");
    site.ask("fails", "Teardown").await;
    site.wait("fails", "Teardown", "Completed", "").await;
    site.remove("fails").await;
}

async fn one_that_does_not_start(site: &Site) {
    site.profile("late", json!({"preRunTimeoutSeconds": 2})).await;
    site.towards("late", "late", "PreRun").await;
    site.wait("late", "PreRun", "Error", "was not ready after 2 seconds").await;
    site.remove("late").await;
}

async fn one_that_does_not_end(site: &Site) {
    site.profile("long", json!({"postRunTimeoutSeconds": 2})).await;
    site.towards("long", "long", "PreRun").await;
    site.pods("long", 2).await;
    site.tell("long", ready()).await;
    site.wait("long", "PreRun", "Completed", "").await;
    // What ran before PostRun does not count.
    tokio::time::sleep(Duration::from_secs(3)).await;
    site.ask("long", "PostRun").await;
    site.wait("long", "PostRun", "Error", "failed to complete after 2 seconds").await;
    site.remove("long").await;
}

async fn torn_down_while_it_runs(site: &Site) {
    site.towards("cut", "app", "PreRun").await;
    site.pods("cut", 2).await;
    site.tell("cut", ready()).await;
    site.wait("cut", "PreRun", "Completed", "").await;
    site.hold("cut", true).await;
    site.ask("cut", "Teardown").await;
    site.wait("cut", "Teardown", "DriverWait", "containers on r, s to end").await;
    assert_eq!(site.jobs("cut").await.len(), 2, "a Job stays until its pods are gone");
    site.hold("cut", false).await;
    site.wait("cut", "Teardown", "Completed", "").await;
    site.remove("cut").await;
}
