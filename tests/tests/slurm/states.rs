//! Holds one job in each state at the same time, on four computes.

use std::fs;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    cluster::patience,
    program::{signal, until},
    slurm::{Commands, Job, Slurm},
};

use super::XFS;

/// Job script that prints `begun`, waits for a file, and then lists its storage. The storage must have only the file
/// that this job made.
const WAIT: &str = "touch $DW_JOB_scratch/mine; echo begun; \
                    until [ -e go.$SLURM_JOB_ID ]; do sleep 0.3; done; ls $DW_JOB_scratch";

/// States of a job. The comment of each says what keeps the job in the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The user has submitted the job with `--hold`.
    Pending,
    /// The call that checks the job's directives is delayed.
    StagingIn,
    /// The job's node runs another job.
    StagedIn,
    /// The rabbit's agent is stopped.
    PreRun,
    /// The agent of the job's node is stopped before the mount.
    Mounting,
    /// The job's script waits for a file.
    Running,
    /// The agent of the job's node is stopped before the unmount.
    PostRun,
    /// The call `data-out` is delayed.
    DataOut,
    /// The call `teardown` is delayed.
    Teardown,
}

/// Order in which the jobs are brought to their states. In this order, an agent that is stopped for one job does not
/// delay the next jobs.
const STATES: [State; 9] = [
    State::DataOut,
    State::Teardown,
    State::Running,
    State::PostRun,
    State::Mounting,
    State::PreRun,
    State::StagedIn,
    State::StagingIn,
    State::Pending,
];

impl State {
    /// Returns the call of burst_buffer.lua that the test delays.
    fn held_call(self) -> Option<&'static str> {
        match self {
            Self::StagingIn => Some("create"),
            Self::DataOut => Some("data-out"),
            Self::Teardown => Some("teardown"),
            Self::Pending
            | Self::StagedIn
            | Self::PreRun
            | Self::Mounting
            | Self::Running
            | Self::PostRun => None,
        }
    }

    /// Returns the node whose agent the test stops.
    fn stopped_node(self) -> Option<&'static str> {
        match self {
            Self::PreRun => Some("rabbit-1"),
            Self::Mounting => Some("compute-2"),
            Self::PostRun => Some("compute-3"),
            Self::Pending
            | Self::StagingIn
            | Self::StagedIn
            | Self::Running
            | Self::DataOut
            | Self::Teardown => None,
        }
    }

    fn node(self) -> &'static str {
        match self {
            Self::Mounting => "compute-2",
            Self::PostRun => "compute-3",
            Self::PreRun => "compute-4",
            Self::Pending
            | Self::StagingIn
            | Self::StagedIn
            | Self::Running
            | Self::DataOut
            | Self::Teardown => "compute-1",
        }
    }

    /// Returns words that `scontrol show job` prints in this state.
    fn words_of_scontrol(self) -> &'static [&'static str] {
        match self {
            Self::Pending => &["JobState=PENDING", "BurstBufferState=pending"],
            Self::StagingIn => &["JobState=PENDING", "BurstBufferState=staging-in"],
            Self::StagedIn => &["JobState=PENDING", "BurstBufferState=staged-in"],
            Self::PreRun => &["JobState=CONFIGURING", "BurstBufferState=pre-run"],
            Self::Mounting => &["JobState=RUNNING", "BurstBufferState=running", "Reason=Prolog"],
            Self::Running => &["JobState=RUNNING", "BurstBufferState=running"],
            Self::PostRun => &["JobState=COMPLETING", "BurstBufferState=post-run"],
            Self::DataOut => &["JobState=STAGE_OUT", "BurstBufferState=staging-out"],
            Self::Teardown => &["JobState=COMPLETED", "BurstBufferState=teardown"],
        }
    }

    /// Returns true if the job's script has ended in this state.
    fn is_over(self) -> bool {
        matches!(self, Self::PostRun | Self::DataOut | Self::Teardown)
    }
}

/// Each row has a state, the row of docs/use/slurm.md about it, and the words that `squeue` prints.
const PRINTED_BY_SQUEUE: [(State, &str, &str); 5] = [
    (
        State::StagingIn,
        "| the directives are looked at | `squeue` | `BurstBufferStageIn` |",
        "PD BurstBufferStageIn",
    ),
    (State::PreRun, "| storage is made | `squeue` | state `CF` |", "CF None"),
    (State::Mounting, "| nodes mount it | `squeue` | reason `Prolog` |", "R Prolog"),
    (
        State::PostRun,
        "| nodes unmount it | `squeue` | state `CG` |",
        "CG burst_buffer/lua: Stage-out in progress",
    ),
    (
        State::DataOut,
        "| data is copied out | `squeue` | state `SO` |",
        "SO burst_buffer/lua: Stage-out in progress",
    ),
];

/// The jobs, one in each state.
#[derive(Debug)]
pub(crate) struct Jobs<'a> {
    pub(crate) slurm: &'a Slurm,
    pub(crate) jobs: Vec<(State, Job)>,
}

impl<'a> Jobs<'a> {
    pub(crate) fn begin(slurm: &'a Slurm) -> anyhow::Result<Self> {
        let mut jobs = Self { slurm, jobs: Vec::new() };
        for state in STATES {
            jobs.bring_job_to(state).with_context(|| format!("bring a job to {state:?}"))?;
        }
        Ok(jobs)
    }

    fn bring_job_to(&mut self, state: State) -> anyhow::Result<()> {
        let (slurm, node) = (self.slurm, format!("--nodelist={}", state.node()));
        let stop =
            || state.stopped_node().map_or(Ok(()), |node| self.signal(node, Signal::SIGSTOP));
        if !state.is_over() {
            stop()?;
        }
        let words = ["--nodes=1", &node];
        let job = match (state, state.held_call()) {
            (_, Some(call)) => slurm.submit_held(call, &words, &[XFS, WAIT])?,
            (State::Pending, None) => slurm.submit(&["--hold"], &[XFS, WAIT])?,
            (_, None) => slurm.submit(&words, &[XFS, WAIT])?,
        };
        if state.is_over() || state == State::Running {
            until("the job to begin", patience(), || {
                ensure!(slurm.output(job)?.contains("begun"), "not yet");
                Ok(())
            })?;
        }
        if state.is_over() {
            stop()?;
            self.let_job_end(job)?;
        }
        slurm.wait_for(job, state.words_of_scontrol())?;
        if let Some(call) = state.held_call() {
            slurm.wait_for_call(call, job)?;
        }
        self.jobs.push((state, job));
        Ok(())
    }

    /// Checks that `squeue` prints the words that docs/use/slurm.md gives.
    pub(crate) fn ensure_documented(&self) -> anyhow::Result<()> {
        let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/slurm.md");
        let documents = fs::read_to_string(documents).context("read the documents")?;
        for (state, documented, printed) in PRINTED_BY_SQUEUE {
            ensure!(documents.contains(documented), "not in docs/use/slurm.md: {documented}");
            let job = self
                .jobs
                .iter()
                .find(|(known, _)| *known == state)
                .context("a job in that state")?;
            let jobs = format!("--jobs={}", job.1);
            let queued = self.slurm.prints("squeue", &["--noheader", &jobs, "--format=%t %r"])?;
            ensure!(queued.trim() == printed, "{state:?}: {queued}");
        }
        Ok(())
    }

    fn signal(&self, node: &str, what: Signal) -> anyhow::Result<()> {
        signal(self.slurm.flow.fixture.run.cluster.node(node)?.pid()?, what)
    }

    /// Creates the file that the job's script waits for.
    fn let_job_end(&self, job: Job) -> anyhow::Result<()> {
        fs::write(self.slurm.jobs().join(format!("go.{job}")), "").context("end the job")
    }

    /// Lets the delayed calls and the stopped agents continue.
    pub(crate) fn release(&self) -> anyhow::Result<()> {
        for (state, job) in &self.jobs {
            if let Some(call) = state.held_call() {
                self.slurm.release(call, *job)?;
            }
            if let Some(node) = state.stopped_node() {
                self.signal(node, Signal::SIGCONT)?;
            }
        }
        Ok(())
    }

    /// Checks that all jobs run to their end, that each runs once and on its own storage, and that nothing is left.
    pub(crate) fn complete(&self) -> anyhow::Result<()> {
        for (state, job) in &self.jobs {
            if *state == State::Pending {
                self.slurm.prints("scontrol", &["release", &job.to_string()])?;
            }
            if !state.is_over() {
                self.let_job_end(*job)?;
            }
        }
        for (state, job) in &self.jobs {
            let ended = || {
                self.slurm.begin_again(*job)?;
                let output = self.slurm.wait_until_complete(*job)?;
                ensure!(output == "begun\nmine\n", "{output}");
                Ok(())
            };
            ended().with_context(|| format!("job that was in {state:?}"))?;
        }
        self.slurm.nothing_is_left()?;
        self.slurm.wait_for_nodes("idle")
    }

    /// Cancels all jobs. Checks that all jobs are cancelled except those whose scripts had ended, and
    /// that nothing is left.
    pub(crate) fn cancel_all(&self, times: usize) -> anyhow::Result<()> {
        for _ in 0..times {
            for (_, job) in &self.jobs {
                // The second scancel may fail, since the job is cancelled already.
                let scancel = self.slurm.command("scancel").arg(job.to_string()).status();
                scancel.context("start scancel")?;
            }
        }
        self.release()?;
        for (state, job) in &self.jobs {
            let ended = if state.is_over() { "JobState=COMPLETED" } else { "JobState=CANCELLED" };
            let shown = self.slurm.wait_for(*job, &[ended]);
            shown.with_context(|| format!("job that was in {state:?}"))?;
        }
        self.slurm.nothing_is_left()?;
        self.slurm.wait_for_nodes("idle")
    }
}
