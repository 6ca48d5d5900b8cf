//! What happens to a machine's Kubernetes, and what Warren makes of it: nothing is lost, everything goes on.
//!
//! Each test has a control plane of its own. `make kube` runs them.

mod api_away;
mod certificates;
mod clock;
mod definitions;
mod namespace;
mod overload;

use anyhow::ensure;
use serde_json::{Value, json};
use tests::{fixture::Fixture, program::Program};

/// Asks every compute's ClientMount for `state`, one after another.
fn flip(fixture: &mut Fixture, computes: &[String], state: &str) -> anyhow::Result<()> {
    let run = &mut fixture.run;
    let name = run.job.computes_mount();
    for compute in computes {
        let text = run.prints(&["get", "clientmount", &name, "-n", compute, "--json"])?;
        let mount: Value = serde_json::from_str(&text)?;
        run.apply("flip", &[json!({
            "apiVersion": mount["apiVersion"], "kind": "ClientMount",
            "metadata": {"name": mount["metadata"]["name"], "namespace": compute},
            "spec": {"desiredState": state, "node": mount["spec"]["node"], "mounts": mount["spec"]["mounts"]},
        })])?;
    }
    Ok(())
}

fn computes(fixture: &Fixture) -> Vec<String> {
    fixture.run.cluster.chassis().computes.iter().map(|(name, _)| name.clone()).collect()
}

/// Every log line of a program so far.
fn log(program: &Program) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(program.log())?)
}

/// No program died: its supervisor would have started another one under the same log.
fn nobody_died(fixture: &Fixture, pids: &[(String, u32)]) -> anyhow::Result<()> {
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
