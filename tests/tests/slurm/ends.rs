//! Test with a node on which a mount is busy, and with a node on which nothing can be mounted.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use anyhow::{Context, ensure};
use tests::{
    cluster::patience,
    program::{command, until},
    slurm::{Commands, Job, Slurm},
};

use super::{XFS, slurm};

/// Starts a process on a node whose working directory is `path`, so that it keeps the mount busy.
fn start_holder(slurm: &Slurm, node: &str, path: &str) -> anyhow::Result<Child> {
    let pid = slurm.flow.fixture.run.cluster.node(node)?.node_pid().to_string();
    let mut holder = command("nsenter");
    holder.args(["--mount", "--target", &pid, "--", "/bin/sh", "-ec"]);
    holder.arg(format!("cd {path}; echo there; exec tail -f /dev/null")).stdout(Stdio::piped());
    let mut holder = holder.spawn().context("start a holder")?;
    let mut there = String::new();
    let stdout = holder.stdout.as_mut().context("stdout")?;
    BufReader::new(stdout).read_line(&mut there)?;
    ensure!(there == "there\n", "the holder is not in {path}");
    Ok(holder)
}

#[test]
fn a_node_with_a_busy_or_failed_mount_is_drained_with_the_reason_and_returns() -> anyhow::Result<()>
{
    let Some(slurm) = slurm("WARREN_EPILOG_DEADLINE=2\nWARREN_ON_TIMEOUT=report\n")? else {
        return Ok(());
    };
    busy_mount_drains_node(&slurm)?;
    failed_mount_drains_node(&slurm)?;
    slurm.end()
}

/// Waits until the job prints the path of its storage, and returns the path.
fn path_of(slurm: &Slurm, job: Job) -> anyhow::Result<String> {
    until("the job to print its path", patience(), || {
        let output = slurm.output(job)?;
        ensure!(output.ends_with('\n'), "{output}");
        Ok(output.trim().to_owned())
    })
}

fn reason(slurm: &Slurm, node: &str) -> anyhow::Result<String> {
    slurm.prints("sinfo", &["--noheader", "--nodes", node, "--format=%T %500E"])
}

fn busy_mount_drains_node(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=2"], &[XFS, "echo $DW_JOB_scratch; sleep 600"])?;
    let path = path_of(slurm, job)?;
    let mut holder = start_holder(slurm, "compute-2", &path)?;
    slurm.prints("scancel", &[&job.to_string()])?;
    let pid = holder.id().to_string();
    let drained = until("compute-2 to be drained", patience(), || {
        let shown = reason(slurm, "compute-2")?;
        let parts = ["drain", "compute-2: warren epilog of job", &path, &pid, "tail"];
        let lacks = parts.iter().find(|part| !shown.contains(**part));
        ensure!(lacks.is_none(), "no {lacks:?} in {shown}");
        Ok(())
    });
    holder.kill()?;
    holder.wait()?;
    drained?;
    slurm.nothing_is_left()?;
    slurm.wait_for_nodes("idle")
}

/// Makes compute-1 unable to mount, and checks that the job then runs on the other node.
fn failed_mount_drains_node(slurm: &Slurm) -> anyhow::Result<()> {
    let cluster = &slurm.flow.fixture.run.cluster;
    let root = cluster.node_mounts().display().to_string();
    let remount = |how: &str| {
        cluster.run_on("compute-1", 0, &format!("mount -o remount,{how} {root}")).map(drop)
    };
    remount("ro")?;
    let job = slurm.submit(&["--nodes=1"], &[XFS, "echo on $SLURMD_NODENAME"])?;
    let drained = until("compute-1 to be drained", patience(), || {
        let shown = reason(slurm, "compute-1")?;
        for part in ["drain", "compute-1: warren prolog of job", "Read-only file system"] {
            ensure!(shown.contains(part), "no {part:?} in {shown}");
        }
        Ok(())
    });
    remount("rw")?;
    drained?;
    slurm.wait_for(job, &["Restarts=1"])?;
    slurm.begin_again(job)?;
    let output = slurm.wait_until_complete(job)?;
    ensure!(output.contains("on compute-2") && !output.contains("on compute-1"), "{output}");
    slurm.prints("scontrol", &["update", "NodeName=compute-1", "State=RESUME"])?;
    slurm.nothing_is_left()
}
