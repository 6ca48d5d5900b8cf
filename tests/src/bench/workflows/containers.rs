//! Containers of one workflow over many simulated rabbits, beside what the server itself takes for the same objects; and many runs
//! that a coordinator holds while nothing happens.

mod server;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use kube::{Api, Client, api::PostParams};
use serde_json::json;

use super::{
    super::{Row, agent, life::millis, row::say},
    alone,
    driver::{Driver, UP},
    nodes::{Machine, patiently},
    processor, revision,
};
use crate::cluster::PATIENCE;

const LINES: &[&str] = &[
    "#DW jobdw type=raw capacity=1GiB name=scratch",
    "#DW container name=run profile=bench DW_JOB_scratch=scratch",
];
/// Rabbits of one workflow.
const RABBITS: [usize; 4] = [1, 16, 256, 700];

/// Runs that are held, on so many rabbits of one compute each.
const HELD: usize = 500;
const HOLDERS: usize = 50;
/// How long they are looked at.
const REST: Duration = Duration::from_secs(60);
/// Longer than an idle worker thread lives.
const SETTLE: Duration = Duration::from_secs(15);

/// What a run of containers took from the end of Setup until all of them were ready.
#[derive(Debug)]
pub struct Taken {
    seconds: f64,
    /// Processor time of the coordinator: engine, API and store together.
    processor: f64,
    /// Of the engine.
    writes: f64,
    server: server::Taken,
}

/// All rows, for rabbits of so many computes.
///
/// # Errors
/// When a coordinator does not start, or a workflow does not get to PreRun.
pub async fn measured(directory: &Path, computes: usize) -> anyhow::Result<Vec<Row>> {
    say(&format!("{HELD} runs at rest, for {} s", REST.as_secs()));
    let mut rows = held(directory).await?;
    let mut first = None;
    for rabbits in RABBITS {
        let (of_these, taken) = over(directory, rabbits, computes, first.as_ref()).await?;
        rows.extend(of_these);
        first = first.or(Some(taken));
    }
    Ok(rows)
}

/// The rows of one workflow over so many rabbits, compared with one over the first.
///
/// # Errors
/// When a coordinator does not start, or the workflow does not get to PreRun.
pub async fn over(
    directory: &Path,
    rabbits: usize,
    computes: usize,
    first: Option<&Taken>,
) -> anyhow::Result<(Vec<Row>, Taken)> {
    say(&format!("containers on {rabbits} simulated rabbits"));
    let taken = on(directory, rabbits, computes).await?;
    say(&format!("{taken:?}"));
    let count = f64::from(u32::try_from(rabbits)?);
    Ok((told(&taken, count, first.unwrap_or(&taken)).into(), taken))
}

fn told(taken: &Taken, rabbits: f64, first: &Taken) -> [Row; 4] {
    let what = format!("containers on {rabbits} rabbits:");
    let Taken { seconds, processor, writes, server } = taken;
    let of = |part: &str| format!("{what} {part}");
    [
        Row::ratio(&of("Setup to all ready"), *seconds, "server alone", server.seconds, "s"),
        Row::ratio(&of("processor time"), *processor, "server alone", server.processor, "s"),
        Row::ratio(&of("engine's writes, each"), writes / rabbits, "on one", first.writes, ""),
        Row::ratio(&of("bytes, each"), server.bytes / rabbits, "on one", first.server.bytes, ""),
    ]
}

async fn on(directory: &Path, rabbits: usize, computes: usize) -> anyhow::Result<Taken> {
    let (mut coordinator, client) = alone(directory, &[]).await?;
    profile(&client).await?;
    let machine = Machine::new(client.clone(), rabbits, computes);
    machine.describe().await?;
    let nodes = machine.start();
    let driver = Driver::new(client.clone(), LINES);
    driver.live("run", &machine.computes(0, rabbits), &["Setup"]).await?;
    let others = || driver.writes() + machine.writes();
    let (before, used) = (revision(&client).await? - others(), processor(coordinator.pid()?)?);
    let begun = Instant::now();
    driver.on("run", &["DataIn", "PreRun"]).await?;
    let seconds = millis(begun.elapsed()) / 1000.0;
    let used = processor(coordinator.pid()?)? - used;
    let writes = revision(&client).await? - others() - before;
    let objects = server::collect(&client).await?;
    nodes.abort();
    coordinator.stop(PATIENCE)?;
    let server = server::measured(directory, rabbits, computes, &objects).await?;
    Ok(Taken { seconds, processor: used, writes, server })
}

async fn profile(client: &Client) -> anyhow::Result<()> {
    let profiles: Api<api::NnfContainerProfile> = Api::namespaced(client.clone(), "nnf-system");
    let profile = serde_json::from_value(json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfContainerProfile",
        "metadata": {"name": "bench", "namespace": "nnf-system"},
        "data": {
            "storages": [{"name": "DW_JOB_scratch"}], "numPorts": 1,
            "spec": {"containers": [{"name": "run", "image": "bench:1", "command": ["/bin/run"]}]},
        },
    }))?;
    patiently(|| async { Ok(profiles.create(&PostParams::default(), &profile).await?) }).await
}

/// A coordinator that holds many runs, whose containers are ready, while nothing happens.
async fn held(directory: &Path) -> anyhow::Result<Vec<Row>> {
    let (mut coordinator, client) = alone(directory, &[]).await?;
    profile(&client).await?;
    let machine = Machine::new(client.clone(), HOLDERS, 1);
    machine.describe().await?;
    let nodes = machine.start();
    let driver = Driver::new(client.clone(), LINES);
    driver.many(HELD, HOLDERS, |lane| machine.computes(lane, 1), UP).await?;
    // Their watches are the bench's, and not the coordinator's.
    nodes.abort();
    let pid = coordinator.pid()?;
    tokio::time::sleep(SETTLE).await;
    let before = revision(&client).await?;
    tokio::time::sleep(SETTLE).await;
    let (woken, used) = (agent::switches(pid)?, processor(pid)?);
    tokio::time::sleep(REST).await;
    let a_minute = 60.0 / REST.as_secs_f64();
    let (woken, used) = (agent::switches(pid)? - woken, processor(pid)? - used);
    let written = revision(&client).await? - before;
    say(&format!("{woken} context switches, {used} s of processor time, {written} writes"));
    let what = format!("{HELD} runs at rest:");
    let resident = agent::resident(pid)?;
    coordinator.stop(PATIENCE)?;
    Ok(vec![
        Row::plain(&format!("{what} context switches"), woken * a_minute, "/min"),
        Row::plain(&format!("{what} processor time"), used * a_minute * 1000.0, "ms/min"),
        Row::plain(&format!("{what} writes"), written, ""),
        Row::plain(&format!("{what} resident set"), resident, "MB"),
    ])
}
