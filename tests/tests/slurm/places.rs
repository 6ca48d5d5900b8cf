//! Test with two rabbits, each with one compute. A job's storage must be made on the rabbits of the
//! nodes that Slurm allocated.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::Value;
use tests::{
    cluster::patience,
    gate,
    program::{path_with_broken_mkfs, until},
    slurm::{Commands, Scripts, Slurm},
    workflow::{Flow, RABBITS},
};

use super::XFS;

#[test]
fn storage_is_made_on_the_rabbits_of_the_jobs_nodes() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::slurm() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "unused")?;
    flow.add_second_rabbit()?;
    let slurm = Slurm::on(flow, Scripts::Warren, "")?;
    for (rabbit, compute) in RABBITS {
        run_on(&slurm, &[compute], &[rabbit])?;
    }
    run_on(&slurm, &["compute-1", "compute-2"], &["rabbit-1", "rabbit-2"])?;
    slurm.end()
}

/// Runs a job on these computes and checks that its allocations are on these rabbits.
fn run_on(slurm: &Slurm, computes: &[&str], rabbits: &[&str]) -> anyhow::Result<()> {
    let write = "srun sh -c 'echo $SLURMD_NODENAME > $DW_JOB_scratch/name; cat $DW_JOB_scratch/name'; sleep 600";
    let list = format!("--nodelist={}", computes.join(","));
    let job = slurm.submit(&[&list, &format!("--nodes={}", computes.len())], &[XFS, write])?;
    let wrote = |output: &str| computes.iter().all(|compute| output.contains(compute));
    until("all nodes to write", patience(), || {
        let output = slurm.output(job)?;
        ensure!(wrote(&output), "{output}");
        Ok(())
    })?;
    let run = &slurm.flow.fixture.run;
    let listed = run.prints(&["get", "nnfnodeblockstorage", "--all-namespaces", "--json"])?;
    let listed: Value = serde_json::from_str(&listed).context("decode a list")?;
    let items = listed["items"].as_array().or_else(|| listed.as_array()).context("a list")?;
    let found: BTreeSet<&str> =
        items.iter().filter_map(|item| item["metadata"]["namespace"].as_str()).collect();
    ensure!(found == rabbits.iter().copied().collect(), "{found:?}, not {rabbits:?}");
    slurm.prints("scancel", &[&job.to_string()])?;
    slurm.nothing_is_left()
}

#[test]
fn jobs_with_directives_avoid_nodes_whose_rabbit_gives_no_storage() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::slurm() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "unused")?;
    flow.add_second_rabbit()?;
    let slurm = Slurm::on(flow, Scripts::Warren, "WARREN_FEATURE=rabbit\n")?;
    let run = &slurm.flow.fixture.run;
    run.prints(&["rabbit", "disable", "rabbit-1", "--reason", "a test"])?;
    until_active(&slurm, "compute-1", "big")?;
    until_active(&slurm, "compute-2", "big,rabbit")?;
    let where_am_i = "echo on $SLURMD_NODENAME";
    for (constraint, lines, node) in [
        ("big", &[XFS, where_am_i][..], "compute-2"),
        ("big", &["#no directive", where_am_i], "compute-1"),
    ] {
        let job = slurm.submit(&[&format!("--constraint={constraint}")], lines)?;
        until(&format!("job {job} to run on {node}"), patience(), || {
            let output = slurm.output(job).unwrap_or_default();
            let state = slurm.prints("scontrol", &["show", "job", &job.to_string()])?;
            ensure!(output.contains(&format!("on {node}")), "{lines:?}: {output} {state}");
            Ok(())
        })?;
    }
    let held = slurm.submit(&["--nodelist=compute-1"], &[XFS, where_am_i])?;
    ensure!(slurm.queue_state(held)?.contains("PENDING"), "{}", slurm.queue_state(held)?);
    run.prints(&["rabbit", "enable", "rabbit-1"])?;
    let output = slurm.wait_until_complete(held)?;
    ensure!(output.contains("on compute-1"), "{output}");
    slurm.nothing_is_left()?;
    slurm.end()
}

/// Waits until Slurm shows these active features of a node; Slurm asks for the pools every 30 s.
fn until_active(slurm: &Slurm, node: &str, features: &str) -> anyhow::Result<()> {
    until(&format!("{node} to have {features}"), patience(), || {
        let shown =
            slurm.prints("sinfo", &["--noheader", "--Node", "--nodes", node, "--format=%b"])?;
        let mut shown: Vec<&str> = shown.trim().split(',').collect();
        shown.sort_unstable();
        ensure!(shown.join(",") == features, "{shown:?}");
        Ok(())
    })
}

#[test]
fn a_job_with_a_tolerance_runs_although_a_rabbit_makes_no_storage() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::slurm() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "unused")?;
    flow.add_second_rabbit()?;
    let path = path_with_broken_mkfs(&flow.fixture.run.cluster.logs().join("tools"))?;
    flow.fixture.run.cluster.stop_one("rabbit-2")?;
    flow.fixture.run.cluster.start_node_with("rabbit-2", &[("PATH", &path)])?;
    let slurm = Slurm::on(flow, Scripts::Warren, "WARREN_STORAGE_DEADLINE=10s\n")?;
    let refused = slurm.try_submit(&[], &[XFS, "#WARREN tolerance=some", "true"])?;
    let text = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success() && text.contains("#WARREN tolerance=COUNT"), "{refused:?}");
    let look = "srun sh -c 'test -d $DW_JOB_scratch && echo $SLURMD_NODENAME has it || echo $SLURMD_NODENAME lacks it'";
    let job = slurm.submit(&["--nodes=2"], &[XFS, "#WARREN tolerance=1", look])?;
    let output = slurm.wait_until_complete(job)?;
    ensure!(
        output.contains("compute-1 has it") && output.contains("compute-2 lacks it"),
        "{output}"
    );
    slurm.end()
}
