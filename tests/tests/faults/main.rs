//! Tests with faults of a cluster's Kubernetes. Warren must lose nothing, and continue when the fault ends.
//!
//! Each test starts its own control plane. `make kube` runs these tests.

mod api_away;
mod certificates;
mod clock;
mod definitions;
mod engine;
mod namespace;
mod overload;

use anyhow::ensure;
use tests::{fixture::Fixture, program::Program};

fn computes(fixture: &Fixture) -> Vec<String> {
    fixture.run.cluster.chassis().computes.iter().map(|(name, _)| name.clone()).collect()
}

/// Reads the log of a program.
fn log(program: &Program) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(program.log())?)
}

/// Checks that no program died: after a death, its supervisor would have started another process,
/// with another process id.
fn no_program_died(fixture: &Fixture, pids: &[(String, u32)]) -> anyhow::Result<()> {
    let now = pids_of(fixture)?;
    ensure!(now == pids, "programs died: {pids:?} became {now:?}");
    Ok(())
}

fn pids_of(fixture: &Fixture) -> anyhow::Result<Vec<(String, u32)>> {
    let cluster = &fixture.run.cluster;
    let mut pids = vec![("coordinator".to_owned(), cluster.coordinator()?.pid()?)];
    for name in cluster.node_names() {
        pids.push((name.clone(), cluster.node(&name)?.pid()?));
    }
    Ok(pids)
}
