//! Tests in which the coordinator is killed or stopped, often several times.

use std::{env, time::Duration};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    gate,
    program::{Program, pause, signal},
    workflow::{AFTER_PROPOSAL, Flow},
};

use crate::{RAW, XFS};

/// Text in every log line about a write of the engine.
const WRITE: &str = "workflow::execute";

/// Starts a coordinator that logs its writes. Requests of the test are repeated while no coordinator answers, as a
/// workload manager repeats them.
fn flow(computes: u8) -> anyhow::Result<Flow> {
    let mut flow = Flow::new(computes, "life")?;
    let cluster = &mut flow.fixture.run.cluster;
    cluster.stop_one("coordinator")?;
    cluster.start_coordinator_with(&[("RUST_LOG", "info,workflow=debug")])?;
    flow.fixture.run.patient = true;
    Ok(flow)
}

/// Runs a workflow from Proposal to its deletion.
fn run_workflow(flow: &mut Flow, directives: &[&str]) -> anyhow::Result<()> {
    flow.create(directives)?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in AFTER_PROPOSAL {
        flow.reach(state)?;
    }
    flow.delete()
}

fn writes(coordinator: &Program) -> anyhow::Result<usize> {
    let log = std::fs::read_to_string(coordinator.log()).context("read the log")?;
    Ok(log.lines().filter(|line| line.contains(WRITE)).count())
}

/// The coordinator is killed after every fourth write, or after every write if `WARREN_TEST_LIVES` is set.
#[test]
fn a_workflow_succeeds_if_the_coordinator_is_killed_after_every_write() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = flow(1)?;
    let times = if lives().is_some() { 1 } else { 4 };
    flow.fixture.run.cluster.coordinator()?.kill_itself_at_each(WRITE, times);
    run_workflow(&mut flow, &[RAW])?;
    let coordinator = flow.fixture.run.cluster.coordinator()?;
    coordinator.lift_trap();
    let deaths = writes(coordinator)? / times;
    // The test can count only logged writes. A real API server has also executed writes that the coordinator could not
    // log before it was killed.
    ensure!(deaths > 20 / times, "only {deaths} deaths");
    flow.end()
}

fn lives() -> Option<usize> {
    env::var("WARREN_TEST_LIVES").ok()?.parse().ok()
}

/// Runs `WARREN_TEST_LIVES` workflows. The coordinator is killed once in each, after a write; these writes are
/// spread over all states.
#[test]
fn a_workflow_succeeds_if_the_coordinator_is_killed_once() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = flow(2)?;
    run_workflow(&mut flow, &[XFS, RAW_TOO])?;
    let total = writes(flow.fixture.run.cluster.coordinator()?)?;
    ensure!(total > 40, "only {total} writes");
    let lives = lives().unwrap_or(1).clamp(1, total);
    for turn in 0..lives {
        let write = (turn * total + total / 2) / lives;
        let coordinator = flow.fixture.run.cluster.coordinator()?;
        coordinator.kill_at(WRITE, write, coordinator);
        run_workflow(&mut flow, &[XFS, RAW_TOO])
            .with_context(|| format!("killed after write {write}"))?;
        flow.fixture.run.cluster.coordinator()?.lift_trap();
    }
    flow.end()
}

const RAW_TOO: &str = "#DW jobdw type=raw capacity=64MiB name=other";

/// The coordinator is stopped in each state. The embedded API, which the coordinator serves, then hangs too.
#[test]
fn a_workflow_succeeds_if_the_coordinator_hangs_in_each_state() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let away = env::var("WARREN_TEST_AWAY").ok().and_then(|seconds| seconds.parse().ok());
    let away = away.map_or(Duration::from_millis(500), Duration::from_secs);
    let mut flow = flow(2)?;
    flow.create(&[XFS])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in AFTER_PROPOSAL {
        flow.request_state(state)?;
        let pid = flow.fixture.run.cluster.coordinator()?.pid()?;
        signal(pid, Signal::SIGSTOP)?;
        pause(away);
        signal(pid, Signal::SIGCONT)?;
        flow.wait(state, "Completed")?;
    }
    flow.delete()?;
    flow.end()
}
