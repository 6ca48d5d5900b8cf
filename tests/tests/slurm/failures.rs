//! Test in which a job's storage fails. `WARREN_ON_FAILURE` says whether the job is then requeued, held or cancelled.

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    cluster::patience,
    program::{signal, until},
    slurm::{Commands, Job, Slurm},
};

use super::{XFS, slurm};

/// A directive with a capacity that is too small for mkfs.xfs.
const TOO_SMALL: &str = "#DW jobdw type=xfs capacity=16MiB name=scratch";

/// Each row has a value of `WARREN_ON_FAILURE`, and two beginnings of `squeue`'s state and reason. The first is that of
/// a job whose storage was not made, the second that of a job whose nodes did not mount the storage in time. A pending
/// job that is cancelled keeps its last reason.
const CHOICES: [(&str, &str, &str); 3] = [
    ("requeue", "PENDING Burst buffer pre_run error", "PENDING BeginTime"),
    ("hold", "PENDING JobHeldAdmin", "PENDING JobHeldUser"),
    ("cancel", "CANCELLED", "CANCELLED Prolog"),
];

#[test]
fn a_job_whose_storage_failed_is_requeued_held_or_cancelled_as_configured() -> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    slurm.watch_calls()?;
    for (choice, not_made, not_mounted) in CHOICES {
        slurm.set(&format!("WARREN_ON_FAILURE={choice}\nWARREN_PROLOG_DEADLINE=2\n"))?;
        storage_is_not_made(&slurm, not_made).with_context(|| format!("not made: {choice}"))?;
        storage_is_not_mounted(&slurm, not_mounted)
            .with_context(|| format!("not mounted: {choice}"))?;
    }
    slurm.end()
}

/// Submits a job whose storage cannot be made.
fn storage_is_not_made(slurm: &Slurm, expected: &str) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2"], &[TOO_SMALL, "true"])?;
    ensure_ended(slurm, job, expected, &["pre_run: ", "no xfs can be made"])
}

/// Submits a job whose nodes cannot mount in time: the test stops the rabbit's agent, which would
/// give the nodes access.
fn storage_is_not_mounted(slurm: &Slurm, expected: &str) -> anyhow::Result<()> {
    let job = slurm.submit_held("start", &["--nodes=2"], &[XFS, "true"])?;
    slurm.wait_for_call("start", job)?;
    let rabbit = slurm.flow.fixture.run.cluster.node("rabbit-1")?.pid()?;
    signal(rabbit, Signal::SIGSTOP)?;
    slurm.release("start", job)?;
    // Both nodes give up. Then the rabbit's agent continues: it must free the storage.
    let gave_up = slurm.wait_for(job, &["AdminComment="]);
    signal(rabbit, Signal::SIGCONT)?;
    gave_up?;
    ensure_ended(
        slurm,
        job,
        expected,
        &[&format!(": warren prolog of job slurm-{job}: "), "(exit code 3)"],
    )
}

/// Checks that the job has this state and the causes in its comment, and that its storage and its nodes are free.
fn ensure_ended(slurm: &Slurm, job: Job, expected: &str, causes: &[&str]) -> anyhow::Result<()> {
    let shown = slurm.wait_for(job, &[causes, &["BurstBufferState=complete"]].concat())?;
    slurm.wait_for_nodes("idle")?;
    until(&format!("job {job} to be {expected}"), patience(), || {
        let queued = slurm.queue_state(job)?;
        ensure!(queued.trim().starts_with(expected), "{queued}: {shown}");
        Ok(())
    })?;
    slurm.wait_for(job, causes)?;
    if expected.starts_with("PENDING") {
        slurm.prints("scancel", &[&job.to_string()])?;
    }
    slurm.nothing_is_left()
}
