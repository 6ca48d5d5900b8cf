//! Test of a batch job, and of the messages that its user sees before, during and after the run.

use anyhow::ensure;
use tests::{
    cluster::patience,
    program::until,
    slurm::{Commands, Slurm, USER},
};

use super::{XFS, slurm};

/// Job script that writes on each node as the user, reads the file again, and prints node, file system and owner.
const WRITE: &str = "srun sh -c 'hostname -s >/dev/null; echo $SLURMD_NODENAME > $DW_JOB_scratch/name; \
     echo $(cat $DW_JOB_scratch/name) $(stat -f -c %T $DW_JOB_scratch) $(stat -c %U $DW_JOB_scratch/name)'";

#[test]
fn a_job_finds_its_storage_and_its_user_sees_the_state() -> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    batch_job(&slurm)?;
    refused(&slurm)?;
    status_is_shown(&slurm)?;
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
    // A job without storage gets no variables.
    let plain = slurm.submit(&["--nodes=2"], &["env | grep -c ^DW_"])?;
    slurm.wait_for(plain, &["JobState=FAILED", "ExitCode=1:0"])?;
    ensure!(slurm.output(plain)?.trim() == "0", "{}", slurm.output(plain)?);
    slurm.nothing_is_left()
}

fn refused(slurm: &Slurm) -> anyhow::Result<()> {
    let bad = "#DW jobdw type=ext4 capacity=320MiB name=scratch";
    let output = slurm.try_submit(&[], &[XFS, bad, "true"])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "the job was accepted: {stderr}");
    for part in ["directive 1", "type=ext4", "raw|xfs|gfs2|lustre"] {
        ensure!(stderr.contains(part), "no {part:?} in {stderr}");
    }
    // sbatch refuses directives that the engine does not support, and lines that are no valid directive.
    for (line, part) in [
        ("#DW type=xfs capacity=320MiB name=second", "is an argument in the place of the command"),
        ("#DW jobdw type=xfs capacity=1MiB name=second # for later", "on a separate line"),
        (
            "#DW copy_in source=$DW_JOB_scratch destination=/lus/a",
            "copies to $DW_JOB_ and $DW_PERSISTENT_ storage by copy_in",
        ),
        (
            "#DW jobdw type=xfs capacity=1MiB name=second requires=copy-offload",
            "neither copy offload",
        ),
        (
            "#DW create_persistent type=xfs capacity=1MiB name=kept",
            "must be the only directive of its workflow",
        ),
    ] {
        let output = slurm.try_submit(&[], &[XFS, line, "true"])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && stderr.contains(part), "{line}: {stderr}");
        ensure!(
            !stderr.contains("warren workload") && !stderr.contains("taken"),
            "{line}: {stderr}"
        );
    }
    // sbatch refuses the job because it adds the bytes for both nodes, and all rabbits together have fewer.
    let output = slurm
        .try_submit(&["--nodes=2"], &["#DW jobdw type=xfs capacity=9TiB name=scratch", "true"])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_explained =
        stderr.contains("asks for 19791209299968 bytes on all of its nodes together");
    ensure!(!output.status.success() && is_explained, "{stderr}");
    // sbatch warns about a directive after the first command, but accepts the job: the line may belong to a script that
    // the job writes.
    let output = slurm.try_submit(&["--hold"], &["true", XFS])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let parts = ["0 #DW directive(s) taken, 1 line(s) not read", "line 3: #DW jobdw type=xfs"];
    ensure!(output.status.success() && parts.iter().all(|part| stderr.contains(part)), "{stderr}");
    slurm.prints("scancel", &[String::from_utf8_lossy(&output.stdout).trim()])?;
    // Shell syntax in a directive is not executed.
    let file = slurm.jobs().join("made");
    let hostile =
        format!("#DW jobdw type=$(touch {0}) name=`touch {0}`;'touch {0}'", file.display());
    let output = slurm.try_submit(&[], &[&hostile, "true"])?;
    ensure!(!output.status.success() && !file.exists(), "{output:?}");
    // Warren looks for the profile when it sets up the storage, so sbatch accepts a job whose profile does not exist
    // yet.
    let job = slurm.submit(&["--nodes=1"], &[&format!("{XFS} profile=none"), "true"])?;
    let shown = slurm.wait_for(job, &["no such NnfStorageProfile", "slurm_bb_setup"])?;
    ensure!(shown.contains("JobState=PENDING"), "{shown}");
    slurm.prints("scancel", &[&job.to_string()])?;
    slurm.nothing_is_left()
}

fn status_is_shown(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2"], &[XFS, "sleep 600"])?;
    slurm.wait_for(job, &["JobState=RUNNING", "BurstBufferState=running"])?;
    let status = |what: &str, name: &str| slurm.prints("scontrol", &["show", "bbstat", what, name]);
    until("all to be mounted", patience(), || {
        let shown = status("workflow", &job.to_string())?;
        for part in ["PreRun is ready", "compute-1", "compute-2", "rabbit-1"] {
            ensure!(shown.contains(part), "no {part:?} in {shown}");
        }
        Ok(())
    })?;
    let file = slurm.jobs().join("made");
    for (what, name) in [
        ("workflow", format!("{job};touch {}", file.display())),
        ("$(touch x)", format!("`touch {}`", file.display())),
    ] {
        ensure!(status(what, &name)?.contains("usage:") && !file.exists(), "{what} {name}");
    }
    slurm.prints("scancel", &[&job.to_string()])?;
    slurm.nothing_is_left()
}

/// Submits three jobs of the same size. The pool has room for two, and the third must wait for storage, not for nodes.
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
