//! `kill -9` of a program after every step of a job's life, and convergence after its restart.
//!
//! An undisturbed run tells the steps; each of them is then the moment at which a program dies in a run of its own.

use anyhow::{Context, ensure};

use crate::{fixture::Fixture, program::Program};

/// Every line that tells of a step has this in it: the name of the module that takes steps.
const STEP: &str = "storage::execute";

/// Kills `victim` of every step of every node, in a run of its own for each, and says how many there were.
///
/// # Errors
/// When a run does not come to its end as if nothing had happened.
pub fn after_every_step(
    victims: impl Fn(&str) -> Vec<String>,
    tell: impl Fn(&str),
) -> anyhow::Result<usize> {
    let mut runs = 0;
    let steps = undisturbed()?;
    ensure!(steps.iter().all(|(_, count)| *count > 0), "a node took no steps: {steps:?}");
    for (node, count) in steps {
        for step in 0..count {
            for victim in victims(&node) {
                let what = format!("{victim} killed after step {step} of {node}");
                disturbed(&node, step, &victim).with_context(|| what.clone())?;
                tell(&what);
                runs += 1;
            }
        }
    }
    Ok(runs)
}

/// How many steps each node takes when nothing dies.
fn undisturbed() -> anyhow::Result<Vec<(String, usize)>> {
    let mut fixture = Fixture::new(1, "xfs")?;
    life(&mut fixture)?;
    let cluster = &fixture.run.cluster;
    let count = |node: String| {
        let log = std::fs::read_to_string(cluster.node(&node)?.log()).context("read the log")?;
        Ok((node, log.lines().filter(|line| line.contains(STEP)).count()))
    };
    let steps = cluster.node_names().into_iter().map(count).collect::<anyhow::Result<_>>()?;
    fixture.end()?;
    Ok(steps)
}

fn disturbed(node: &str, step: usize, victim: &str) -> anyhow::Result<()> {
    let mut fixture = Fixture::new(1, "xfs")?;
    let cluster = &fixture.run.cluster;
    let killed: &Program =
        if victim == "coordinator" { cluster.coordinator()? } else { cluster.node(victim)? };
    cluster.node(node)?.kill_at(STEP, step, killed);
    let outcome = life(&mut fixture);
    if outcome.is_err() {
        let kept = fixture.keep();
        return outcome.with_context(|| format!("everything is kept in {}", kept.display()));
    }
    ensure!(!fixture.run.cluster.node(node)?.trap_is_set(), "step {step} never came");
    ensure!(fixture.namespaces()?.is_empty(), "namespaces are left: {:?}", fixture.namespaces()?);
    fixture.end()
}

/// The coordinator is among those that die, so commands are repeated while it cannot be reached.
fn life(fixture: &mut Fixture) -> anyhow::Result<()> {
    fixture.run.patient = true;
    fixture.run.whole_life()
}
