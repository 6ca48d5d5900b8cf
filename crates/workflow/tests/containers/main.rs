//! Containers on a real kube-apiserver, by a real Job controller and a real garbage collector. Kubelets are played: a test writes
//! into a pod's status what a kubelet writes there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kubelet;
mod site;

use std::{path::Path, time::Duration};

use api::node_containers::{NodeContainersState, NodeContainersStatus, PackagePath};
use containers::claim::Holder;
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

/// Tells a story with a directory for its control plane, where one may be started.
fn on_a_real_server(story: impl AsyncFnOnce(&Path)) {
    if !gate::real_server() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    runtime.block_on(story(directory.path()));
}

/// All stories on one control plane: it takes longer to start than any of them.
#[test]
fn a_real_job_controller_runs_the_containers_of_workflows() {
    on_a_real_server(async |directory| {
        let site = Site::start(directory).await;
        from_proposal_to_teardown(&site).await;
        one_that_fails(&site).await;
        one_that_does_not_start(&site).await;
        one_that_does_not_end(&site).await;
        torn_down_while_it_runs(&site).await;
        packages_on_all_rabbits_first(&site).await;
        ranks_on_all_rabbits(&site).await;
        suspended_and_resumed(&site).await;
    });
}

/// Two coordinators, one token. The holder's process ends while the containers run, and the other one takes over, which takes as long
/// as a Lease needs to expire.
#[test]
fn of_two_coordinators_one_makes_the_containers_and_the_other_goes_on_with_them() {
    on_a_real_server(async |directory| {
        let mut site = Site::idle(directory).await;
        let holders = ["a", "b"].map(|pod| Holder::new(pod, "1"));
        holders.iter().for_each(|holder| site.coordinator(Some(holder.clone())));
        site.profile("app", json!({})).await;
        site.towards("taken", "app", "PreRun").await;
        let pods = site.pods("taken", 2).await;
        site.tell("taken", ready()).await;
        site.wait("taken", "PreRun", "Completed", "").await;
        let first = site.run("taken", "Running").await;
        assert_eq!((&first["claim"]["epoch"], &first["attempt"]), (&json!(1), &json!(1)));
        let dead = holders.iter().position(|one| first["claim"]["holder"] == one.as_str()).unwrap();
        site.coordinators[dead].abort();
        site.ask("taken", "PostRun").await;
        site.tell("taken", ended(0, "")).await;
        site.wait("taken", "PostRun", "Completed", "").await;
        let second = site.run("taken", "Succeeded").await;
        let expected = json!({"holder": holders[1 - dead].as_str(), "epoch": 2});
        assert_eq!((&second["claim"], &second["attempt"]), (&expected, &json!(1)));
        let uids = |pods: &[Value]| -> Vec<Value> {
            pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
        };
        assert_eq!(uids(&site.pods("taken", 2).await), uids(&pods), "what ran went on");
        for state in ["DataOut", "Teardown"] {
            site.ask("taken", state).await;
            site.wait("taken", state, "Completed", "").await;
        }
        site.run("taken", "Succeeded").await;
        site.remove("taken").await;
    });
}

/// A rabbit without power: no kubelet ends its pods, and the Job controller does not call their Job failed before they are gone.
#[test]
fn a_rabbit_that_is_silent_is_told_and_its_next_word_ends_the_run() {
    on_a_real_server(async |directory| {
        let site = Site::start(directory).await;
        let pod = json!({
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "app", "image": "registry.example/app:1"}],
        });
        site.profile("dark", json!({"postRunTimeoutSeconds": 1, "spec": pod})).await;
        site.towards("dark", "dark", "PreRun").await;
        site.pods("dark", 2).await;
        site.tell("dark", ready()).await;
        site.wait("dark", "PreRun", "Completed", "").await;
        site.hold("dark", true).await;
        site.ask("dark", "PostRun").await;
        site.wait("dark", "PostRun", "DriverWait", "end of containers on r, s").await;
        site.wait("dark", "PostRun", "TransientCondition", "rabbit r is silent").await;
        for job in site.jobs("dark").await {
            let conditions = job["status"]["conditions"].as_array().unwrap();
            let kinds: Vec<_> = conditions.iter().map(|one| one["type"].clone()).collect();
            assert_eq!(kinds, ["FailureTarget"], "{job:#}");
        }
        site.hold("dark", false).await;
        let why = "failed to complete after 1 seconds";
        site.wait("dark", "PostRun", "Error", why).await;
        site.remove("dark").await;
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
    site.wait("life", "PostRun", "DriverWait", "end of containers on r, s").await;
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
    site.wait("cut", "Teardown", "DriverWait", "end of containers on r, s").await;
    assert_eq!(site.jobs("cut").await.len(), 2, "a Job stays until its pods are gone");
    site.hold("cut", false).await;
    site.wait("cut", "Teardown", "Completed", "").await;
    site.remove("cut").await;
}

async fn packages_on_all_rabbits_first(site: &Site) {
    let package =
        json!({"name": "data", "url": "http://server/data", "sha256": "0".repeat(64), "size": 1});
    site.profile("packs", json!({"packages": [package]})).await;
    site.towards("packs", "packs", "PreRun").await;
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
    site.agent_tells("packs", "s", fetches).await;
    site.agent_tells("packs", "r", has("r")).await;
    let told = "s: package data from http://server/data is fetched";
    site.wait("packs", "PreRun", "DriverWait", told).await;
    assert!(site.jobs("packs").await.is_empty(), "one rabbit does not have the package");
    site.agent_tells("packs", "s", has("s")).await;
    for (pod, rabbit) in site.pods("packs", 2).await.iter().zip(["r", "s"]) {
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let host = volumes.iter().find(|volume| volume["name"] == "nnf-package-0").unwrap();
        assert_eq!(host["hostPath"]["path"], format!("/var/lib/{rabbit}/data"), "{pod:#}");
    }
    site.tell("packs", ready()).await;
    site.wait("packs", "PreRun", "Completed", "").await;
    site.hold("packs", true).await;
    site.ask("packs", "Teardown").await;
    site.wait("packs", "Teardown", "DriverWait", "end of containers on r, s").await;
    assert_eq!(site.packages("packs").await, ["r", "s"], "pods have them mounted");
    site.hold("packs", false).await;
    site.agents_remove_packages("packs").await;
    site.wait("packs", "Teardown", "Completed", "").await;
    assert!(site.packages("packs").await.is_empty());
    site.remove("packs").await;
}

const WORKERS: [&str; 2] = ["ranks-worker-0", "ranks-worker-1"];

async fn ranks_on_all_rabbits(site: &Site) {
    site.mpi_profile("mpi", json!({"ttlSecondsAfterFinished": 1})).await;
    site.towards("ranks", "mpi", "PreRun").await;
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
    site.job_tells("ranks", WORKERS[0], ready()).await;
    site.wait("ranks", "PreRun", "DriverWait", "containers on s").await;
    site.jobs_are("ranks", &WORKERS).await;
    site.job_tells("ranks", WORKERS[1], ready()).await;
    site.jobs_are("ranks", &["ranks-launcher", WORKERS[0], WORKERS[1]]).await;
    site.pods("ranks", 3).await;
    site.job_tells("ranks", "ranks-launcher", ready()).await;
    let workflow = site.wait("ranks", "PreRun", "Completed", "").await;
    let hosts = "ranks-launcher,ranks-worker-0,ranks-worker-1";
    assert_eq!(workflow["status"]["env"]["NNF_CONTAINER_HOSTNAMES"], hosts);
    pods_of_both_roles_are_found(site).await;
    let policies = site.network_policies("ranks").await;
    let own = &policies[0]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(own["nnf.cray.hpe.com/container"], "ranks", "{policies:#?}");
    site.ask("ranks", "PostRun").await;
    site.wait("ranks", "PostRun", "DriverWait", "end of containers on r").await;
    site.job_tells("ranks", "ranks-launcher", ended(0, "")).await;
    site.wait("ranks", "PostRun", "Completed", "").await;
    site.secrets("ranks", 0).await;
    // The Job controller stops the workers' pods, and its time to live takes the launcher, whose end was told.
    site.jobs_are("ranks", &[]).await;
    for state in ["DataOut", "Teardown"] {
        site.ask("ranks", state).await;
        site.wait("ranks", state, "Completed", "").await;
    }
    site.remove("ranks").await;
}

async fn pods_of_both_roles_are_found(site: &Site) {
    for pod in site.pods("ranks", 3).await {
        let ports = &pod["spec"]["containers"][0]["ports"];
        let is_launcher = pod["metadata"]["labels"]["nnf.cray.hpe.com/role"] == "launcher";
        assert_eq!(ports[0]["hostPort"].is_u64(), is_launcher, "of a rabbit's port: {pod:#}");
    }
    let of = |told: &Value, names: [&str; 2]| -> Vec<[String; 2]> {
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        told.as_array().unwrap().iter().map(|one| names.map(|name| text(one, name))).collect()
    };
    let told = site.warren(&["containers", "ranks", "--json"]).await;
    let expected = [["r", "launcher"], ["r", "worker"], ["s", "worker"]];
    assert_eq!(of(&told, ["rabbit", "role"]), expected, "{told:#}");
}

async fn suspended_and_resumed(site: &Site) {
    site.mpi_profile("again", json!({})).await;
    site.towards("again", "again", "PreRun").await;
    site.pods("again", 2).await;
    let before = site.secrets("again", 1).await.remove(0);
    let workers = ["again-worker-0", "again-worker-1"];
    for worker in workers {
        site.job_tells("again", worker, ready()).await;
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
    site.ask("again", "Teardown").await;
    site.wait("again", "Teardown", "Completed", "").await;
    site.remove("again").await;
}
