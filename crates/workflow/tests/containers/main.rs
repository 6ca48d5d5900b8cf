//! Containers on a real kube-apiserver with a real Job controller and a real garbage collector. Kubelets are simulated:
//! the tests write into the status of pods what a kubelet writes there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kubelet;
mod raw;
mod site;

use std::{path::Path, time::Duration};

use api::node_containers::{NodeContainersState, NodeContainersStatus, PackagePath};
use containers::claim::Holder;
use serde_json::{Value, json};

use crate::site::Site;

/// The status of a pod whose container runs and is ready.
fn ready_pod() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
}

/// The status of a pod whose container ended.
fn ended_pod(exit: i64, words: &str) -> Value {
    let phase = if exit == 0 { "Succeeded" } else { "Failed" };
    let state = json!({"terminated": {"exitCode": exit, "message": words}});
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
        {"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]})
}

/// Runs a test with a directory for its control plane; does nothing where no control plane may be started.
fn on_a_real_server(test: impl AsyncFnOnce(&Path)) {
    if !gate::real_server() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    runtime.block_on(test(directory.path()));
}

/// One test runs several cases on one control plane, because a start of the control plane takes longer than any case.
#[test]
fn a_real_job_controller_runs_the_containers_of_workflows() {
    on_a_real_server(async |directory| {
        let site = Site::start(directory).await;
        run_to_teardown(&site).await;
        fail(&site).await;
        miss_the_start_deadline(&site).await;
        miss_the_end_deadline(&site).await;
        tear_down_while_running(&site).await;
        fetch_packages_first(&site).await;
        run_mpi(&site).await;
        suspend_and_resume(&site).await;
    });
}

/// Two coordinators authenticate with the same token. The process of the claim's holder ends while the containers run,
/// and the other coordinator takes over once the holder's Lease has expired.
#[test]
fn one_of_two_coordinators_creates_the_containers_and_the_other_takes_over() {
    on_a_real_server(async |directory| {
        let mut site = Site::idle(directory).await;
        let holders = ["a", "b"].map(|pod| Holder::new(pod, "1"));
        holders.iter().for_each(|holder| site.coordinator(Some(holder.clone())));
        site.profile("app", json!({})).await;
        site.bring_towards("taken", "app", "PreRun").await;
        let pods = site.pods("taken", 2).await;
        site.set_pod_status("taken", ready_pod()).await;
        site.wait("taken", "PreRun", "Completed", "").await;
        let first = site.run("taken", "Running").await;
        assert_eq!((&first["claim"]["epoch"], &first["attempt"]), (&json!(1), &json!(1)));
        let dead =
            holders.iter().position(|holder| first["claim"]["holder"] == holder.as_str()).unwrap();
        site.coordinators[dead].abort();
        site.request_state("taken", "PostRun").await;
        site.set_pod_status("taken", ended_pod(0, "")).await;
        site.wait("taken", "PostRun", "Completed", "").await;
        let second = site.run("taken", "Succeeded").await;
        let expected = json!({"holder": holders[1 - dead].as_str(), "epoch": 2});
        assert_eq!((&second["claim"], &second["attempt"]), (&expected, &json!(1)));
        let uids = |pods: &[Value]| -> Vec<Value> {
            pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
        };
        assert_eq!(uids(&site.pods("taken", 2).await), uids(&pods), "the pods continue to run");
        for state in ["DataOut", "Teardown"] {
            site.request_state("taken", state).await;
            site.wait("taken", state, "Completed", "").await;
        }
        site.run("taken", "Succeeded").await;
        site.remove("taken").await;
    });
}

/// A rabbit without power: no kubelet ends its pods, and the Job controller marks their Job failed only after
/// the pods are gone.
#[test]
fn the_workflow_names_a_silent_rabbit_until_the_rabbit_reports_again() {
    on_a_real_server(async |directory| {
        let site = Site::start(directory).await;
        let pod = json!({
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "app", "image": "registry.example/app:1"}],
        });
        site.profile("dark", json!({"postRunTimeoutSeconds": 1, "spec": pod})).await;
        site.bring_towards("dark", "dark", "PreRun").await;
        site.pods("dark", 2).await;
        site.set_pod_status("dark", ready_pod()).await;
        site.wait("dark", "PreRun", "Completed", "").await;
        site.hold("dark", true).await;
        site.request_state("dark", "PostRun").await;
        site.wait("dark", "PostRun", "DriverWait", "end of containers on r, s").await;
        site.wait("dark", "PostRun", "TransientCondition", "rabbit r is silent").await;
        for job in site.jobs("dark").await {
            let conditions = job["status"]["conditions"].as_array().unwrap();
            let kinds: Vec<_> =
                conditions.iter().map(|condition| condition["type"].clone()).collect();
            assert_eq!(kinds, ["FailureTarget"], "{job:#}");
        }
        site.hold("dark", false).await;
        let why = "failed to complete after 1 seconds";
        site.wait("dark", "PostRun", "Error", why).await;
        site.remove("dark").await;
    });
}

#[test]
fn a_real_server_binds_the_volumes_of_raw_storage_and_keeps_them_while_a_pod_uses_them() {
    on_a_real_server(async |directory| {
        let site = Site::idle(directory).await;
        raw::check_bound_and_kept(&site, directory).await;
    });
}

async fn run_to_teardown(site: &Site) {
    site.profile("app", json!({})).await;
    site.bring_towards("life", "app", "PreRun").await;
    let pods = site.pods("life", 2).await;
    let spec = &pods[0]["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false, "{spec:#}");
    assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 5000);
    site.set_pod_status("life", ready_pod()).await;
    let workflow = site.wait("life", "PreRun", "Completed", "").await;
    assert_eq!(workflow["status"]["env"]["NNF_CONTAINER_HOSTNAMES"], "r,s");
    let output = site.warren(&["containers", "life", "--json"]).await;
    let phases: Vec<_> = output.as_array().unwrap().iter().map(|run| &run["phase"]).collect();
    assert_eq!(phases, ["ready", "ready"], "{output:#}");
    site.place("life", kubelet::with_log("begun\nready\n").await).await;
    let output = site.warren(&["logs", "life", "--rabbit=s", "--json"]).await;
    let text_of = |name: &str| output[0][name].as_str().unwrap_or_default().to_owned();
    let log = ["rabbit", "container", "text"].map(text_of);
    assert_eq!(log, ["s", "app", "begun\nready\n"], "{output:#}");
    let is_without_deadline = |job: &Value| job["spec"]["activeDeadlineSeconds"].is_null();
    assert!(site.jobs("life").await.iter().all(is_without_deadline));
    site.request_state("life", "PostRun").await;
    site.wait("life", "PostRun", "DriverWait", "end of containers on r, s").await;
    site.set_pod_status("life", ended_pod(0, "")).await;
    site.wait("life", "PostRun", "Completed", "").await;
    assert_eq!(site.pods("life", 2).await.len(), 2, "pods and their logs stay until Teardown");
    for state in ["DataOut", "Teardown"] {
        site.request_state("life", state).await;
        site.wait("life", state, "Completed", "").await;
    }
    assert!(site.jobs("life").await.is_empty());
    site.remove("life").await;
}

async fn fail(site: &Site) {
    site.profile("fails", json!({"retryLimit": 0})).await;
    site.bring_towards("fails", "fails", "PreRun").await;
    site.pods("fails", 2).await;
    site.set_pod_status("fails", ended_pod(3, "no input\n")).await;
    site.wait("fails", "PreRun", "Completed", "").await;
    site.request_state("fails", "PostRun").await;
    let why = "container on r failed to run successfully after 1 attempts: container app exited with 3: no input";
    site.wait("fails", "PostRun", "Error", why).await;
    let output = site.warren(&["containers", "--json"]).await;
    let failed = json!({
        "workflow": "fails", "rabbit": "r", "phase": "failed", "retries": 1,
        "why": "container app exited with 3: no input",
    });
    let first = output[0].as_object().unwrap();
    let is_reported = |(name, value): (&String, &Value)| first.get(name) == Some(value);
    assert!(failed.as_object().unwrap().iter().all(is_reported), "{output:#}");
    site.request_state("fails", "Teardown").await;
    site.wait("fails", "Teardown", "Completed", "").await;
    site.remove("fails").await;
}

async fn miss_the_start_deadline(site: &Site) {
    site.profile("late", json!({"preRunTimeoutSeconds": 2})).await;
    site.bring_towards("late", "late", "PreRun").await;
    site.wait("late", "PreRun", "Error", "was not ready after 2 seconds").await;
    site.remove("late").await;
}

async fn miss_the_end_deadline(site: &Site) {
    site.profile("long", json!({"postRunTimeoutSeconds": 2})).await;
    site.bring_towards("long", "long", "PreRun").await;
    site.pods("long", 2).await;
    site.set_pod_status("long", ready_pod()).await;
    site.wait("long", "PreRun", "Completed", "").await;
    // The end deadline counts from the beginning of PostRun: the time before must not matter.
    tokio::time::sleep(Duration::from_secs(3)).await;
    site.request_state("long", "PostRun").await;
    site.wait("long", "PostRun", "Error", "failed to complete after 2 seconds").await;
    site.remove("long").await;
}

async fn tear_down_while_running(site: &Site) {
    site.bring_towards("cut", "app", "PreRun").await;
    site.pods("cut", 2).await;
    site.set_pod_status("cut", ready_pod()).await;
    site.wait("cut", "PreRun", "Completed", "").await;
    site.hold("cut", true).await;
    site.request_state("cut", "Teardown").await;
    site.wait("cut", "Teardown", "DriverWait", "end of containers on r, s").await;
    assert_eq!(site.jobs("cut").await.len(), 2, "a Job stays until its pods are gone");
    site.hold("cut", false).await;
    site.wait("cut", "Teardown", "Completed", "").await;
    site.remove("cut").await;
}

async fn fetch_packages_first(site: &Site) {
    let package =
        json!({"name": "data", "url": "http://server/data", "sha256": "0".repeat(64), "size": 1});
    site.profile("packs", json!({"packages": [package]})).await;
    site.bring_towards("packs", "packs", "PreRun").await;
    let has = |rabbit: &str| NodeContainersStatus {
        state: NodeContainersState::Ready,
        packages: vec![PackagePath {
            name: "data".to_owned(),
            path: format!("/var/lib/{rabbit}/data"),
        }],
        ..NodeContainersStatus::default()
    };
    let fetches = NodeContainersStatus {
        message: "package data from http://server/data is fetched".to_owned(),
        ..NodeContainersStatus::default()
    };
    site.set_agent_status("packs", "s", fetches).await;
    site.set_agent_status("packs", "r", has("r")).await;
    let words = "s: package data from http://server/data is fetched";
    site.wait("packs", "PreRun", "DriverWait", words).await;
    assert!(site.jobs("packs").await.is_empty(), "one rabbit does not have the package");
    site.set_agent_status("packs", "s", has("s")).await;
    for (pod, rabbit) in site.pods("packs", 2).await.iter().zip(["r", "s"]) {
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let host = volumes.iter().find(|volume| volume["name"] == "nnf-package-0").unwrap();
        assert_eq!(host["hostPath"]["path"], format!("/var/lib/{rabbit}/data"), "{pod:#}");
    }
    site.set_pod_status("packs", ready_pod()).await;
    site.wait("packs", "PreRun", "Completed", "").await;
    site.hold("packs", true).await;
    site.request_state("packs", "Teardown").await;
    site.wait("packs", "Teardown", "DriverWait", "end of containers on r, s").await;
    assert_eq!(site.packages("packs").await, ["r", "s"], "pods still use the packages");
    site.hold("packs", false).await;
    site.agents_remove_packages("packs").await;
    site.wait("packs", "Teardown", "Completed", "").await;
    assert!(site.packages("packs").await.is_empty());
    site.remove("packs").await;
}

const WORKERS: [&str; 2] = ["ranks-worker-0", "ranks-worker-1"];

async fn run_mpi(site: &Site) {
    site.mpi_profile("mpi", json!({"ttlSecondsAfterFinished": 1})).await;
    site.bring_towards("ranks", "mpi", "PreRun").await;
    let pods = site.pods("ranks", 2).await;
    let secret = site.secrets("ranks", 1).await.remove(0);
    let files: Vec<_> = secret["data"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(files, ["ca.pem", "cert.pem", "key.pem"]);
    assert_eq!(secret["metadata"]["ownerReferences"][0]["name"], "ranks-0-a1");
    for (pod, rabbit) in pods.iter().zip(["r", "s"]) {
        assert_eq!(pod["spec"]["nodeSelector"]["kubernetes.io/hostname"], rabbit, "{pod:#}");
        let command = &pod["spec"]["containers"][0]["command"];
        assert_eq!(*command, json!(["/nnf/bin/podhelper", "worker"]));
    }
    site.set_pod_status_of_job("ranks", WORKERS[0], ready_pod()).await;
    site.wait("ranks", "PreRun", "DriverWait", "containers on s").await;
    site.jobs_are("ranks", &WORKERS).await;
    site.set_pod_status_of_job("ranks", WORKERS[1], ready_pod()).await;
    site.jobs_are("ranks", &["ranks-launcher", WORKERS[0], WORKERS[1]]).await;
    site.pods("ranks", 3).await;
    site.set_pod_status_of_job("ranks", "ranks-launcher", ready_pod()).await;
    let workflow = site.wait("ranks", "PreRun", "Completed", "").await;
    let hosts = "ranks-launcher,ranks-worker-0,ranks-worker-1";
    assert_eq!(workflow["status"]["env"]["NNF_CONTAINER_HOSTNAMES"], hosts);
    assert_roles_are_listed(site).await;
    let policies = site.network_policies("ranks").await;
    let own = &policies[0]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(own["nnf.cray.hpe.com/container"], "ranks", "{policies:#?}");
    site.request_state("ranks", "PostRun").await;
    site.wait("ranks", "PostRun", "DriverWait", "end of containers on r").await;
    site.set_pod_status_of_job("ranks", "ranks-launcher", ended_pod(0, "")).await;
    site.wait("ranks", "PostRun", "Completed", "").await;
    site.secrets("ranks", 0).await;
    // The Job controller removes the workers' pods, and deletes the launcher after its TTL; the launcher's result is
    // in the status.
    site.jobs_are("ranks", &[]).await;
    for state in ["DataOut", "Teardown"] {
        site.request_state("ranks", state).await;
        site.wait("ranks", state, "Completed", "").await;
    }
    site.remove("ranks").await;
}

async fn assert_roles_are_listed(site: &Site) {
    for pod in site.pods("ranks", 3).await {
        let ports = &pod["spec"]["containers"][0]["ports"];
        let is_launcher = pod["metadata"]["labels"]["nnf.cray.hpe.com/role"] == "launcher";
        assert_eq!(
            ports[0]["hostPort"].is_u64(),
            is_launcher,
            "only the launcher has a port of its rabbit: {pod:#}"
        );
    }
    let columns = |output: &Value, names: [&str; 2]| -> Vec<[String; 2]> {
        let text = |run: &Value, name: &str| run[name].as_str().unwrap_or_default().to_owned();
        output.as_array().unwrap().iter().map(|run| names.map(|name| text(run, name))).collect()
    };
    let output = site.warren(&["containers", "ranks", "--json"]).await;
    let expected = [["r", "launcher"], ["r", "worker"], ["s", "worker"]];
    assert_eq!(columns(&output, ["rabbit", "role"]), expected, "{output:#}");
}

async fn suspend_and_resume(site: &Site) {
    site.mpi_profile("again", json!({})).await;
    site.bring_towards("again", "again", "PreRun").await;
    site.pods("again", 2).await;
    let before = site.secrets("again", 1).await.remove(0);
    let workers = ["again-worker-0", "again-worker-1"];
    for worker in workers {
        site.set_pod_status_of_job("again", worker, ready_pod()).await;
    }
    site.pods("again", 3).await;
    site.suspend("again", true).await;
    site.pods("again", 0).await;
    site.wait("again", "PreRun", "DriverWait", "suspend-containers").await;
    site.suspend("again", false).await;
    site.pods("again", 2).await;
    site.jobs_are("again", &workers).await;
    let after = site.secrets("again", 1).await.remove(0);
    for file in ["ca.pem", "cert.pem", "key.pem"] {
        assert_ne!(before["data"][file], after["data"][file], "{file}");
    }
    for job in site.jobs("again").await {
        assert_eq!(job["metadata"]["labels"]["nnf.cray.hpe.com/attempt"], "2");
    }
    site.request_state("again", "Teardown").await;
    site.wait("again", "Teardown", "Completed", "").await;
    site.remove("again").await;
}
