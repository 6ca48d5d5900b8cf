//! Tests in which Slurm loses a teardown call, and in which many jobs run at the same time.

use anyhow::{Context, ensure};
use tests::{
    cluster::patience,
    program::until,
    slurm::{Commands, Job},
    workflow::remaining_objects,
};

use super::{XFS, slurm};

/// Slurm sometimes kills its teardown call for a cancelled job before the call reaches Warren, and does not repeat the
/// call. The test delays the call, which has the same effect.
#[test]
fn storage_of_a_cancelled_job_is_removed_although_slurms_teardown_call_is_lost()
-> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    let goes_on = slurm.jobs().join("goes-on");
    let wait = format!("until [ -e '{}' ]; do sleep 0.3; done", goes_on.display());
    slurm
        .replace_program("setsid", &format!("#!/bin/sh\n{wait}\nexec /usr/bin/setsid \"$@\"\n"))?;
    let job = slurm.submit(&["--nodes=2"], &[XFS, "echo begun; sleep 600"])?;
    until("the job to begin", patience(), || {
        ensure!(slurm.output(job)?.contains("begun"), "not yet");
        Ok(())
    })?;
    slurm.prints("scancel", &[&job.to_string()])?;
    slurm.wait_for(job, &["JobState=CANCELLED", "BurstBufferState=teardown"])?;
    // Waits up to four times as long as usual: Slurm calls for its pools every 30 s, and only then does Warren remove
    // forgotten storage.
    until("the job's storage to be removed", 4 * patience(), || {
        let left = remaining_objects(&slurm.flow.fixture.run)?;
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })?;
    slurm.wait_for(job, &["BurstBufferState=teardown"])?;
    std::fs::write(goes_on, "").context("let the call continue")?;
    slurm.wait_for(job, &["BurstBufferState=complete"])?;
    slurm.nothing_is_left()?;
    slurm.end()
}

#[test]
#[ignore = "long: 40 s of a processor; make test LONG=1"]
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
    slurm.wait_until_complete(last)?;
    for job in jobs {
        ensure!(slurm.output(job)?.trim() == "written", "{job}: {}", slurm.output(job)?);
    }
    slurm.nothing_is_left()?;
    slurm.end()
}
