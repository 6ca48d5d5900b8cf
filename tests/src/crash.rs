//! Kills a program with SIGKILL after every step of a job, and checks that the job still succeeds
//! after the program's restart.
//!
//! An undisturbed run counts the steps. Then there is one run for each step, in which a program is
//! killed after that step.

use std::{sync::Mutex, thread};

use anyhow::{Context, ensure};

use crate::{fixture::Fixture, program::Program};

/// Text in every log line about a step: the name of the module that executes steps.
const STEP: &str = "storage::execute";

/// Number of runs at the same time. More than one is possible because a run spends most of its
/// time waiting for programs.
const AT_A_TIME: usize = 4;

/// Kills a program after each step of each node, always in a new run. `victims` returns the programs to kill after a
/// step of a node; each of them gets a run.
///
/// # Errors
/// When a run does not end as an undisturbed run does.
pub fn kill_once_in_each_run(victims: impl Fn(&str) -> Vec<String>) -> anyhow::Result<()> {
    let steps = count_steps()?;
    ensure!(steps.iter().all(|(_, count)| *count > 0), "a node took no steps: {steps:?}");
    let mut deaths = Vec::new();
    for (node, count) in steps {
        let of_node = victims(&node).into_iter().map(|victim| (node.clone(), victim));
        deaths.extend(of_node.flat_map(|death| (0..count).map(move |step| (death.clone(), step))));
    }
    let deaths_left = Mutex::new(deaths.into_iter());
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..AT_A_TIME).map(|_| scope.spawn(|| run_with_one_kill(&deaths_left))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker"))
    })
}

/// Takes entries from the shared list until it is empty, and makes one run for each, in which the program is killed
/// as the entry says.
fn run_with_one_kill(
    deaths_left: &Mutex<impl Iterator<Item = ((String, String), usize)>>,
) -> anyhow::Result<()> {
    loop {
        let next = deaths_left.lock().expect("no worker panics with the lock").next();
        let Some(((node, victim), step)) = next else { return Ok(()) };
        run_disturbed(&node, step, &victim)
            .with_context(|| format!("{victim} killed after step {step} of {node}"))?;
    }
}

/// Runs one job during which every agent is killed after each of its steps, and returns the number of kills.
///
/// # Errors
/// When the job does not end as an undisturbed job does.
pub fn kill_after_every_step_of_one_job(computes: u8) -> anyhow::Result<usize> {
    let mut fixture = Fixture::new(computes, "xfs")?;
    let nodes = fixture.run.cluster.node_names();
    for node in &nodes {
        fixture.run.cluster.node(node)?.kill_itself_at_every(STEP);
    }
    if let Err(error) = run_job(&mut fixture) {
        return Err(error.context(format!("everything is kept in {}", fixture.keep().display())));
    }
    let mut deaths = 0;
    for node in &nodes {
        let program = fixture.run.cluster.node(node)?;
        program.lift_trap();
        deaths += steps(program)?;
    }
    let left = fixture.namespaces()?;
    ensure!(left.is_empty(), "namespaces are left: {left:?}");
    fixture.end()?;
    Ok(deaths)
}

fn steps(program: &Program) -> anyhow::Result<usize> {
    let log = std::fs::read_to_string(program.log()).context("read the log")?;
    Ok(log.lines().filter(|line| line.contains(STEP)).count())
}

/// Counts the steps that each node takes in an undisturbed run.
fn count_steps() -> anyhow::Result<Vec<(String, usize)>> {
    let mut fixture = Fixture::new(1, "xfs")?;
    run_job(&mut fixture)?;
    let cluster = &fixture.run.cluster;
    let count = |node: String| {
        let steps = steps(cluster.node(&node)?)?;
        Ok((node, steps))
    };
    let steps = cluster.node_names().into_iter().map(count).collect::<anyhow::Result<_>>()?;
    fixture.end()?;
    Ok(steps)
}

fn run_disturbed(node: &str, step: usize, victim: &str) -> anyhow::Result<()> {
    let mut fixture = Fixture::new(1, "xfs")?;
    let cluster = &fixture.run.cluster;
    let killed: &Program =
        if victim == "coordinator" { cluster.coordinator()? } else { cluster.node(victim)? };
    cluster.node(node)?.kill_at(STEP, step, killed);
    let outcome = run_job(&mut fixture);
    if outcome.is_err() {
        let kept = fixture.keep();
        return outcome.with_context(|| format!("everything is kept in {}", kept.display()));
    }
    ensure!(!fixture.run.cluster.node(node)?.trap_is_set(), "{node} did not take step {step}");
    ensure!(fixture.namespaces()?.is_empty(), "namespaces are left: {:?}", fixture.namespaces()?);
    fixture.end()
}

/// Runs a job from its first to its last state. Commands are repeated while the coordinator cannot be reached, since
/// the coordinator too may be killed.
fn run_job(fixture: &mut Fixture) -> anyhow::Result<()> {
    fixture.run.patient = true;
    fixture.run.whole_life()
}
