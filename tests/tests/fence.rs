//! Fences by the rabbit's agent on file drives: what is taken, what is answered, who dies when, and what is left.

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

/// Notes that it was called, and kills the agent once if it is told to.
const DLM_TOOL: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> told
if [ -e die ]; then rm die; kill -9 $PPID; sleep 60; fi
"#;

/// GFS2 that two computes share.
struct Shared {
    fixture: Fixture,
    asked: u32,
}

impl Shared {
    fn new() -> anyhow::Result<Self> {
        let mut fixture = Fixture::new(2, "gfs2")?;
        let cluster = &fixture.run.cluster;
        fs::write(cluster.fence().join("corosync.conf"), COROSYNC)?;
        plant(&cluster.fence().join("dlm_tool"), DLM_TOOL)?;
        let mut block = fixture.run.job.block_storage(cluster.chassis(), true);
        // Two of them: a fence must take both.
        let allocation = json!({
            "capacity": fixture.run.job.capacity, "access": ["rabbit-1", "compute-1", "compute-2"],
        });
        block["spec"] = json!({"sharedAllocation": false, "allocations": [allocation, allocation]});
        fixture.run.apply("gfs2", &[block])?;
        let shared = Self { fixture, asked: 0 };
        shared.until_given(&["compute-1", "compute-2"])?;
        Ok(shared)
    }

    fn until_given(&self, nodes: &[&str]) -> anyhow::Result<()> {
        until(&format!("{nodes:?} to reach everything"), PATIENCE, || {
            let object = self.fixture.run.block_storage()?;
            let allocations = object["status"]["allocations"].as_array().cloned();
            let given = allocations.unwrap_or_default();
            let all =
                |record: &Value| nodes.iter().all(|node| record["accesses"][node].is_object());
            ensure!(given.len() == 2 && given.iter().all(all), "{}", object["status"]);
            ensure!(nodes.iter().all(|node| self.reach(node).is_ok_and(|count| count == 2)));
            Ok(())
        })
    }

    /// How many namespaces the drives let a node reach.
    fn reach(&self, node: &str) -> anyhow::Result<usize> {
        let pool = self.fixture.run.cluster.node_mounts().with_file_name("pool");
        let namespaces = self.fixture.namespaces()?;
        Ok(namespaces
            .iter()
            .filter(|namespace| pool.join(namespace).join("access").join(node).exists())
            .count())
    }

    /// Asks as the sites' agent does; where the answer will be.
    fn ask(&mut self, node: &str) -> anyhow::Result<PathBuf> {
        self.asked += 1;
        let id = format!("0b9b8c1e-6d0f-4f0e-9a53-{:012}", self.asked);
        let name = format!("{node}-{id}.json");
        let body = json!({
            "request_id": id, "timestamp": "2026-06-01T07:12:09+00:00", "action": "off",
            "target_node": node, "recorder_node": "rabbit-1"
        });
        let fence = self.fixture.run.cluster.fence();
        fs::write(fence.join("requests").join(&name), body.to_string())?;
        Ok(fence.join("responses").join(name))
    }

    fn answer(&self, path: &Path) -> anyhow::Result<Value> {
        let answer = until(&path.display().to_string(), PATIENCE, || {
            fs::read(path).context("there is no answer")
        })?;
        // DLM hears between the two.
        let fence = self.fixture.run.cluster.fence();
        let request = fence.join("requests").join(path.file_name().context("it has no name")?);
        until("the request to be gone", PATIENCE, || {
            ensure!(!request.exists(), "{}", request.display());
            Ok(())
        })?;
        serde_json::from_slice(&answer).context("the answer is torn")
    }

    fn told_dlm(&self) -> usize {
        let told = fs::read_to_string(self.fixture.run.cluster.fence().join("told"));
        told.unwrap_or_default().lines().filter(|line| *line == "fence_ack 2").count()
    }

    fn shown(&self) -> anyhow::Result<Value> {
        let text =
            self.fixture.run.prints(&["get", "nnfnode", "nnf-nlc", "-n", "rabbit-1", "--json"])?;
        let node: Value = serde_json::from_str(&text)?;
        let servers = node["status"]["servers"].as_array().cloned().unwrap_or_default();
        let server = servers.into_iter().find(|server| server["hostname"] == NODE);
        server.context("it is not among the servers")
    }

    fn until_shown(&self, fenced: bool) -> anyhow::Result<()> {
        until("the NnfNode", PATIENCE, || {
            let shown = self.shown()?;
            ensure!((shown["status"] == "Fenced") == fenced, "{shown}");
            ensure!((shown["health"] == "Critical") == fenced, "{shown}");
            Ok(())
        })
    }

    /// An administrator lets the node come back.
    fn forgive(&self, answer: &Path) -> anyhow::Result<()> {
        fs::remove_file(answer)?;
        self.until_given(&["compute-1", "compute-2"])?;
        self.until_shown(false)
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
fn a_compute_is_fenced_and_forgiven_and_never_without_the_api() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut shared = Shared::new()?;
    let path = shared.ask(NODE)?;
    let answer = shared.answer(&path)?;
    ensure!(answer["success"] == true && answer["action_performed"] == "off", "{answer}");
    ensure!(shared.reach(NODE)? == 0 && shared.reach("compute-2")? == 2, "{answer}");
    ensure!(shared.told_dlm() == 1, "{answer}");
    shared.until_shown(true)?;
    shared.forgive(&path)?;

    // A real API server does not go with the coordinator.
    if !gate::real_server_is_wanted() {
        shared.fixture.run.cluster.stop_one("coordinator")?;
        let path = shared.ask(NODE)?;
        let answer = shared.answer(&path)?;
        ensure!(answer["success"] == false, "nobody could say what is a GFS2: {answer}");
        ensure!(shared.told_dlm() == 1, "{answer}");
        until("it to keep everything", PATIENCE, || {
            ensure!(shared.reach(NODE)? == 2, "it was taken from it");
            Ok(())
        })?;
        shared.fixture.run.cluster.start_coordinator()?;
    }
    let path = shared.ask(NODE)?;
    let answer = shared.answer(&path)?;
    ensure!(answer["success"] == true && shared.reach(NODE)? == 0, "{answer}");
    shared.forgive(&path)?;
    shared.end()
}

/// What the log says when a fence has got so far, and where the agent dies when it says so.
const DEATHS: [&str; 5] = [
    "is to be fenced",
    "detach namespace",
    "fence_ack",
    "reaches no namespace of a GFS2",
    "answered compute-1",
];

#[test]
fn the_agent_may_die_at_every_point_of_a_fence() -> anyhow::Result<()> {
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
        let path = shared.ask(NODE)?;
        let context = || format!("round {round}, killed at {point:?}");
        let answer = shared.answer(&path).with_context(context)?;
        ensure!(answer["success"] == true, "{}: {answer}", context());
        ensure!(shared.reach(NODE)? == 0 && shared.told_dlm() > round, "{}", context());
        until("another agent", PATIENCE, || {
            let rabbit = shared.fixture.run.cluster.node("rabbit-1")?;
            ensure!(rabbit.pid()? != before && !rabbit.trap_is_set(), "{}", context());
            Ok(())
        })?;
        shared.until_shown(true).with_context(context)?;
        let requests = shared.fixture.run.cluster.fence().join("requests");
        until("the request to be gone", PATIENCE, || {
            ensure!(fs::read_dir(&requests)?.next().is_none(), "{}", context());
            Ok(())
        })?;
        ensure!(shared.reach(NODE)? == 0, "{}: it was given back", context());
        shared.forgive(&path).with_context(context)?;
    }
    shared.end()
}
