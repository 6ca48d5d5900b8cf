//! Measures the containers of one workflow over many simulated rabbits, compared with the server's own cost for the
//! same objects, and a coordinator that is responsible for many idle container runs.

mod server;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use kube::{Api, Client, api::PostParams};
use serde_json::json;

use super::{
    super::{Row, agent, life::millis, row::say},
    driver::{Driver, UP},
    nodes::{Machine, retry},
    processor, revision, start_empty,
};
use crate::cluster::PATIENCE;

const LINES: &[&str] = &[
    "#DW jobdw type=raw capacity=1GiB name=scratch",
    "#DW container name=run profile=bench DW_JOB_scratch=scratch",
];
/// Numbers of rabbits of one workflow.
const RABBITS: [usize; 4] = [1, 16, 256, 700];

/// Number of idle container runs that a coordinator is responsible for, on [`HOLDERS`] rabbits of one compute each.
const HELD: usize = 500;
const HOLDERS: usize = 50;
/// Length of the measurement of idle runs.
const REST: Duration = Duration::from_secs(60);
/// Wait before a measurement; an idle worker thread ends sooner.
const SETTLE: Duration = Duration::from_secs(15);

/// Cost of a container run, from the end of Setup until all containers of the run were ready.
#[derive(Debug)]
pub struct Cost {
    seconds: f64,
    /// Processor time of the coordinator: engine, API and store together.
    processor: f64,
    /// Writes of the engine to the store.
    writes: f64,
    server: server::Cost,
}

/// Makes all rows of the table, for rabbits with `computes` computes each.
///
/// # Errors
/// When a coordinator does not start, or a workflow does not get to PreRun.
pub async fn measure(directory: &Path, computes: usize) -> anyhow::Result<Vec<Row>> {
    say(&format!("{HELD} runs at rest, for {} s", REST.as_secs()));
    let mut rows = measure_held(directory).await?;
    let mut first = None;
    for rabbits in RABBITS {
        let (these, cost) = compare_over(directory, rabbits, computes, first.as_ref()).await?;
        rows.extend(these);
        first = first.or(Some(cost));
    }
    Ok(rows)
}

/// Measures one workflow over `rabbits` rabbits, and compares it with the workflow that was measured first.
///
/// # Errors
/// When a coordinator does not start, or the workflow does not get to PreRun.
pub async fn compare_over(
    directory: &Path,
    rabbits: usize,
    computes: usize,
    first: Option<&Cost>,
) -> anyhow::Result<(Vec<Row>, Cost)> {
    say(&format!("containers on {rabbits} simulated rabbits"));
    let cost = measure_on(directory, rabbits, computes).await?;
    say(&format!("{cost:?}"));
    let count = f64::from(u32::try_from(rabbits)?);
    Ok((rows(&cost, count, first.unwrap_or(&cost)).into(), cost))
}

fn rows(cost: &Cost, rabbits: f64, first: &Cost) -> [Row; 4] {
    let what = format!("containers on {rabbits} rabbits:");
    let Cost { seconds, processor, writes, server } = cost;
    let name = |part: &str| format!("{what} {part}");
    [
        Row::ratio(&name("Setup to all ready"), *seconds, "server alone", server.seconds, "s"),
        Row::ratio(&name("processor time"), *processor, "server alone", server.processor, "s"),
        Row::ratio(&name("engine's writes, each"), writes / rabbits, "on one", first.writes, ""),
        Row::ratio(&name("bytes, each"), server.bytes / rabbits, "on one", first.server.bytes, ""),
    ]
}

async fn measure_on(directory: &Path, rabbits: usize, computes: usize) -> anyhow::Result<Cost> {
    let (mut coordinator, client) = start_empty(directory, &[]).await?;
    profile(&client).await?;
    let machine = Machine::new(client.clone(), rabbits, computes);
    machine.describe().await?;
    let nodes = machine.start();
    let driver = Driver::new(client.clone(), LINES);
    driver.live("run", &machine.computes(0, rabbits), &["Setup"]).await?;
    let others = || driver.writes() + machine.writes();
    let (before, used) = (revision(&client).await? - others(), processor(coordinator.pid()?)?);
    let begun = Instant::now();
    driver.pass("run", &["DataIn", "PreRun"]).await?;
    let seconds = millis(begun.elapsed()) / 1000.0;
    let used = processor(coordinator.pid()?)? - used;
    let writes = revision(&client).await? - others() - before;
    let objects = server::collect(&client).await?;
    nodes.abort();
    coordinator.stop(PATIENCE)?;
    let server = server::measure(directory, rabbits, computes, &objects).await?;
    Ok(Cost { seconds, processor: used, writes, server })
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
    retry(|| async { Ok(profiles.create(&PostParams::default(), &profile).await?) }).await
}

/// Measures a coordinator that is responsible for many runs while nothing happens: all containers of
/// the runs are ready.
async fn measure_held(directory: &Path) -> anyhow::Result<Vec<Row>> {
    let (mut coordinator, client) = start_empty(directory, &[]).await?;
    profile(&client).await?;
    let machine = Machine::new(client.clone(), HOLDERS, 1);
    machine.describe().await?;
    let nodes = machine.start();
    let driver = Driver::new(client.clone(), LINES);
    driver.run_all(HELD, HOLDERS, |lane| machine.computes(lane, 1), UP).await?;
    // Ends the simulated agents: their watches would count as the coordinator's cost.
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
