//! Jobs whose daemons die, hang or are away meanwhile; and many jobs at once.

use std::time::SystemTime;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    cluster::patience,
    program::{signal, until},
    slurm::{Commands, Job, Slurm},
    workflow::left,
};

use super::{XFS, slurm};

/// Says that it began, ends when a file appears, and says whether its storage is still its own.
const WAIT: &str = "touch $DW_JOB_scratch/mine; echo begun; \
                    until [ -e go.$SLURM_JOB_ID ]; do sleep 0.1; done; ls $DW_JOB_scratch";

fn begin(slurm: &Slurm) -> anyhow::Result<Job> {
    let job = slurm.submit(&["--nodes=2"], &[XFS, WAIT])?;
    began(slurm, job)?;
    Ok(job)
}

fn end(slurm: &Slurm, job: Job) -> anyhow::Result<()> {
    std::fs::write(slurm.jobs().join(format!("go.{job}")), "").context("let it end")?;
    let output = slurm.completed(job)?;
    ensure!(output == "begun\nmine\n", "{output}");
    slurm.nothing_is_left()
}

#[test]
fn daemons_that_die_or_are_away_cost_no_job_its_storage() -> anyhow::Result<()> {
    let Some(mut slurm) = slurm("")? else { return Ok(()) };
    slurmd_dies(&slurm).context("slurmd dies")?;
    slurmctld_dies(&slurm).context("slurmctld dies")?;
    coordinator_is_away(&mut slurm).context("the coordinator is away")?;
    teardown_is_lost(&slurm).context("a teardown is lost")?;
    slurm.end()
}

fn slurmd_dies(slurm: &Slurm) -> anyhow::Result<()> {
    let job = begin(slurm)?;
    for node in ["compute-1", "compute-2"] {
        slurm.slurmd(node)?.kill()?;
    }
    end(slurm, job)
}

/// Once Slurm has written down how its jobs are: what it has not written down it begins anew.
fn kill_slurmctld(slurm: &Slurm) -> anyhow::Result<()> {
    let since = SystemTime::now();
    let another = slurm.submit(&["--hold"], &["true"])?;
    until("Slurm to save its state", patience(), || {
        ensure!(slurm.saved("job_state")? > since, "not yet");
        Ok(())
    })?;
    slurm.slurmctld().kill()?;
    until("slurmctld to serve again", patience(), || {
        slurm.prints("scancel", &[&another.to_string()]).map(drop)
    })
}

fn slurmctld_dies(slurm: &Slurm) -> anyhow::Result<()> {
    let job = begin(slurm)?;
    kill_slurmctld(slurm)?;
    end(slurm, job)?;
    // While storage is made, and while it is unmounted: the agents stand still.
    let cluster = &slurm.flow.fixture.run.cluster;
    let rabbit = cluster.node("rabbit-1")?;
    signal(rabbit.pid()?, Signal::SIGSTOP)?;
    let job = slurm.submit(&["--nodes=2"], &[XFS, WAIT])?;
    slurm.wait_for(job, &["BurstBufferState=pre-run"])?;
    kill_slurmctld(slurm)?;
    signal(rabbit.pid()?, Signal::SIGCONT)?;
    began(slurm, job)?;
    end(slurm, job)?;
    // Slurm writes down every 30 s which jobs have burst buffers, and leaves the end of one that it lost to its administrator.
    let job = begin(slurm)?;
    let since = SystemTime::now();
    until("Slurm to save its burst buffers", patience(), || {
        ensure!(slurm.saved("burst_buffer_lua_state")? > since, "not yet");
        Ok(())
    })?;
    let compute = cluster.node("compute-2")?;
    signal(compute.pid()?, Signal::SIGSTOP)?;
    std::fs::write(slurm.jobs().join(format!("go.{job}")), "").context("let it end")?;
    slurm.wait_for(job, &["BurstBufferState=post-run"])?;
    kill_slurmctld(slurm)?;
    signal(compute.pid()?, Signal::SIGCONT)?;
    end(slurm, job)
}

fn away(slurm: &mut Slurm) -> anyhow::Result<()> {
    slurm.flow.fixture.run.cluster.stop_one("coordinator")
}

fn back(slurm: &mut Slurm) -> anyhow::Result<()> {
    slurm.flow.fixture.run.cluster.start_coordinator()
}

fn began(slurm: &Slurm, job: Job) -> anyhow::Result<()> {
    until("the job to begin", patience(), || {
        ensure!(slurm.output(job)?.contains("begun"), "not yet: {}", slurm.shown(job)?);
        Ok(())
    })
}

/// A job is handed in, set up, started and ended while nobody answers.
fn coordinator_is_away(slurm: &mut Slurm) -> anyhow::Result<()> {
    away(slurm)?;
    let job = slurm.submit(&["--nodes=2"], &[XFS, WAIT])?;
    slurm.wait_for(job, &["JobState=PENDING", "BurstBufferState=staging-in"])?;
    back(slurm)?;
    began(slurm, job)?;
    away(slurm)?;
    std::fs::write(slurm.jobs().join(format!("go.{job}")), "").context("let it end")?;
    slurm.wait_for(job, &["BurstBufferState=post-run"])?;
    back(slurm)?;
    end(slurm, job)?;
    let job = slurm.submit(&["--nodes=2"], &[XFS, WAIT])?;
    goes_in(slurm, job, "rabbit-1", &["BurstBufferState=pre-run"])?;
    goes_in(slurm, job, "compute-2", &["BurstBufferState=running", "Reason=Prolog"])?;
    began(slurm, job)?;
    end(slurm, job)
}

/// The coordinator goes and comes back while a job is in a state, in which a node's agent holds it.
fn goes_in(slurm: &mut Slurm, job: Job, node: &str, state: &[&str]) -> anyhow::Result<()> {
    let agent = slurm.flow.fixture.run.cluster.node(node)?.pid()?;
    signal(agent, Signal::SIGSTOP)?;
    let went = slurm.wait_for(job, state).and_then(|_| {
        away(slurm)?;
        back(slurm)
    });
    signal(agent, Signal::SIGCONT)?;
    went.with_context(|| format!("in {state:?}"))
}

/// Slurm sometimes kills its call of a job that it cancels, before it gets to us, and makes no other. Here it waits on the way.
fn teardown_is_lost(slurm: &Slurm) -> anyhow::Result<()> {
    let goes_on = slurm.jobs().join("goes-on");
    let wait = format!("until [ -e '{}' ]; do sleep 0.1; done", goes_on.display());
    slurm
        .replace_program("setsid", &format!("#!/bin/sh\n{wait}\nexec /usr/bin/setsid \"$@\"\n"))?;
    let job = begin(slurm)?;
    slurm.prints("scancel", &[&job.to_string()])?;
    slurm.wait_for(job, &["JobState=CANCELLED", "BurstBufferState=teardown"])?;
    // Slurm looks at its pools every 30 s.
    until("its storage to go", 4 * patience(), || {
        let left = left(&slurm.flow.fixture.run)?;
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })?;
    slurm.wait_for(job, &["BurstBufferState=teardown"])?;
    std::fs::write(goes_on, "").context("let the call go on")?;
    slurm.wait_for(job, &["BurstBufferState=complete"])?;
    slurm.nothing_is_left()
}

#[test]
fn fifty_jobs_at_once_leave_nothing() -> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    let write = "echo $SLURM_JOB_ID > $DW_JOB_disk && echo written";
    let raw = "#DW jobdw type=raw capacity=16MiB name=disk";
    let jobs = (0..50).map(|_| slurm.submit(&["--nodes=1"], &[raw, write]));
    let jobs: Vec<Job> = jobs.collect::<anyhow::Result<_>>()?;
    let last = *jobs.last().context("a job")?;
    until("an empty queue", 4 * patience(), || {
        let queue = slurm.prints("squeue", &["--noheader"])?;
        ensure!(queue.trim().is_empty(), "{queue}");
        Ok(())
    })?;
    slurm.completed(last)?;
    for job in jobs {
        ensure!(slurm.output(job)?.trim() == "written", "{job}: {}", slurm.output(job)?);
    }
    slurm.nothing_is_left()?;
    slurm.end()
}
