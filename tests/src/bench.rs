//! Measures the time that Warren adds to the bare system calls, and prints one table.

pub mod agent;
pub mod copies;
pub mod life;
pub mod looks;
pub mod noise;
pub mod row;
pub mod slurm;
pub mod workflows;

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, bail};

use crate::{
    centre::{Chassis, Job},
    cluster::Cluster,
    leftovers::clear,
    run::{Run, Silent},
};
use life::Lives;
use row::{Row, print, say};

/// Time for which the resting agent is observed.
const REST: Duration = Duration::from_secs(60);
/// Number of mounts that are requested at the same moment.
const AT_ONCE: usize = 50;
/// Number of mounts that are measured one after another.
const IN_TURN: usize = 30;
/// Number of workflows that are measured one after another.
const WORKFLOWS: usize = 10;
/// Number of Slurm jobs that run with `#DW`, and again without; all run one after another.
const JOBS: usize = 10;

/// Number of computes of each rabbit that runs containers.
const COMPUTES: usize = 16;

/// Length of each measurement; every mode has two (see [`noise::Mode`]).
const NOISE: Duration = Duration::from_secs(60);

/// Runs every measurement beneath `directory` and prints the table. The first of `words` may select one part: `noise`,
/// with its length in seconds; `direct`, mounts with the server (`WARREN_KUBE`) and the link (`WARREN_TEST_LINK`) that
/// the environment names; `workflows`, the engine; `containers`, the engine's work for containers; `slurm`, the start
/// of Slurm jobs; `copies`, copies of data; `looks`, observations of a rabbit.
pub async fn run(directory: &Path, words: &[String]) -> ExitCode {
    match measure(directory, words).await {
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

/// The part that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// Processor time that other programs on the compute take from a job. Each mode is measured for this duration.
    Noise(Duration),
    /// Mounts that are made one after another.
    Direct,
    /// The workflow engine's times.
    Workflows,
    /// Containers on rabbits that have the first number of computes each. If there is a second number, only one
    /// workflow over that number of rabbits is measured.
    Containers(usize, Option<usize>),
    /// Jobs of Slurm that run one after another.
    Slurm,
    /// Copies of data, beside other programs.
    Copies,
    /// Observations of a rabbit's drives and allocations.
    Looks,
}

impl Part {
    fn parse(words: &[String]) -> anyhow::Result<Self> {
        match words {
            [] => Ok(Self::Whole),
            [part] if part == "noise" => Ok(Self::Noise(NOISE)),
            [part, seconds] if part == "noise" => {
                Ok(Self::Noise(Duration::from_secs(seconds.parse().context("SECONDS")?)))
            }
            [part] if part == "direct" => Ok(Self::Direct),
            [part] if part == "workflows" => Ok(Self::Workflows),
            [part] if part == "containers" => Ok(Self::Containers(COMPUTES, None)),
            [part, computes, rabbits @ ..] if part == "containers" && rabbits.len() < 2 => {
                let rabbits = rabbits.first().map(|rabbits| rabbits.parse().context("RABBITS"));
                let computes = computes.parse().context("COMPUTES")?;
                Ok(Self::Containers(computes, rabbits.transpose()?))
            }
            [part] if part == "slurm" => Ok(Self::Slurm),
            [part] if part == "copies" => Ok(Self::Copies),
            [part] if part == "looks" => Ok(Self::Looks),
            _ => bail!(
                "usage: bench [noise [SECONDS] | direct | workflows | containers [COMPUTES [RABBITS]] | slurm | copies | looks]"
            ),
        }
    }
}

async fn measure(directory: &Path, words: &[String]) -> anyhow::Result<Vec<Row>> {
    let part = Part::parse(words)?;
    if part == Part::Slurm {
        return slurm::starts(JOBS);
    }
    clear(directory).context("delete the files that an earlier run left")?;
    if matches!(part, Part::Copies | Part::Looks) {
        let measure = if part == Part::Copies { copies::measure } else { looks::measure };
        let rows = measure(directory)?;
        clear(directory)?;
        return Ok(rows);
    }
    match part {
        Part::Containers(computes, None) => {
            return workflows::containers::measure(directory, computes).await;
        }
        Part::Containers(computes, Some(rabbits)) => {
            return workflows::containers::compare_over(directory, rabbits, computes, None)
                .await
                .map(|(rows, _)| rows);
        }
        _ => {}
    }
    let drives = ["--file-drives", "4", "--file-drive-capacity", "64GiB"];
    let cluster = Cluster::start_with(directory, Chassis::new(1), &drives)?;
    let job = Job::new(1, "xfs", &cluster.mount_root());
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    run.describe_system()?;
    let mut rows = Vec::new();
    if matches!(part, Part::Whole | Part::Workflows) {
        say(&format!("{WORKFLOWS} workflows in turn, then many on a machine of simulated nodes"));
        rows.extend(workflows::on_this_box(&run.cluster, WORKFLOWS).await?);
        rows.extend(workflows::at_scale(directory).await?);
    }
    if part == Part::Whole {
        rows.extend(workflows::containers::measure(directory, COMPUTES).await?);
    }
    if part != Part::Workflows {
        rows.extend(measure_mounts(&mut run, part).await?);
    }
    drop(run);
    clear(directory)?;
    if part == Part::Whole {
        rows.extend(looks::measure(directory)?);
        clear(directory)?;
        rows.extend(copies::measure(directory)?);
        clear(directory)?;
        rows.extend(slurm::starts(JOBS)?);
    }
    Ok(rows)
}

async fn measure_mounts(run: &mut Run<Silent>, part: Part) -> anyhow::Result<Vec<Row>> {
    say(&format!("carving {AT_ONCE} file systems"));
    let lives = Lives::carve(run, AT_ONCE).await?;
    Ok(match part {
        Part::Workflows | Part::Containers(..) | Part::Slurm | Part::Copies | Part::Looks => {
            Vec::new()
        }
        Part::Direct => in_turn(&lives).await?,
        Part::Noise(duration) => {
            lives.at_once().await?;
            noise::measure(&mut run.cluster, duration)?
        }
        Part::Whole => {
            say(&format!("watching the agent at rest for {} s", REST.as_secs()));
            let mut rows = agent::at_rest(run.cluster.node("compute-1")?.pid()?, REST).await?;
            rows.extend(in_turn(&lives).await?);
            say(&format!("{AT_ONCE} mounts at once"));
            rows.extend(lives.at_once().await?);
            rows.extend(noise::measure(&mut run.cluster, NOISE)?);
            rows
        }
    })
}

async fn in_turn(lives: &Lives) -> anyhow::Result<Vec<Row>> {
    say(&format!("{IN_TURN} mounts in turn"));
    lives.in_turn(IN_TURN).await
}
