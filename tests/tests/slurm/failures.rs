//! Storage that cannot be had: what becomes of the job is the administrator's choice (`WARREN_ON_FAILURE`).

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    cluster::patience,
    program::{signal, until},
    slurm::{Commands, Job, Slurm},
};

use super::{XFS, slurm};

/// Of this mkfs.xfs makes no file system.
const TOO_SMALL: &str = "#DW jobdw type=xfs capacity=16MiB name=scratch";

/// How `squeue`'s state and reason then begin, of a job whose storage is not made, and of one whose nodes do not mount it in time.
/// A pending job that is cancelled keeps what it waited for as its reason.
const CHOICES: [(&str, &str, &str); 3] = [
    ("requeue", "PENDING Burst buffer pre_run error", "PENDING BeginTime"),
    ("hold", "PENDING JobHeldAdmin", "PENDING JobHeldUser"),
    ("cancel", "CANCELLED", "CANCELLED Prolog"),
];

#[test]
fn what_fails_for_good_is_requeued_held_or_cancelled_as_configured() -> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    slurm.watch_calls()?;
    for (choice, not_made, not_mounted) in CHOICES {
        slurm.set(&format!("WARREN_ON_FAILURE={choice}\nWARREN_PROLOG_DEADLINE=2\n"))?;
        is_not_made(&slurm, not_made).with_context(|| format!("not made: {choice}"))?;
        is_not_mounted(&slurm, not_mounted).with_context(|| format!("not mounted: {choice}"))?;
    }
    slurm.end()
}

/// Storage fails while it is made.
fn is_not_made(slurm: &Slurm, becomes: &str) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2"], &[TOO_SMALL, "true"])?;
    ends(slurm, job, becomes, &["pre_run: ", "no xfs can be made"])
}

/// Mounts are asked for and never come: nobody gives the nodes access.
fn is_not_mounted(slurm: &Slurm, becomes: &str) -> anyhow::Result<()> {
    let job = slurm.submit_held("start", &["--nodes=2"], &[XFS, "true"])?;
    slurm.wait_for_call("start", job)?;
    let rabbit = slurm.flow.fixture.run.cluster.node("rabbit-1")?.pid()?;
    signal(rabbit, Signal::SIGSTOP)?;
    slurm.let_go("start", job)?;
    // Both nodes give up; the rabbit is needed to free what it made.
    let gave_up = slurm.wait_for(job, &["AdminComment="]);
    signal(rabbit, Signal::SIGCONT)?;
    gave_up?;
    ends(slurm, job, becomes, &[&format!(": warren prolog of job slurm-{job}: "), "(exit code 3)"])
}

/// The job has become what it should and has the cause; its storage and its nodes are free.
fn ends(slurm: &Slurm, job: Job, becomes: &str, causes: &[&str]) -> anyhow::Result<()> {
    let shown = slurm.wait_for(job, &[causes, &["BurstBufferState=complete"]].concat())?;
    slurm.wait_for_nodes("idle")?;
    until(&format!("job {job} to be {becomes}"), patience(), || {
        let queued = slurm.queue_state(job)?;
        ensure!(queued.trim().starts_with(becomes), "{queued}: {shown}");
        Ok(())
    })?;
    slurm.wait_for(job, causes)?;
    if becomes.starts_with("PENDING") {
        slurm.prints("scancel", &[&job.to_string()])?;
    }
    slurm.nothing_is_left()
}
