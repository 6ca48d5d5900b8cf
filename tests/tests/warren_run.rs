//! Tests of `warren run` with all programs, on real loop devices and a real file system.

use std::process::Stdio;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use tests::{
    cluster::patience,
    gate,
    program::{signal, until},
    workflow::Flow,
};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";

/// Command that writes and reads a file on each compute.
const HELLO: &str = "test ! -e $DW_JOB_scratch/hello; echo $WARREN_NODE > $DW_JOB_scratch/hello; cat $DW_JOB_scratch/hello";

/// Returns a command line of `warren run` with the directive, the computes, the launcher, and `rest`
/// as its last arguments.
fn warren_run(flow: &Flow, rest: &[&str]) -> anyhow::Result<std::process::Command> {
    let cluster = &flow.fixture.run.cluster;
    let user = flow.user.to_string();
    let mut argv = cluster.warren()?;
    argv.args([
        "run",
        XFS,
        "--nodes",
        "compute-[1-3]",
        "--name",
        &flow.name,
        "--user",
        &user,
        "--group",
        &user,
    ]);
    argv.args(["--launcher", &cluster.launcher()?, "--timeline", "--"]).args(rest);
    Ok(argv)
}

#[test]
fn each_compute_runs_with_its_own_xfs_and_nothing_is_left() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(3, "run")?;
    let output = warren_run(&flow, &["sh", "-ec", HELLO])?.output().context("warren run")?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}: {stderr}", output.status);
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    ensure!(lines == ["compute-1", "compute-2", "compute-3"], "{stdout}");
    for row in ["Setup", "rabbit-1 make storage", "compute-2 mount", "Teardown"] {
        ensure!(stderr.contains(row), "no {row} in the timeline: {stderr}");
    }
    flow.nothing_is_left()?;
    let failed =
        warren_run(&flow, &["sh", "-c", "test $WARREN_NODE != compute-3 || exit 7"])?.output()?;
    ensure!(failed.status.code() == Some(7), "{failed:?}");
    flow.nothing_is_left()?;
    flow.end()
}

#[test]
fn a_dry_run_names_rabbits_and_sizes_and_makes_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(3, "dry")?;
    let dry_run = |directive: &str| {
        let mut argv = flow.fixture.run.cluster.warren()?;
        argv.args(["run", directive, "--nodes", "compute-[1-3]", "--dry-run"]);
        let output = argv.output().context("warren run --dry-run")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        anyhow::Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    };
    let (code, table, note) = dry_run(XFS)?;
    ensure!(code == Some(0) && note.contains("nothing was made"), "{code:?} {table} {note}");
    for cell in [XFS, "rabbit-1", "3 xfs", "GiB", "rabbit-1:\n", "1. create namespace of"] {
        ensure!(table.contains(cell), "no {cell} in {table}");
    }
    let (code, _, why) = dry_run("#DW jobdw type=xfs capacity=900TiB name=scratch")?;
    ensure!(code != Some(0) && why.contains("its drives have"), "{code:?} {why}");
    flow.nothing_is_left()?;
    flow.end()
}

#[test]
fn the_plans_of_a_workflows_nodes_say_what_teardown_destroys_and_change_nothing()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(3, "planned")?;
    let warren = |words: &[&str]| {
        let output = flow.fixture.run.cluster.warren()?.args(words).output().context("warren")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        anyhow::Ok(text(&output.stdout))
    };
    let (name, user) = (&*flow.name, flow.user.to_string());
    warren(&["workflow", "create", XFS, "--name", name, "--user", &user, "--group", &user])?;
    warren(&["workflow", "advance", name, "--to", "PreRun", "--nodes", "compute-[1-3]"])?;
    let now = warren(&["plan", "--workflow", name])?;
    for node in ["compute-1:", "compute-3:", "rabbit-1:", "nothing to do"] {
        ensure!(now.contains(node), "no {node} in {now}");
    }
    ensure!(!now.contains("1. "), "a plan of mounted storage has a step: {now}");
    let teardown = warren(&["plan", "--workflow", name, "--state", "teardown"])?;
    for step in ["unmount ", "delete namespace", &format!("of user {user}")] {
        ensure!(teardown.contains(step), "no {step} in {teardown}");
    }
    ensure!(teardown.find("compute-3:") < teardown.find("rabbit-1:"), "{teardown}");
    ensure!(warren(&["plan", "--workflow", name])? == now, "the plan changed something");
    warren(&["workflow", "delete", name])?;
    flow.nothing_is_left()?;
    flow.end()
}

#[test]
fn storage_that_cannot_be_made_fails_the_run_and_leaves_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(1, "refused")?;
    let fails = |directive: &str, code: i32| {
        let mut argv = flow.fixture.run.cluster.warren()?;
        argv.args(["run", directive, "--nodes", "compute-1", "--", "true"]);
        let output = argv.output().context("warren run")?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(code), "{}: {stderr}", output.status);
        Ok(stderr)
    };
    let unknown = fails("#DW jobdw type=ext4 capacity=1GiB name=scratch", 2)?;
    ensure!(
        unknown.contains("argument type=ext4") && unknown.contains("raw|xfs|gfs2|lustre"),
        "{unknown}"
    );
    let large = fails("#DW jobdw type=xfs capacity=100TiB name=scratch", 5)?;
    ensure!(large.contains("failed in Setup") && large.contains("rabbit-1"), "{large}");
    let profile = fails("#DW jobdw type=xfs capacity=320MiB name=scratch profile=fast", 5)?;
    ensure!(profile.contains("no such NnfStorageProfile"), "{profile}");
    flow.nothing_is_left()?;
    flow.end()
}

/// A `warren run` that is killed cannot remove its workflow. The coordinator removes it when the
/// run's lease has expired.
#[test]
fn the_coordinator_removes_the_workflow_of_a_killed_run() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(1, "killed")?;
    let cluster = &flow.fixture.run.cluster;
    let mut argv = cluster.warren()?;
    argv.args(["run", XFS, "--nodes", "compute-1", "--name", &flow.name, "--", "sleep", "1000"]);
    let mut child = argv.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("run")?;
    until("the command to run", patience(), || {
        let workflow = flow.workflow()?;
        ensure!(workflow["status"]["state"] == "PreRun", "not yet: {workflow}");
        ensure!(workflow["status"]["ready"] == true, "not yet: {workflow}");
        Ok(())
    })?;
    signal(child.id(), Signal::SIGKILL)?;
    child.wait().context("wait for warren run")?;
    let lease = flow.workflow()?["metadata"]["annotations"]["warren/lease"].clone();
    ensure!(lease.as_str().is_some_and(|text| text.contains("\"seconds\":600")), "{lease}");
    // Shortens the lease from ten minutes to one second.
    let short = serde_json::json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
        "metadata": {"name": flow.name, "namespace": "default",
            "annotations": {"warren/lease": r#"{"seconds":1,"renewals":9}"#}},
    });
    let file = cluster.logs().join("lease.json");
    std::fs::write(&file, short.to_string()).context("write the lease")?;
    let applied = cluster.warren()?.args(["apply", "-f"]).arg(&file).output()?;
    ensure!(applied.status.success(), "{applied:?}");
    flow.nothing_is_left()?;
    flow.end()
}

#[test]
fn an_interrupted_run_leaves_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(3, "interrupted")?;
    // Interrupts the run as soon as the Workflow exists, and in PreRun, while the command runs.
    for state in [None, Some("PreRun")] {
        let mut argv = warren_run(&flow, &["sleep", "1000"])?;
        let mut child =
            argv.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("warren run")?;
        until("the workflow to be there", patience(), || {
            let current = &flow.workflow()?["status"]["state"];
            ensure!(state.is_none_or(|state| current == state), "not yet: {current}");
            Ok(())
        })?;
        signal(child.id(), Signal::SIGINT)?;
        let status = child.wait().context("wait for warren run")?;
        ensure!(status.code() == Some(6), "{status} in {state:?}");
        flow.nothing_is_left()?;
    }
    flow.end()
}
