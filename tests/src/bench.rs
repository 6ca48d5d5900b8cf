//! What Warren adds to the bare system calls, measured in one run and printed as one table.

pub mod agent;
pub mod life;
pub mod noise;
pub mod row;

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, ensure};

use crate::{
    centre::{Chassis, Job},
    cluster::Cluster,
    leftovers::clear,
    run::{Run, Silent},
};
use life::Lives;
use row::{Row, print, say};

/// How long the agent is watched at rest.
const REST: Duration = Duration::from_secs(60);
/// Mounts asked for at the same moment.
const AT_ONCE: usize = 50;
/// Mounts one after another.
const IN_TURN: usize = 30;

/// How long each mode of the noise is measured, twice.
const NOISE: Duration = Duration::from_secs(60);

/// Runs every measurement beneath `directory` and prints the table; with `noise` only that part, for so many seconds.
pub async fn run(directory: &Path, words: &[String]) -> ExitCode {
    match measured(directory, words).await {
        Ok(rows) => {
            print(&rows);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!(
                "bench failed: {error:#}\nlogs are in {}",
                directory.join("logs").display()
            ));
            ExitCode::FAILURE
        }
    }
}

async fn measured(directory: &Path, words: &[String]) -> anyhow::Result<Vec<Row>> {
    let noise_alone = words.first().is_some_and(|word| word == "noise");
    ensure!(noise_alone || words.is_empty(), "usage: bench [noise [SECONDS]]");
    let seconds = words.get(1).map(|word| word.parse()).transpose().context("SECONDS")?;
    let noise = seconds.map_or(NOISE, Duration::from_secs);
    clear(directory).context("clear away what an earlier run left")?;
    let drives = ["--file-drives", "4", "--file-drive-capacity", "64GiB"];
    let cluster = Cluster::start_with(directory, Chassis::new(1), &drives)?;
    let job = Job::new(1, "xfs", &cluster.mount_root());
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    run.describe_system()?;
    say(&format!("carving {AT_ONCE} file systems"));
    let lives = Lives::carve(&mut run, AT_ONCE).await?;
    let mut rows = Vec::new();
    if !noise_alone {
        say(&format!("watching the agent at rest for {} s", REST.as_secs()));
        rows.extend(agent::at_rest(run.cluster.node("compute-1")?.pid()?, REST).await?);
        say(&format!("{IN_TURN} mounts in turn, then {AT_ONCE} at once"));
        rows.extend(lives.in_turn(IN_TURN).await?);
    }
    let at_once = lives.at_once().await?;
    rows.extend(at_once.into_iter().filter(|_| !noise_alone));
    rows.extend(noise::measure(&mut run.cluster, noise)?);
    drop(run);
    clear(directory)?;
    Ok(rows)
}
