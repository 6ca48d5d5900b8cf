//! Tests the coordinator when it is killed under load, and when two agents with the same node name connect to it.

use std::{ops::Range, thread};

use anyhow::ensure;
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    program::{Program, until},
};

/// Every round changes the desired state of every ClientMount while the coordinator is killed. An agent that loses its
/// coordinator eight times in a row waits 15 s before it connects again; so the test divides the eight rounds between
/// two clusters, which run at the same time.
#[test]
fn no_status_is_lost_when_the_coordinator_is_killed_under_load() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    thread::scope(|scope| {
        let systems = [0..4, 4..8].map(|rounds| scope.spawn(move || flip_mounts(rounds)));
        systems.into_iter().try_for_each(|system| system.join().expect("a system"))
    })
}

fn flip_mounts(rounds: Range<usize>) -> anyhow::Result<()> {
    let mut fixture = Fixture::new(6, "raw")?;
    let run = &mut fixture.run;
    run.patient = true;
    run.job.capacity = 4 << 20;
    run.carve_and_mount()?;
    for round in rounds {
        let state = if round % 2 == 0 { "unmounted" } else { "mounted" };
        for (place, (compute, _)) in run.cluster.chassis().computes.clone().into_iter().enumerate()
        {
            run.desire(&compute, state)?;
            if place == round % 6 {
                run.cluster.coordinator()?.kill()?;
            }
        }
        run.wait_for_computes(state)?;
    }
    Ok(())
}

#[test]
fn of_two_agents_with_one_node_name_the_newer_replaces_the_older() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(1, "raw")?;
    let cluster = &fixture.run.cluster;
    let argv = cluster.agent_of("compute-1", "impostor")?;
    let _newer =
        Program::start_on_node("impostor", &argv, &cluster.node_mounts(), &cluster.logs())?;
    let code = fixture.run.cluster.node_mut("compute-1")?.wait(PATIENCE)?;
    ensure!(code == 3, "the older agent ended with {code}");
    let log = std::fs::read_to_string(fixture.run.cluster.node("compute-1")?.log())?;
    ensure!(log.contains("newer"), "the older agent did not say why:\n{log}");
    until("the newer to be in the roster", PATIENCE, || {
        let nodes = fixture.run.cluster.warren_prints(&["nodes", "--json"])?;
        ensure!(nodes.contains("compute-1"), "{nodes}");
        Ok(())
    })
}
