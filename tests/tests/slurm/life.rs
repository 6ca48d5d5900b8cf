//! A batch job, and what its user sees before, meanwhile and after.

use anyhow::ensure;
use tests::{
    cluster::patience,
    program::until,
    slurm::{Commands, Slurm, USER},
};

use super::{XFS, slurm};

/// Writes on each node as the user, reads it again, and tells where it was.
const WRITE: &str = "srun sh -c 'hostname -s >/dev/null; echo $SLURMD_NODENAME > $DW_JOB_scratch/name; \
     echo $(cat $DW_JOB_scratch/name) $(stat -f -c %T $DW_JOB_scratch) $(stat -c %U $DW_JOB_scratch/name)'";

#[test]
fn a_job_finds_its_storage_and_its_user_sees_how_it_is() -> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    batch_job(&slurm)?;
    refused(&slurm)?;
    seen_while_it_runs(&slurm)?;
    capacity(&slurm)?;
    slurm.end()
}

fn batch_job(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2"], &[XFS, "env | grep ^DW_", WRITE])?;
    let output = slurm.wait_until_complete(job)?;
    for part in [
        format!("compute-1 xfs {USER}"),
        format!("compute-2 xfs {USER}"),
        format!("DW_WORKFLOW_NAME=slurm-{job}"),
        "DW_JOB_scratch=/".to_owned(),
    ] {
        ensure!(output.contains(&part), "no {part:?} in {output}");
    }
    // One without storage meets nothing of ours.
    let plain = slurm.submit(&["--nodes=2"], &["env | grep -c ^DW_"])?;
    slurm.wait_for(plain, &["JobState=FAILED", "ExitCode=1:0"])?;
    ensure!(slurm.output(plain)?.trim() == "0", "{}", slurm.output(plain)?);
    slurm.nothing_is_left()
}

fn refused(slurm: &Slurm) -> anyhow::Result<()> {
    let bad = "#DW jobdw type=ext4 capacity=320MiB name=scratch";
    let output = slurm.try_submit(&[], &[XFS, bad, "true"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "it was taken: {said}");
    for part in ["directive 1", "type=ext4", "raw|xfs|gfs2|lustre"] {
        ensure!(said.contains(part), "no {part:?} in {said}");
    }
    // What the engine never carries out, and what is no directive, at the moment of submission.
    for (line, part) in [
        ("#DW type=xfs capacity=320MiB name=second", "stands where the command belongs"),
        ("#DW jobdw type=xfs capacity=1MiB name=second # for later", "a line of its own"),
        ("#DW copy_in source=/lus/a destination=$DW_JOB_scratch", "copies nothing"),
        ("#DW jobdw type=xfs capacity=1MiB name=second requires=copy-offload", "copies nothing"),
        ("#DW create_persistent type=xfs capacity=1MiB name=kept", "stands alone in a workflow"),
    ] {
        let output = slurm.try_submit(&[], &[XFS, line, "true"])?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(part), "{line}: {said}");
        ensure!(!said.contains("warren workload") && !said.contains("taken"), "{line}: {said}");
    }
    // Two nodes ask for more than all rabbits have; one asks for no more than a rabbit might.
    let output = slurm
        .try_submit(&["--nodes=2"], &["#DW jobdw type=xfs capacity=9TiB name=scratch", "true"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let told = said.contains("asks for 19791209299968 bytes on all of its nodes together");
    ensure!(!output.status.success() && told, "{said}");
    // A line that nobody reads is told, and the job taken: a script may write other scripts.
    let output = slurm.try_submit(&["--hold"], &["true", XFS])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let told = ["0 #DW directive(s) taken, 1 line(s) not read", "line 3: #DW jobdw type=xfs"];
    ensure!(output.status.success() && told.iter().all(|part| said.contains(part)), "{said}");
    slurm.prints("scancel", &[String::from_utf8_lossy(&output.stdout).trim()])?;
    // What a shell would take for a command is a word of a directive.
    let file = slurm.jobs().join("made");
    let hostile =
        format!("#DW jobdw type=$(touch {0}) name=`touch {0}`;'touch {0}'", file.display());
    let output = slurm.try_submit(&[], &[&hostile, "true"])?;
    ensure!(!output.status.success() && !file.exists(), "{output:?}");
    // A profile may come until the job runs: this one is judged when its storage is set up.
    let job = slurm.submit(&["--nodes=1"], &[&format!("{XFS} profile=none"), "true"])?;
    let shown = slurm.wait_for(job, &["no such NnfStorageProfile", "slurm_bb_setup"])?;
    ensure!(shown.contains("JobState=PENDING"), "{shown}");
    slurm.prints("scancel", &[&job.to_string()])?;
    slurm.nothing_is_left()
}

fn seen_while_it_runs(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2"], &[XFS, "sleep 600"])?;
    slurm.wait_for(job, &["JobState=RUNNING", "BurstBufferState=running"])?;
    let status = |what: &str, of: &str| slurm.prints("scontrol", &["show", "bbstat", what, of]);
    until("all to be mounted", patience(), || {
        let told = status("workflow", &job.to_string())?;
        for part in ["PreRun is ready", "compute-1", "compute-2", "rabbit-1"] {
            ensure!(told.contains(part), "no {part:?} in {told}");
        }
        Ok(())
    })?;
    let file = slurm.jobs().join("made");
    for (what, of) in [
        ("workflow", format!("{job};touch {}", file.display())),
        ("$(touch x)", format!("`touch {}`", file.display())),
    ] {
        ensure!(status(what, &of)?.contains("usage:") && !file.exists(), "{what} {of}");
    }
    slurm.prints("scancel", &[&job.to_string()])?;
    slurm.nothing_is_left()
}

/// Two jobs of one size fit into the pool and a third does not: it waits for them, and for no node.
fn capacity(slurm: &Slurm) -> anyhow::Result<()> {
    let large = "#DW jobdw type=raw capacity=1900MiB name=scratch";
    let pools = slurm.prints("scontrol", &["show", "burst"])?;
    ensure!(pools.contains("PoolName[0]=rabbit"), "{pools}");
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(slurm.submit(&["--nodes=2"], &[large, "sleep 600"])?);
    }
    slurm.wait_for(jobs[0], &["JobState=RUNNING"])?;
    slurm.wait_for(jobs[1], &["BurstBufferState=staged-in"])?;
    slurm.wait_for(jobs[2], &["BurstBufferState=pending", "Reason=BurstBufferResources"])?;
    for job in &jobs[..2] {
        slurm.prints("scancel", &[&job.to_string()])?;
    }
    slurm.wait_for(jobs[2], &["JobState=RUNNING"])?;
    slurm.prints("scancel", &[&jobs[2].to_string()])?;
    slurm.nothing_is_left()
}
