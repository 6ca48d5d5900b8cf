//! Tests of a fault in every state of a job. The faults are: slurmctld is killed, slurmds are killed, the coordinator
//! cannot be reached, the job is cancelled once or twice.

use std::time::Duration;

use anyhow::Context;
use tests::{
    gate,
    program::pause,
    slurm::{Job, Scripts, Slurm},
    workflow::Flow,
};

use super::states::{Jobs, State};

/// Starts Slurm on a cluster of four computes, if this machine can run it.
fn four_computes(settings: &str) -> anyhow::Result<Option<Slurm>> {
    if !gate::loop_devices() || !gate::slurm() {
        return Ok(None);
    }
    let slurm = Slurm::on(Flow::new(4, "unused")?, Scripts::Warren, settings)?;
    slurm.watch_calls()?;
    Ok(Some(slurm))
}

#[test]
#[ignore = "long: it waits for a minute; make test LONG=1"]
fn every_job_completes_after_slurmctld_is_killed() -> anyhow::Result<()> {
    let Some(slurm) = four_computes("")? else { return Ok(()) };
    let jobs = Jobs::begin(&slurm)?;
    let with_buffers = jobs.jobs.iter().filter(|(state, _)| *state != State::Pending);
    let with_buffers: Vec<Job> = with_buffers.map(|(_, job)| *job).collect();
    slurm.wait_for_saved_buffers(&with_buffers)?;
    slurm.kill_slurmctld()?;
    jobs.release()?;
    jobs.complete()?;
    slurm.end()
}

#[test]
#[ignore = "long: it waits for a minute; make test LONG=1"]
fn every_job_completes_after_the_slurmds_are_killed() -> anyhow::Result<()> {
    let Some(slurm) = four_computes("")? else { return Ok(()) };
    let jobs = Jobs::begin(&slurm)?;
    for (node, _) in &slurm.flow.fixture.run.cluster.chassis().computes {
        slurm.slurmd(node)?.kill()?;
    }
    jobs.release()?;
    jobs.complete()?;
    slurm.end()
}

#[test]
#[ignore = "long: it waits for a minute; make test LONG=1"]
fn every_job_completes_after_the_coordinator_was_away_for_a_minute() -> anyhow::Result<()> {
    let Some(mut slurm) = four_computes("WARREN_UNREACHABLE=5m\n")? else { return Ok(()) };
    let jobs = Jobs::begin(&slurm)?.jobs;
    slurm.flow.fixture.run.cluster.stop_one("coordinator")?;
    // Lets the jobs' scripts continue while there is no coordinator.
    Jobs { slurm: &slurm, jobs: jobs.clone() }.release()?;
    pause(Duration::from_secs(60));
    slurm.flow.fixture.run.cluster.start_coordinator()?;
    Jobs { slurm: &slurm, jobs }.complete()?;
    slurm.end()
}

#[test]
fn a_job_cancelled_in_each_state_once_or_twice_leaves_nothing() -> anyhow::Result<()> {
    let Some(slurm) = four_computes("")? else { return Ok(()) };
    for times in [1, 2] {
        let jobs = Jobs::begin(&slurm)?;
        jobs.ensure_documented()?;
        jobs.cancel_all(times).with_context(|| format!("scancel {times}"))?;
    }
    slurm.end()
}
