//! A job in every state at once, on four computes, and how it ends.

use std::fs;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    cluster::patience,
    program::{signal, until},
    slurm::{Commands, Job, Slurm},
};

use super::XFS;

/// Says that it began, ends when a file appears, and says whether its storage is still its own.
const WAIT: &str = "touch $DW_JOB_scratch/mine; echo begun; \
                    until [ -e go.$SLURM_JOB_ID ]; do sleep 0.3; done; ls $DW_JOB_scratch";

/// Where a job is, and what holds it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Held by its user.
    Pending,
    /// Its directives are not judged yet.
    StagingIn,
    /// Its node runs another job.
    StagedIn,
    /// The rabbit stands still.
    PreRun,
    /// Its node's agent stands still.
    Mounting,
    Running,
    /// Its node's agent stands still.
    PostRun,
    DataOut,
    Teardown,
}

/// In the order in which jobs come to them: what stands still for one must not be in the way of another.
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
    /// The call of burst_buffer.lua that waits on its way.
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

    /// Who stands still.
    fn stopped(self) -> Option<&'static str> {
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

    /// What Slurm shows of a job that is there.
    fn shown(self) -> &'static [&'static str] {
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

    /// Whether the job's script has ended.
    fn is_over(self) -> bool {
        matches!(self, Self::PostRun | Self::DataOut | Self::Teardown)
    }
}

/// What docs/use/slurm.md says that `squeue` shows, and what it prints.
const SEEN: [(State, &str, &str); 5] = [
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

/// A job in each state.
#[derive(Debug)]
pub(crate) struct Jobs<'a> {
    pub(crate) slurm: &'a Slurm,
    pub(crate) jobs: Vec<(State, Job)>,
}

impl<'a> Jobs<'a> {
    pub(crate) fn begin(slurm: &'a Slurm) -> anyhow::Result<Self> {
        let mut all = Self { slurm, jobs: Vec::new() };
        for state in STATES {
            all.bring(state).with_context(|| format!("bring a job to {state:?}"))?;
        }
        Ok(all)
    }

    fn bring(&mut self, state: State) -> anyhow::Result<()> {
        let (slurm, node) = (self.slurm, format!("--nodelist={}", state.node()));
        let stop = || state.stopped().map_or(Ok(()), |who| self.tell(who, Signal::SIGSTOP));
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
            self.let_end(job)?;
        }
        slurm.wait_for(job, state.shown())?;
        if let Some(call) = state.held_call() {
            slurm.wait_for_call(call, job)?;
        }
        self.jobs.push((state, job));
        Ok(())
    }

    /// What users see is what the documents say.
    pub(crate) fn are_seen(&self) -> anyhow::Result<()> {
        let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/slurm.md");
        let documents = fs::read_to_string(documents).context("read the documents")?;
        for (state, documented, seen) in SEEN {
            ensure!(documents.contains(documented), "not in docs/use/slurm.md: {documented}");
            let job = self.jobs.iter().find(|(one, _)| *one == state).context("such a job")?;
            let jobs = format!("--jobs={}", job.1);
            let queued = self.slurm.prints("squeue", &["--noheader", &jobs, "--format=%t %r"])?;
            ensure!(queued.trim() == seen, "{state:?}: {queued}");
        }
        Ok(())
    }

    fn tell(&self, node: &str, what: Signal) -> anyhow::Result<()> {
        signal(self.slurm.flow.fixture.run.cluster.node(node)?.pid()?, what)
    }

    fn let_end(&self, job: Job) -> anyhow::Result<()> {
        fs::write(self.slurm.jobs().join(format!("go.{job}")), "").context("let it end")
    }

    /// Takes away what holds jobs in their states.
    pub(crate) fn release(&self) -> anyhow::Result<()> {
        for (state, job) in &self.jobs {
            if let Some(call) = state.held_call() {
                self.slurm.let_go(call, *job)?;
            }
            if let Some(who) = state.stopped() {
                self.tell(who, Signal::SIGCONT)?;
            }
        }
        Ok(())
    }

    /// All jobs run to their end, each once and on storage of its own; nothing is left.
    pub(crate) fn complete(&self) -> anyhow::Result<()> {
        for (state, job) in &self.jobs {
            if *state == State::Pending {
                self.slurm.prints("scontrol", &["release", &job.to_string()])?;
            }
            if !state.is_over() {
                self.let_end(*job)?;
            }
        }
        for (state, job) in &self.jobs {
            let ended = || {
                self.slurm.begin_again(*job)?;
                let output = self.slurm.wait_until_complete(*job)?;
                ensure!(output == "begun\nmine\n", "{output}");
                Ok(())
            };
            ended().with_context(|| format!("one that was in {state:?}"))?;
        }
        self.slurm.nothing_is_left()?;
        self.slurm.wait_for_nodes("idle")
    }

    /// All jobs are cancelled but those whose scripts had ended; nothing is left.
    pub(crate) fn cancelled(&self, times: usize) -> anyhow::Result<()> {
        for _ in 0..times {
            for (_, job) in &self.jobs {
                // The second finds nothing to do, and Slurm says so or not.
                let scancel = self.slurm.command("scancel").arg(job.to_string()).status();
                scancel.context("start scancel")?;
            }
        }
        self.release()?;
        for (state, job) in &self.jobs {
            let ended = if state.is_over() { "JobState=COMPLETED" } else { "JobState=CANCELLED" };
            let shown = self.slurm.wait_for(*job, &[ended]);
            shown.with_context(|| format!("one that was in {state:?}"))?;
        }
        self.slurm.nothing_is_left()?;
        self.slurm.wait_for_nodes("idle")
    }
}
