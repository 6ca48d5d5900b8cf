//! Slurm on guests, each with its own kernel. The suite `slurm` differs: there all nodes are mount
//! namespaces of one kernel.

use anyhow::{Context, ensure};

use crate::{
    cluster::patience,
    lab::{Bench, slurm::Slurm, system::LEFT},
    program::until,
    slurm::{Commands, Job, USER},
};

use super::Scenario;

pub(super) const GFS2: Scenario = Scenario {
    name: "slurm-gfs2",
    about: "a batch job with a GFS2 on two computes under Slurm: both write it as the user, and nothing is left",
    run: |bench| on_slurm(bench, gfs2),
};

pub(super) const REBOOT: Scenario = Scenario {
    name: "slurm-reboot",
    about: "a compute loses its power while a Slurm job with GFS2 runs there: the job is requeued, or fails if it may not be; nothing leaks, the node takes jobs again",
    run: |bench| on_slurm(bench, reboots),
};

const DIRECTIVE: &str = "#DW jobdw type=gfs2 capacity=512MiB name=scratch";

/// Node on which a job's script runs.
const FIRST: &str = "compute-0";
const OTHER: &str = "compute-1";

/// Script that writes on each node as the user, reads it again, and prints the node and the file system; it ends when
/// a certain file exists.
const WRITE: &str = "srun sh -c 'head -c 20M /dev/urandom > $DW_JOB_scratch/data && sync $DW_JOB_scratch/data
    echo $SLURMD_NODENAME > $DW_JOB_scratch/name
    echo $(cat $DW_JOB_scratch/name) $(stat -f -c %T $DW_JOB_scratch) $(stat -c %U,%s $DW_JOB_scratch/data)'
echo written
until [ -e /tmp/go.$SLURM_JOB_ID ]; do sleep 0.5; done
srun sh -c 'echo $(cat $DW_JOB_scratch/name) reads $(cat $DW_JOB_scratch/data | wc -c)'";

fn on_slurm(bench: &Bench, story: fn(&Slurm) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let slurm = Slurm::boot(bench)?;
    story(&slurm).map_err(|error| slurm.explained(error))
}

fn gfs2(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2"], &[DIRECTIVE, WRITE])?;
    wait_for_writes(slurm, job)?;
    for node in [FIRST, OTHER] {
        let has = slurm.run.cluster.run(node, LEFT)?;
        // Checks that the file system uses the cluster's locks, not only locks of this kernel.
        for part in ["/sys/kernel/dlm/lvm_", " gfs2 "] {
            ensure!(has.contains(part), "no {part:?} on {node}: {has}");
        }
    }
    end_job(slurm, job)
}

/// Waits until both nodes have written and read.
fn wait_for_writes(slurm: &Slurm, job: Job) -> anyhow::Result<()> {
    let output = until("the job to write", patience(), || {
        let output = slurm.output(FIRST, job);
        let output = output.with_context(|| slurm.show(job).unwrap_or_default())?;
        ensure!(output.ends_with("written\n"), "not yet: {output}");
        Ok(output)
    })?;
    for node in [FIRST, OTHER] {
        let line = format!("{node} gfs/gfs2 {USER},{}", 20 << 20);
        ensure!(output.contains(&line), "no {line:?} in {output}");
    }
    Ok(())
}

/// Ends a job, and waits until nothing of the job is left.
fn end_job(slurm: &Slurm, job: Job) -> anyhow::Result<()> {
    slurm.run.cluster.run(FIRST, &format!("touch /tmp/go.{job}"))?;
    slurm.wait_for(job, &["JobState=COMPLETED", "BurstBufferState=complete"])?;
    let output = slurm.output(FIRST, job)?;
    for node in [FIRST, OTHER] {
        let line = format!("{node} reads {}", 20 << 20);
        ensure!(output.contains(&line), "no {line:?} in {output}");
    }
    slurm.nothing_is_left()?;
    slurm.wait_for_nodes("idle")
}

fn reboots(slurm: &Slurm) -> anyhow::Result<()> {
    check_requeued(slurm).context("the node of the script reboots")?;
    check_failed(slurm).context("another node reboots")
}

/// Checks that a requeued job runs again, with new storage, on the node that has booted again.
fn check_requeued(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2", "--requeue"], &[DIRECTIVE, WRITE])?;
    wait_for_writes(slurm, job)?;
    slurm.lose_power(FIRST)?;
    slurm.wait_for(job, &["Restarts=1"])?;
    slurm.resume(FIRST)?;
    slurm.begin_again(job)?;
    wait_for_writes(slurm, job)?;
    end_job(slurm, job)
}

/// Checks that a job that may not be requeued fails.
fn check_failed(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2", "--no-requeue"], &[DIRECTIVE, WRITE])?;
    wait_for_writes(slurm, job)?;
    slurm.lose_power(OTHER)?;
    slurm.wait_for(job, &["JobState=NODE_FAIL", "BurstBufferState=complete"])?;
    slurm.resume(OTHER)?;
    slurm.nothing_is_left()
}
