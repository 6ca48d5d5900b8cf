//! Tests in which the agent of a rabbit or of a compute is stopped or killed.

use anyhow::ensure;
use nix::sys::signal::Signal;
use serde_json::json;
use tests::{
    cluster::patience,
    gate,
    program::{signal, until},
    workflow::{AFTER_PROPOSAL, Flow},
};

use crate::{IDLE, RAW, XFS};

/// Text in every log line about a step of a node.
const STEP: &str = "storage::execute";

/// Waits until the Workflow's message says that it waits for this node.
fn until_waits_for(flow: &Flow, state: &str, node: &str) -> anyhow::Result<()> {
    until(&format!("{state} to wait for {node}"), patience(), || {
        let status = &flow.workflow()?["status"];
        let message = status["message"].as_str().unwrap_or_default();
        ensure!(status["state"] == state && status["ready"] == false, "not yet: {status:#}");
        ensure!(message.contains("pending ") && message.contains(node), "{message}");
        Ok(())
    })
}

/// The agent's process is stopped, so that it looks dead to all other programs, and is killed
/// later without having continued.
#[test]
fn the_engine_names_a_dead_rabbit_and_waits_for_the_rabbit_in_each_state() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "rabbit")?;
    let rabbit = flow.fixture.run.cluster.chassis().rabbit.clone();
    for state in ["Proposal"].into_iter().chain(AFTER_PROPOSAL) {
        let agent = flow.fixture.run.cluster.node(&rabbit)?;
        let pid = until("the rabbit's agent", patience(), || agent.pid())?;
        signal(pid, Signal::SIGSTOP)?;
        if state == "Proposal" {
            flow.create(&[RAW])?;
        } else {
            flow.request_state(state)?;
        }
        if IDLE.contains(&state) {
            flow.wait(state, "Completed")?;
        } else {
            until_waits_for(&flow, state, &rabbit)?;
        }
        flow.fixture.run.cluster.node(&rabbit)?.kill()?;
        flow.wait(state, "Completed")?;
        if state == "Proposal" {
            flow.fill_computes()?;
        }
    }
    flow.delete()?;
    flow.end()
}

#[test]
fn the_engine_names_a_dead_compute_and_waits_for_it_before_during_and_after_its_mount()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "compute")?;
    flow.create(&[XFS])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    flow.reach("Setup")?;
    flow.reach("DataIn")?;
    // Before the mount, the machine of compute-2 is down. During the mount, its agent is killed after the first step.
    flow.fixture.run.cluster.stop_one("compute-2")?;
    flow.request_state("PreRun")?;
    until_waits_for(&flow, "PreRun", "compute-2")?;
    flow.fixture.run.cluster.start_node("compute-2")?;
    let agent = flow.fixture.run.cluster.node("compute-2")?;
    agent.kill_at(STEP, 0, agent);
    let workflow = flow.wait("PreRun", "Completed")?;
    let agent = flow.fixture.run.cluster.node("compute-2")?;
    ensure!(!agent.trap_is_set(), "the agent took no step");
    let path = workflow["status"]["env"]["DW_JOB_scratch"].as_str().unwrap_or_default().to_owned();
    flow.run_on("compute-2", &format!("echo hello > {path}/hello"))?;
    // After the mount, compute-2 boots again, and nothing is mounted on it.
    flow.fixture.run.cluster.stop_one("compute-2")?;
    flow.request_state("PostRun")?;
    until_waits_for(&flow, "PostRun", "compute-2")?;
    flow.fixture.run.cluster.start_node("compute-2")?;
    flow.wait("PostRun", "Completed")?;
    flow.reach("DataOut")?;
    flow.reach("Teardown")?;
    flow.delete()?;
    flow.end()
}

#[test]
fn the_engine_does_not_wait_for_a_compute_that_is_marked_down() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "down")?;
    flow.create(&[XFS])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in ["Setup", "DataIn", "PreRun"] {
        flow.reach(state)?;
    }
    flow.fixture.run.cluster.stop_one("compute-2")?;
    flow.request_state("PostRun")?;
    until_waits_for(&flow, "PostRun", "compute-2")?;
    let down = json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemStatus",
        "metadata": {"name": "default", "namespace": "default"}, "data": {"nodes": {"compute-2": "Disabled"}},
    });
    flow.fixture.run.apply("status", &[down])?;
    flow.wait("PostRun", "Completed")?;
    flow.reach("DataOut")?;
    flow.reach("Teardown")?;
    flow.delete()?;
    flow.end()
}
