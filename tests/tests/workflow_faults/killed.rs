//! The coordinator dies or hangs, again and again.

use std::{env, time::Duration};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    gate,
    program::{Program, pause, signal},
    workflow::{AFTER_PROPOSAL, Flow},
};

use crate::{RAW, XFS};

/// Every line that tells of a write of the engine has this in it.
const WRITE: &str = "workflow::execute";

/// A coordinator that tells of its writes, and a workload manager that repeats what was not answered.
fn flow(computes: u8) -> anyhow::Result<Flow> {
    let mut flow = Flow::new(computes, "life")?;
    let cluster = &mut flow.fixture.run.cluster;
    cluster.stop_one("coordinator")?;
    cluster.start_coordinator_with(&[("RUST_LOG", "info,workflow=debug")])?;
    flow.fixture.run.patient = true;
    Ok(flow)
}

/// From Proposal until nothing is left.
fn life(flow: &mut Flow, directives: &[&str]) -> anyhow::Result<()> {
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

/// After every fourth write, or after every one if `WARREN_TEST_LIVES` asks for more than usual.
#[test]
fn a_coordinator_that_dies_after_every_write_ends_where_one_that_lives_does() -> anyhow::Result<()>
{
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = flow(1)?;
    let times = if lives().is_some() { 1 } else { 4 };
    flow.fixture.run.cluster.coordinator()?.kill_itself_at_each(WRITE, times);
    life(&mut flow, &[RAW])?;
    let coordinator = flow.fixture.run.cluster.coordinator()?;
    coordinator.lift_trap();
    let deaths = writes(coordinator)? / times;
    // A real API keeps writes whose answer the dead coordinator never told of.
    ensure!(deaths > 20 / times, "only {deaths} deaths");
    flow.end()
}

fn lives() -> Option<usize> {
    env::var("WARREN_TEST_LIVES").ok()?.parse().ok()
}

/// In as many lives as `WARREN_TEST_LIVES` says, spread over the writes of a whole one.
#[test]
fn a_coordinator_that_dies_once_in_a_life() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = flow(2)?;
    life(&mut flow, &[XFS, RAW_TOO])?;
    let all = writes(flow.fixture.run.cluster.coordinator()?)?;
    ensure!(all > 40, "only {all} writes");
    let lives = lives().unwrap_or(1).clamp(1, all);
    for turn in 0..lives {
        let write = (turn * all + all / 2) / lives;
        let coordinator = flow.fixture.run.cluster.coordinator()?;
        coordinator.kill_at(WRITE, write, coordinator);
        life(&mut flow, &[XFS, RAW_TOO]).with_context(|| format!("killed after write {write}"))?;
        flow.fixture.run.cluster.coordinator()?.lift_trap();
    }
    flow.end()
}

const RAW_TOO: &str = "#DW jobdw type=raw capacity=64MiB name=other";

/// On the embedded API the API hangs with it.
#[test]
fn a_coordinator_that_hangs_in_each_state_is_waited_for() -> anyhow::Result<()> {
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
        flow.ask(state)?;
        let pid = flow.fixture.run.cluster.coordinator()?.pid()?;
        signal(pid, Signal::SIGSTOP)?;
        pause(away);
        signal(pid, Signal::SIGCONT)?;
        flow.wait(state, "Completed")?;
    }
    flow.delete()?;
    flow.end()
}
