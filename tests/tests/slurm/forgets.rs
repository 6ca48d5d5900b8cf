//! Test of burst buffers that slurmctld forgets because it is killed before it saves its state.

use anyhow::{Context, ensure};
use tests::{
    cluster::patience,
    program::until,
    slurm::{Commands, Job, Slurm},
    workflow::remaining_objects,
};

use super::{XFS, slurm};

/// Job script that prints `begun`, waits for a file, and then lists its storage. The storage must have only the file
/// that this job made.
const WAIT: &str = "touch $DW_JOB_scratch/mine; echo begun; \
                    until [ -e go.$SLURM_JOB_ID ]; do sleep 0.3; done; ls $DW_JOB_scratch";

#[test]
fn storage_that_slurm_forgot_is_removed_or_the_jobs_comment_names_the_loss() -> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    slurm.watch_calls()?;
    // Slurm saves its state after this job has begun, and then not again for 30 s.
    let before = slurm.submit_held("create", &["--nodes=2"], &[XFS, "true"])?;
    slurm.wait_for_saved_buffers(&[before])?;
    slurm.prints("scancel", &[&before.to_string()])?;
    slurm.release("create", before)?;
    let runs = slurm.submit(&["--nodelist=compute-1"], &[XFS, WAIT])?;
    let ends = slurm.submit_held("data-out", &["--nodelist=compute-2"], &[XFS, "true"])?;
    let waits = slurm.submit_held("create", &["--nodes=1"], &[XFS, "true"])?;
    let unknown = create_unknown_job(&slurm)?;
    until("the job to begin", patience(), || {
        ensure!(slurm.output(runs)?.contains("begun"), "not yet");
        Ok(())
    })?;
    slurm.wait_for_call("data-out", ends)?;
    slurm.wait_for_call("create", waits)?;
    slurm.kill_slurmctld()?;
    let buffers = slurm.prints("scontrol", &["show", "burst"])?;
    for job in [runs, ends, waits] {
        ensure!(
            !buffers.contains(&format!("JobID={job} ")),
            "Slurm saved the burst buffer of job {job}: {buffers}"
        );
    }
    slurm.release("data-out", ends)?;
    slurm.release("create", waits)?;
    forgotten_storage_is_handled(&slurm, [runs, ends, waits, unknown])?;
    slurm.end()
}

/// Creates storage for a job that Slurm does not know.
fn create_unknown_job(slurm: &Slurm) -> anyhow::Result<Job> {
    let job = 4711;
    let words = ["workload", "create", &job.to_string(), "--manager", "slurm", XFS];
    slurm.flow.fixture.run.prints(&words)?;
    Ok(job)
}

/// Checks that the storage of ended and unknown jobs is removed, that the waiting job's comment names the loss, and
/// that the running job keeps its storage.
fn forgotten_storage_is_handled(
    slurm: &Slurm,
    [runs, ends, waits, unknown]: [Job; 4],
) -> anyhow::Result<()> {
    slurm.wait_for(
        waits,
        &["AdminComment=warren: Slurm forgot this job's storage", "=staging-in"],
    )?;
    until("the storage of ended and unknown jobs to go", patience(), || {
        let left = remaining_objects(&slurm.flow.fixture.run)?;
        let has = |job: Job| left.iter().any(|name| name.contains(&format!("slurm-{job}")));
        ensure!(!has(ends) && !has(unknown), "left: {left:?}");
        ensure!(has(runs), "the running job lost its storage: {left:?}");
        Ok(())
    })?;
    // The running job must keep its storage until it ends.
    std::fs::write(slurm.jobs().join(format!("go.{runs}")), "").context("end the job")?;
    ensure!(slurm.wait_until_complete(runs)? == "begun\nmine\n", "{}", slurm.output(runs)?);
    slurm.prints("scancel", &[&waits.to_string()])?;
    slurm.flow.nothing_is_left()?;
    slurm.nothing_is_reserved()?;
    slurm.wait_for_nodes("idle")
}
