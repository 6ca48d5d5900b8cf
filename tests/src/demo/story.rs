//! The chapters of the demo.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Screen, job::RunningJob};
use crate::run::{Narrator, Run};

/// Runs all chapters, from the first object to the last.
///
/// # Errors
/// When a chapter fails.
pub fn run_chapters(run: &mut Run<Screen>) -> anyhow::Result<()> {
    run.narrator.chapter("describe the system: rabbit-1 and the computes of its chassis");
    run.describe_system()?;
    run.cluster.wait_for_drives()?;
    run.warren(&["nodes"])?;
    run.narrator.chapter(
        "run a command with storage: make it, copy data in, mount it on three computes, start",
    );
    let mut job = RunningJob::start(run)?;
    job.until_written(run)?;
    run.warren(&["workflow", "show", "demo"])?;
    run.narrator.chapter("meanwhile the rabbit shows all allocations as one tree");
    tree(run)?;
    run.narrator.chapter("every change is planned first: what the end of the job would destroy");
    planned_end(run)?;
    run.narrator
        .chapter("the command reads and ends; unmount, copy results out, remove the file systems, free the drives");
    job.finish(run)?;
    run.narrator.chapter("the results were copied out: one directory for each allocation");
    results(run)?;
    nothing_left(run)
}

/// Shows the rabbit's directory of the second directive, and reads there the file that compute-2 wrote, by the
/// compute's host name and by its index.
fn tree(run: &Run<Screen>) -> anyhow::Result<()> {
    let workflow = run.prints(&["get", "workflow", "demo", "--json"])?;
    let workflow: Value = serde_json::from_str(&workflow).context("decode the workflow")?;
    let uid = workflow["metadata"]["uid"].as_str().context("the workflow has no uid")?;
    let path = format!("{}/{uid}-1", run.job.mount_root);
    on_rabbit(run, &format!("ls -l --time-style=+ {path}"))?;
    for name in ["compute-2", "node-1"] {
        let read = on_rabbit(run, &format!("head -n 1 {path}/{name}"))?;
        ensure!(read == "hello from compute-2\n", "{name} holds {read:?}");
    }
    Ok(())
}

/// Shows the rabbit's plan for the removal of the job's storage.
fn planned_end(run: &mut Run<Screen>) -> anyhow::Result<()> {
    let socket = run.cluster.agent_socket(&run.cluster.chassis().rabbit);
    let socket = socket.to_str().context("the path of the rabbit's socket")?;
    let storage = ["default-demo-0-xfs-0", "default-demo-1-raw-0"];
    let objects = storage.map(|name| format!("nnfnodeblockstorage/{name}"));
    run.warren(&["plan", "--delete", &objects[0], &objects[1], "--agent", socket])
}

/// Shows what the job's copy_out left in the site's directory.
fn results(run: &Run<Screen>) -> anyhow::Result<()> {
    let path = run.cluster.global().join("results");
    let shown = on_rabbit(run, &format!("head -v -n 1 {}/*/hello", path.display()))?;
    for (name, _) in &run.cluster.chassis().computes {
        let expected = format!("hello from {name}, with the site's data");
        ensure!(shown.contains(&expected), "the results lack {expected:?}: {shown}");
    }
    Ok(())
}

fn on_rabbit(run: &Run<Screen>, script: &str) -> anyhow::Result<String> {
    let rabbit = run.cluster.chassis().rabbit.clone();
    let shown = run.cluster.run_on(&rabbit, run.job.user, script)?;
    run.narrator.note(&format!("{rabbit}$ {script}\n{shown}"));
    Ok(shown)
}

fn nothing_left(run: &mut Run<Screen>) -> anyhow::Result<()> {
    for kind in ["workflows", "clientmounts", "nnfnodestorages", "nnfnodeblockstorages", "servers"]
    {
        let left = run.prints(&["get", kind, "-A", "-o", "name"])?;
        ensure!(left.is_empty(), "left in the API: {left}");
    }
    run.warren(&["workflow", "show"])
}
