//! Measures noise, the time that other programs on a compute take from a job: with mounts in place, on an empty
//! machine, and beside a daemon that polls.
//!
//! Only one core is measured. During a measurement, the programs that would run on other hosts, which are the
//! coordinator and the rabbit's agent, are stopped with SIGSTOP.

mod beside;
pub mod counters;
pub mod poller;
pub mod rank;

use std::{
    fs::File,
    num::NonZeroUsize,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::Stdio,
    thread::available_parallelism,
    time::Duration,
};

use anyhow::{Context, ensure};

use super::row::{Row, say};
use crate::{
    cluster::{Cluster, PATIENCE},
    program::{Program, command, pause},
};
use beside::{Beside, Frozen};
use counters::Counted;
use rank::Spread;

/// The compute that is measured.
const COMPUTE: &str = "compute-1";
/// Largest number of ranks that wait for each other at a barrier: more ranks show nothing new.
const MOST_RANKS: usize = 16;
/// Wait until an agent is at rest: its worker threads end when they have idled for ten seconds.
const SETTLE: Duration = Duration::from_secs(15);

/// Wait until the stand-in for the polling daemon has finished its start, whose cost must not be measured.
const STARTED: Duration = Duration::from_secs(2);

/// What the compute has besides the job: programs and mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The agent runs, at rest; file systems are mounted.
    Resident,
    /// No agent runs, since it was idle and ended (`--idle-exit`); file systems are mounted.
    OnDemand,
    /// Instead of the agent, a stand-in runs that wakes as often as the Go agent did when its wake-ups were recorded;
    /// file systems are mounted.
    Polling,
    /// No agent and no mounts.
    Empty,
}

impl Mode {
    /// All modes, in the order in which they are measured: each differs from the previous mode in one respect.
    const ALL: [Self; 4] = [Self::Resident, Self::OnDemand, Self::Polling, Self::Empty];

    fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::OnDemand => "on demand",
            Self::Polling => "polling stand-in",
            Self::Empty => "empty machine",
        }
    }
}

/// Figures that were measured in one mode.
#[derive(Debug)]
struct Figures {
    mode: Mode,
    counted: Counted,
    alone: Spread,
    barrier: Option<Spread>,
}

/// Measures every mode for `length`, with the mounts that the compute has at the call. Afterwards the compute has
/// neither agent nor mounts.
///
/// # Errors
/// When a program cannot be started or stopped, or a counter cannot be read.
pub fn measure(cluster: &mut Cluster, length: Duration) -> anyhow::Result<Vec<Row>> {
    let mut compute = Compute::new(cluster)?;
    let mut figures = Vec::new();
    for mode in Mode::ALL {
        say(&format!("{}: {} s of a loop, as long of a barrier", mode.name(), length.as_secs()));
        let beside = compute.arrange(cluster, mode)?;
        figures.push(compute.figures(cluster, mode, beside.pid(), length)?);
    }
    Ok(rows(&figures))
}

/// The compute that is measured.
#[derive(Debug)]
struct Compute {
    /// Mount namespace of the compute, held open after the agent has ended; `None` in [`Mode::Empty`], the last mode.
    mounts: Option<File>,
    /// Number of the core that is measured: the last core, since the first core serves interrupts.
    core: usize,
    cores: usize,
    directory: PathBuf,
}

impl Compute {
    fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let namespace = format!("/proc/{}/ns/mnt", cluster.node(COMPUTE)?.node_pid());
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        Ok(Self {
            mounts: Some(File::open(namespace).context("hold the compute's mounts")?),
            core: cores - 1,
            cores,
            directory: cluster.logs(),
        })
    }

    /// Brings the compute into a mode, from the previous mode in [`Mode::ALL`].
    fn arrange(&mut self, cluster: &mut Cluster, mode: Mode) -> anyhow::Result<Beside> {
        match mode {
            Mode::Resident => {
                let pid = cluster.node(COMPUTE)?.pid()?;
                rank::pin_all(pid, self.core)?;
                pause(SETTLE);
                Ok(Beside::Agent(pid))
            }
            Mode::OnDemand => {
                cluster.node_mut(COMPUTE)?.stop(PATIENCE)?;
                self.start_on_demand(cluster)?;
                Ok(Beside::Nobody)
            }
            Mode::Polling => {
                let mut poller = command(std::env::current_exe()?);
                let poller = poller.arg("poller").arg(self.core.to_string());
                let poller = Beside::Poller(poller.spawn().context("start the stand-in")?);
                pause(STARTED);
                Ok(poller)
            }
            Mode::Empty => {
                self.mounts = None;
                Ok(Beside::Nobody)
            }
        }
    }

    /// Starts the agent once more with its mounts in place, as a script's call would. The agent finds nothing
    /// to do, and ends.
    fn start_on_demand(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let mounts = self.mounts.as_ref().context("the mounts are gone")?.as_raw_fd();
        let agent = cluster.agent(COMPUTE)?;
        let mut argv = command("nsenter");
        argv.arg(format!("--mount=/proc/{}/fd/{mounts}", std::process::id())).arg("--");
        argv.arg(agent.get_program()).args(agent.get_args()).args(["--idle-exit", "1"]);
        let code = Program::start("on-demand", &argv, &cluster.logs())?.wait(PATIENCE)?;
        ensure!(code == 0, "the agent ended with {code}, and not because it was idle");
        Ok(())
    }

    fn figures(
        &self,
        cluster: &Cluster,
        mode: Mode,
        beside: Option<u32>,
        length: Duration,
    ) -> anyhow::Result<Figures> {
        let _frozen = Frozen::stop(cluster)?;
        let counting = counters::Counting::start(beside, length * 2)?;
        let alone = self.ranks(&self.directory, 1, length)?;
        let ranks = self.cores.min(MOST_RANKS);
        let barrier =
            (ranks > 1).then(|| self.ranks(&self.directory, ranks, length)).transpose()?;
        Ok(Figures { mode, counted: counting.finish()?, alone, barrier })
    }

    /// Runs `ranks` ranks, the first on the measured core, and returns the times of the first.
    fn ranks(&self, directory: &Path, ranks: usize, length: Duration) -> anyhow::Result<Spread> {
        let mut started = Vec::new();
        for index in 0..ranks {
            let core = (self.core + index) % self.cores;
            let mut rank = command(std::env::current_exe()?);
            rank.arg("rank").arg(directory).stdout(Stdio::piped());
            let numbers = [index, ranks, core, usize::try_from(length.as_millis())?];
            rank.args(numbers.map(|number| number.to_string()));
            started.push(rank.spawn().context("start a rank")?);
        }
        let mut first = None;
        for rank in started {
            let output = rank.wait_with_output().context("wait for a rank")?;
            ensure!(output.status.success(), "a rank failed: {}", output.status);
            first = first.or(Some(output.stdout));
        }
        serde_json::from_slice(&first.context("no rank")?).context("read the figures of a rank")
    }
}

fn rows(figures: &[Figures]) -> Vec<Row> {
    let find = |mode| figures.iter().find(|figures| figures.mode == mode);
    let (Some(polling), Some(empty)) = (find(Mode::Polling), find(Mode::Empty)) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for ours in [find(Mode::OnDemand), find(Mode::Resident)].into_iter().flatten() {
        rows.extend(ours.counted.compare(&polling.counted, ours.mode.name(), polling.mode.name()));
    }
    for ours in figures.iter().filter(|figures| figures.mode != Mode::Empty) {
        rows.extend(times("loop", ours.mode, &ours.alone, &empty.alone));
        if let (Some(ours_at), Some(empty_at)) = (&ours.barrier, &empty.barrier) {
            rows.extend(times("barrier", ours.mode, ours_at, empty_at));
        }
    }
    rows
}

fn times(what: &str, mode: Mode, ours: &Spread, empty: &Spread) -> [Row; 3] {
    [("p50", ours.p50, empty.p50), ("p99", ours.p99, empty.p99), ("p99.9", ours.p999, empty.p999)]
        .map(|(share, ours, empty)| {
            let what = format!("{what} {share}, {}", mode.name());
            Row::ratio(&what, ours, Mode::Empty.name(), empty, "us")
        })
}
