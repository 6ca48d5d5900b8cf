//! Cost of the workflow engine: one workflow on this computer with real storage, and many workflows on a
//! cluster with simulated nodes.

pub mod containers;
mod driver;
mod nodes;

use std::{fs, path::Path, time::Instant};

use anyhow::Context;
use driver::{Driver, UP};
use kube::Client;
use nodes::Machine;

use super::{Row, row::say};
use crate::{
    cluster::{Cluster, PATIENCE},
    program::{Program, until},
    workflow::AFTER_PROPOSAL,
};

/// Milliseconds from Proposal to the end of Teardown under the sites' Go controllers with mocked storage: the shortest
/// recorded time (the times were 4.4 to 6.7 s).
const GO_LIFE: f64 = 4400.0;
/// Aim: the engine makes at most this number of writes per object.
const WRITES: f64 = 3.0;
const XFS: &[&str] = &["#DW jobdw type=xfs capacity=320MiB name=scratch"];
/// Directives for simulated nodes.
const SIMULATED: &[&str] = &["#DW jobdw type=xfs capacity=1GiB name=scratch"];
/// Computes of a simulated rabbit.
const COMPUTES: usize = 16;

/// Runs `count` workflows one after another, on the cluster that the other measurements use too.
///
/// # Errors
/// When a workflow does not get to the end of Teardown.
pub async fn on_this_box(cluster: &Cluster, count: usize) -> anyhow::Result<Vec<Row>> {
    let client = control_plane::client(&cluster.kubeconfig()).await?;
    let computes: Vec<String> =
        cluster.chassis().computes.iter().map(|(name, _)| name.clone()).collect();
    let driver = Driver::new(client, XFS);
    let mut lives = Vec::new();
    for number in 0..count {
        let begun = Instant::now();
        driver.live(&format!("bench-{number}"), &computes, &AFTER_PROPOSAL).await?;
        lives.push(super::life::millis(begun.elapsed()));
        driver.delete(&format!("bench-{number}")).await?;
    }
    let life = super::life::median(&mut lives);
    Ok(vec![Row::ratio("Proposal to Teardown, median", life, "Go, mocked storage", GO_LIFE, "ms")])
}

/// A number of workflows with 16 computes per rabbit. Unless `is_together` is set, a rabbit has at most one
/// workflow at a time.
#[derive(Debug, Clone, Copy)]
struct Load {
    rabbits: usize,
    workflows: usize,
    /// Number of rabbits of each workflow.
    each: usize,
    /// Whether all workflows reach PreRun before the first of them advances further; each rabbit then has
    /// many workflows at once.
    is_together: bool,
}

/// Cost of a load for the coordinator.
#[derive(Debug)]
struct Cost {
    seconds: f64,
    /// Processor time of the coordinator: engine, API and store together.
    processor: f64,
    writes: f64,
    objects: f64,
    resident: f64,
}

/// Measures how the cost grows with the number of workflows, and with the number of rabbits of one workflow.
///
/// # Errors
/// When the coordinator does not start, or a workflow does not get to the end of its last state.
pub async fn at_scale(directory: &Path) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut first: Option<Cost> = None;
    for workflows in [125, 250, 500, 1000] {
        let load = Load { rabbits: 64, workflows, each: 1, is_together: false };
        let cost = measure(directory, load).await?;
        let count = f64::from(u32::try_from(workflows)?);
        let what = format!("{workflows} workflows of 16 computes:");
        say(&format!("{what} {cost:?}"));
        let base = first.as_ref().map_or(cost.processor / count, |first| first.processor / 125.0);
        let per = cost.processor / count * 1000.0;
        rows.push(Row::ratio(
            &format!("{what} processor time of each"),
            per,
            "of 125",
            base * 1000.0,
            "ms",
        ));
        rows.push(Row::ratio(
            &format!("{what} writes per object"),
            cost.writes / cost.objects,
            "aim",
            WRITES,
            "",
        ));
        rows.push(Row::plain(&format!("{what} finished"), count / cost.seconds, "/s"));
        rows.push(Row::plain(&format!("{what} resident set"), cost.resident, "MB"));
        let each = cost.processor / count;
        first = first.or(Some(cost));
        if workflows == 1000 {
            rows.extend(together(directory, workflows, each).await?);
        }
    }
    rows.extend(wide(directory).await?);
    Ok(rows)
}

/// Measures `workflows` workflows that are all in PreRun at the same time. Compares the processor time of each with
/// `each`, the processor time of a workflow when every rabbit has one workflow at a time.
async fn together(directory: &Path, workflows: usize, each: f64) -> anyhow::Result<Vec<Row>> {
    let load = Load { rabbits: 64, workflows, each: 1, is_together: true };
    let cost = measure(directory, load).await?;
    let count = f64::from(u32::try_from(workflows)?);
    let what = format!("{workflows} workflows live at once:");
    say(&format!("{what} {cost:?}"));
    let per = cost.processor / count * 1000.0;
    let writes = cost.writes / cost.objects;
    Ok(vec![
        Row::ratio(
            &format!("{what} processor time of each"),
            per,
            "64 at once",
            each * 1000.0,
            "ms",
        ),
        Row::ratio(&format!("{what} writes per object"), writes, "aim", WRITES, ""),
        Row::plain(&format!("{what} finished"), count / cost.seconds, "/s"),
        Row::plain(&format!("{what} resident set in PreRun"), cost.resident, "MB"),
    ])
}

/// Measures one workflow over half of the simulated rabbits, and one over all of them.
async fn wide(directory: &Path) -> anyhow::Result<Vec<Row>> {
    let half = measure(directory, wide_load(348)).await?;
    let whole = measure(directory, wide_load(696)).await?;
    say(&format!("5,568 computes: {half:?}\n11,136 computes: {whole:?}"));
    Ok(vec![
        Row::ratio(
            "one workflow over 11,136 computes: processor time",
            whole.processor,
            "over 5,568",
            half.processor,
            "s",
        ),
        Row::ratio(
            "one workflow over 11,136 computes: writes per object",
            whole.writes / whole.objects,
            "aim",
            WRITES,
            "",
        ),
        Row::plain("one workflow over 11,136 computes: all states", whole.seconds, "s"),
    ])
}

fn wide_load(rabbits: usize) -> Load {
    Load { rabbits, workflows: 1, each: rabbits, is_together: false }
}

async fn measure(directory: &Path, load: Load) -> anyhow::Result<Cost> {
    let (mut coordinator, client) = start_empty(directory, &[]).await?;
    let machine = Machine::new(client.clone(), load.rabbits, COMPUTES);
    machine.describe().await?;
    let nodes = machine.start();
    let driver = Driver::new(client.clone(), SIMULATED);
    let (before, used) = (revision(&client).await?, processor(coordinator.pid()?)?);
    let begun = Instant::now();
    let computes = |lane: usize| machine.computes(lane * load.each, load.each);
    let (lanes, pid) = (load.rabbits / load.each, coordinator.pid()?);
    let states = if load.is_together { UP } else { &AFTER_PROPOSAL };
    driver.run_all(load.workflows, lanes, computes, states).await?;
    let resident = super::agent::resident(pid)?;
    if load.is_together {
        driver.finish_all(load.workflows, lanes).await?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let writes = revision(&client).await? - before - driver.writes() - machine.writes();
    let cost = Cost {
        seconds,
        processor: processor(coordinator.pid()?)? - used,
        writes,
        objects: machine.objects() + driver.objects(),
        resident,
    };
    nodes.abort();
    coordinator.stop(PATIENCE)?;
    Ok(cost)
}

/// Starts a coordinator whose embedded API has no objects yet.
async fn start_empty(directory: &Path, arguments: &[&str]) -> anyhow::Result<(Program, Client)> {
    let directory = directory.join("scale");
    #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("make a directory")?;
    let coordinator = Program::coordinator_with(&directory, arguments)?;
    Ok((coordinator, client(&directory).await?))
}

async fn client(directory: &Path) -> anyhow::Result<Client> {
    let kubeconfig = directory.join("data/kubeconfig");
    until("the coordinator's kubeconfig", PATIENCE, || {
        fs::metadata(&kubeconfig).context("not there yet").map(drop)
    })?;
    control_plane::client(&kubeconfig).await
}

/// Returns the number of writes that the store has committed.
async fn revision(client: &Client) -> anyhow::Result<f64> {
    let workflows: kube::Api<api::Workflow> = kube::Api::all(client.clone());
    let listed = workflows.list(&kube::api::ListParams::default()).await.context("list")?;
    let version = listed.metadata.resource_version.context("a version")?;
    version.parse().context("a version that is a number")
}

/// Returns the seconds of processor time that a process has used (proc_pid_stat(5), fields 14 and 15).
fn processor(pid: u32) -> anyhow::Result<f64> {
    let stat = procfs::process::Process::new(i32::try_from(pid)?)?.stat()?;
    let ticks = u32::try_from(stat.utime + stat.stime)?;
    Ok(f64::from(ticks) / f64::from(u32::try_from(procfs::ticks_per_second())?))
}
