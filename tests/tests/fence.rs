//! Tests of fencing by the rabbit's agent on drives made of files: which namespaces the agent detaches, how it answers,
//! and that it may be killed at any point.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    program::{plant, until},
};

const NODE: &str = "compute-1";
const COROSYNC: &str = "nodelist {\n node {\n  name: compute-1\n  nodeid: 2\n }\n}\n";

/// Stand-in for dlm_tool: records its arguments, and kills the agent once if the file `die` exists.
const DLM_TOOL: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
if [ -e die ]; then rm die; kill -9 $PPID; sleep 60; fi
"#;

/// A GFS2 storage that two computes share.
struct Shared {
    fixture: Fixture,
    /// Number of fence requests so far.
    requests: u32,
}

impl Shared {
    fn new() -> anyhow::Result<Self> {
        let mut fixture = Fixture::new(2, "gfs2")?;
        let cluster = &fixture.run.cluster;
        fs::write(cluster.fence().join("corosync.conf"), COROSYNC)?;
        plant(&cluster.fence().join("dlm_tool"), DLM_TOOL)?;
        let mut block = fixture.run.job.block_storage(cluster.chassis(), true);
        // The storage has two allocations, and a fence must detach both.
        let allocation = json!({
            "capacity": fixture.run.job.capacity, "access": ["rabbit-1", "compute-1", "compute-2"],
        });
        block["spec"] = json!({"sharedAllocation": false, "allocations": [allocation, allocation]});
        fixture.run.apply("gfs2", &[block])?;
        let shared = Self { fixture, requests: 0 };
        shared.until_accessible(&["compute-1", "compute-2"])?;
        Ok(shared)
    }

    /// Waits until all these nodes have access to both allocations.
    fn until_accessible(&self, nodes: &[&str]) -> anyhow::Result<()> {
        until(&format!("{nodes:?} to reach everything"), PATIENCE, || {
            let object = self.fixture.run.block_storage()?;
            let allocations = object["status"]["allocations"].as_array().cloned();
            let allocations = allocations.unwrap_or_default();
            let is_accessible =
                |record: &Value| nodes.iter().all(|node| record["accesses"][node].is_object());
            ensure!(
                allocations.len() == 2 && allocations.iter().all(is_accessible),
                "{}",
                object["status"]
            );
            ensure!(
                nodes
                    .iter()
                    .all(|node| self.attached_namespaces(node).is_ok_and(|count| count == 2))
            );
            Ok(())
        })
    }

    /// Counts the namespaces that the drives have attached to a node.
    fn attached_namespaces(&self, node: &str) -> anyhow::Result<usize> {
        let pool = self.fixture.run.cluster.node_mounts().with_file_name("pool");
        let namespaces = self.fixture.namespaces()?;
        Ok(namespaces
            .iter()
            .filter(|namespace| pool.join(namespace).join("access").join(node).exists())
            .count())
    }

    /// Writes a fence request as the sites' fence agent does, and returns the path of the answer.
    fn request_fence(&mut self, node: &str) -> anyhow::Result<PathBuf> {
        self.requests += 1;
        let id = format!("0b9b8c1e-6d0f-4f0e-9a53-{:012}", self.requests);
        let name = format!("{node}-{id}.json");
        let body = json!({
            "request_id": id, "timestamp": "2026-06-01T07:12:09+00:00", "action": "off",
            "target_node": node, "recorder_node": "rabbit-1"
        });
        let fence = self.fixture.run.cluster.fence();
        fs::write(fence.join("requests").join(&name), body.to_string())?;
        Ok(fence.join("responses").join(name))
    }

    /// Waits for the answer to a fence request, and for the deletion of the request.
    fn wait_for_answer(&self, path: &Path) -> anyhow::Result<Value> {
        let answer = until(&path.display().to_string(), PATIENCE, || {
            fs::read(path).context("there is no answer")
        })?;
        // The agent calls dlm_tool between the answer and the deletion of the request.
        let fence = self.fixture.run.cluster.fence();
        let request =
            fence.join("requests").join(path.file_name().context("the answer's file has no name")?);
        until("the request to be gone", PATIENCE, || {
            ensure!(!request.exists(), "{}", request.display());
            Ok(())
        })?;
        serde_json::from_slice(&answer).context("decode the answer")
    }

    /// Counts the calls of `dlm_tool fence_ack` for the compute.
    fn fence_acks(&self) -> usize {
        let calls = fs::read_to_string(self.fixture.run.cluster.fence().join("calls"));
        calls.unwrap_or_default().lines().filter(|line| *line == "fence_ack 2").count()
    }

    /// Returns the compute's entry in the NnfNode's `status.servers`.
    fn server_status(&self) -> anyhow::Result<Value> {
        let text =
            self.fixture.run.prints(&["get", "nnfnode", "nnf-nlc", "-n", "rabbit-1", "--json"])?;
        let node: Value = serde_json::from_str(&text)?;
        let servers = node["status"]["servers"].as_array().cloned().unwrap_or_default();
        let server = servers.into_iter().find(|server| server["hostname"] == NODE);
        server.context("compute-1 is not among the NnfNode's servers")
    }

    /// Waits until the NnfNode shows the compute as fenced, or, if `fenced` is false, as not fenced.
    fn until_reported_fenced(&self, fenced: bool) -> anyhow::Result<()> {
        until("the NnfNode", PATIENCE, || {
            let server = self.server_status()?;
            ensure!((server["status"] == "Fenced") == fenced, "{server}");
            ensure!((server["health"] == "Critical") == fenced, "{server}");
            Ok(())
        })
    }

    /// Ends the fence as an administrator does, by deleting the answer, and waits until the node has its access again.
    fn unfence(&self, answer: &Path) -> anyhow::Result<()> {
        fs::remove_file(answer)?;
        self.until_accessible(&["compute-1", "compute-2"])?;
        self.until_reported_fenced(false)
    }

    fn end(mut self) -> anyhow::Result<()> {
        let name = self.fixture.run.job.node_storage();
        let object = format!("nnfnodeblockstorage/{name}");
        self.fixture.run.warren(&["delete", &object, "-n", "rabbit-1"])?;
        until("the namespaces to be gone", PATIENCE, || {
            let left = self.fixture.namespaces()?;
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })?;
        self.fixture.end()
    }
}

#[test]
fn a_compute_is_fenced_and_unfenced_but_not_while_the_api_is_away() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut shared = Shared::new()?;
    let path = shared.request_fence(NODE)?;
    let answer = shared.wait_for_answer(&path)?;
    ensure!(answer["success"] == true && answer["action_performed"] == "off", "{answer}");
    ensure!(
        shared.attached_namespaces(NODE)? == 0 && shared.attached_namespaces("compute-2")? == 2,
        "{answer}"
    );
    ensure!(shared.fence_acks() == 1, "{answer}");
    shared.until_reported_fenced(true)?;
    shared.unfence(&path)?;

    // Stops the coordinator only with the embedded API: a real API server would still run.
    if !gate::real_server_is_wanted() {
        shared.fixture.run.cluster.stop_one("coordinator")?;
        let path = shared.request_fence(NODE)?;
        let answer = shared.wait_for_answer(&path)?;
        ensure!(
            answer["success"] == false,
            "without the API the agent cannot know which namespaces are GFS2: {answer}"
        );
        ensure!(shared.fence_acks() == 1, "{answer}");
        until("the node to keep its access", PATIENCE, || {
            ensure!(shared.attached_namespaces(NODE)? == 2, "a namespace was detached");
            Ok(())
        })?;
        shared.fixture.run.cluster.start_coordinator()?;
    }
    let path = shared.request_fence(NODE)?;
    let answer = shared.wait_for_answer(&path)?;
    ensure!(answer["success"] == true && shared.attached_namespaces(NODE)? == 0, "{answer}");
    shared.unfence(&path)?;
    shared.end()
}

/// Log lines about the steps of a fence. The agent is killed when it logs one of them.
const DEATHS: [&str; 5] = [
    "is to be fenced",
    "detach namespace",
    "fence_ack",
    "reaches no namespace of a GFS2",
    "answered compute-1",
];

#[test]
fn a_fence_succeeds_if_the_agent_is_killed_at_any_step() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut shared = Shared::new()?;
    for (round, point) in DEATHS.iter().cycle().take(10).enumerate() {
        let rabbit = shared.fixture.run.cluster.node("rabbit-1")?;
        let before = rabbit.pid()?;
        if *point == "fence_ack" {
            fs::write(shared.fixture.run.cluster.fence().join("die"), "")?;
        } else {
            rabbit.kill_at(point, 0, rabbit);
        }
        let path = shared.request_fence(NODE)?;
        let context = || format!("round {round}, killed at {point:?}");
        let answer = shared.wait_for_answer(&path).with_context(context)?;
        ensure!(answer["success"] == true, "{}: {answer}", context());
        ensure!(
            shared.attached_namespaces(NODE)? == 0 && shared.fence_acks() > round,
            "{}",
            context()
        );
        until("another agent", PATIENCE, || {
            let rabbit = shared.fixture.run.cluster.node("rabbit-1")?;
            ensure!(rabbit.pid()? != before && !rabbit.trap_is_set(), "{}", context());
            Ok(())
        })?;
        shared.until_reported_fenced(true).with_context(context)?;
        let requests = shared.fixture.run.cluster.fence().join("requests");
        until("the request to be gone", PATIENCE, || {
            ensure!(fs::read_dir(&requests)?.next().is_none(), "{}", context());
            Ok(())
        })?;
        ensure!(
            shared.attached_namespaces(NODE)? == 0,
            "{}: a namespace was attached again",
            context()
        );
        shared.unfence(&path).with_context(context)?;
    }
    shared.end()
}
