//! What Warren adds to the bare system calls, measured in one run and printed as one table.

pub mod agent;
pub mod life;
pub mod row;

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Context;

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

/// Runs every measurement beneath `directory` and prints the table.
pub async fn run(directory: &Path) -> ExitCode {
    match measured(directory).await {
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

async fn measured(directory: &Path) -> anyhow::Result<Vec<Row>> {
    clear(directory).context("clear away what an earlier run left")?;
    let drives = ["--file-drives", "4", "--file-drive-capacity", "64GiB"];
    let cluster = Cluster::start_with(directory, Chassis::new(1), &drives)?;
    let job = Job::new(1, "xfs", &cluster.mount_root());
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    run.describe_system()?;
    say(&format!("carving {AT_ONCE} file systems"));
    let lives = Lives::carve(&mut run, AT_ONCE).await?;
    let mut rows = Vec::new();
    say(&format!("watching the agent at rest for {} s", REST.as_secs()));
    rows.extend(agent::at_rest(run.cluster.node("compute-1")?.pid()?, REST).await?);
    say(&format!("{IN_TURN} mounts in turn, then {AT_ONCE} at once"));
    rows.extend(lives.in_turn(IN_TURN).await?);
    rows.extend(lives.at_once().await?);
    drop(run);
    clear(directory)?;
    Ok(rows)
}
