//! Tests of workflows from Proposal to Teardown with all programs, on real loop devices and real file systems.

use anyhow::{Context, ensure};
use tests::{
    cluster::PATIENCE,
    gate,
    program::until,
    workflow::{AFTER_PROPOSAL, Flow},
};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";

#[test]
fn an_xfs_workflow_runs_from_proposal_to_teardown_and_leaves_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(3, "life")?;
    flow.create(&[documented_directive()?])?;
    let workflow = flow.wait("Proposal", "Completed")?;
    let breakdown = &workflow["status"]["directiveBreakdowns"][0];
    ensure!(breakdown["name"] == "life-0", "{workflow:#}");
    flow.fill_computes()?;
    for state in AFTER_PROPOSAL {
        let workflow = flow.reach(state)?;
        ensure!(workflow["status"]["elapsedTimeLastState"].is_string(), "{workflow:#}");
        if state == "PreRun" {
            each_compute_has_its_own_storage(&flow, &workflow["status"]["env"])?;
        }
        timeline_has_nodes(&flow, state)?;
    }
    flow.delete()?;
    flow.end()
}

/// Checks that the timeline has a row for each node's work while the node's objects exist.
fn timeline_has_nodes(flow: &Flow, state: &str) -> anyhow::Result<()> {
    let directory = tempfile::tempdir().context("make a directory")?;
    let file = directory.path().join("timeline.svg").display().to_string();
    let run = &flow.fixture.run;
    let chart = run.prints(&["workflow", "timeline", &flow.name, "--svg", &file])?;
    let image = std::fs::read_to_string(&file).context("read the image")?;
    let (created, mounted, unmounted) = match state {
        "Setup" | "DataIn" => (true, false, false),
        "PreRun" => (true, true, false),
        "PostRun" | "DataOut" => (true, true, true),
        _ => (false, false, false),
    };
    let rows = [
        ("rabbit-1 make storage 0", created),
        ("compute-2 mount 0", mounted),
        ("compute-2 unmount 0", unmounted),
        ("0 jobdw scratch", true),
    ];
    for (row, is_there) in rows {
        let has = (chart.contains(row), image.contains(row));
        ensure!(has == (is_there, is_there), "{state}, {row}: {has:?}\n{chart}");
    }
    Ok(())
}

/// Returns the first example of docs/use/directives.md.
fn documented_directive() -> anyhow::Result<&'static str> {
    let page = include_str!("../../docs/use/directives.md");
    let mut blocks = page.lines().filter_map(|line| line.strip_prefix("    "));
    blocks
        .next()
        .filter(|line| line.starts_with("#DW jobdw type=xfs"))
        .context("the first block of directives.md")
}

/// Checks that each compute writes and reads at the path in the job's environment, and sees no file of another compute.
fn each_compute_has_its_own_storage(flow: &Flow, env: &serde_json::Value) -> anyhow::Result<()> {
    let path = env["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")?;
    ensure!(env["DW_JOB_XFS"] == path && env["DW_WORKFLOW_NAME"] == "life", "{env:#}");
    for (compute, _) in &flow.fixture.run.cluster.chassis().computes {
        let script =
            format!("test ! -e {path}/hello; echo {compute} > {path}/hello; cat {path}/hello");
        ensure!(flow.run_on(compute, &script)?.trim() == compute, "{compute}");
    }
    Ok(())
}

#[test]
fn raw_volumes_have_links_on_the_rabbit_in_the_order_of_the_jobs_computes() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "raw")?;
    flow.create(&["#DW jobdw type=raw capacity=64MiB name=scratch"])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in AFTER_PROPOSAL {
        let workflow = flow.reach(state)?;
        if state == "PreRun" {
            let path = workflow["status"]["env"]["DW_JOB_scratch"].as_str().context("path")?;
            for (compute, _) in flow.fixture.run.cluster.chassis().computes.clone() {
                let write = format!(
                    "printf %-4096s {compute} | dd of={path} bs=4096 iflag=fullblock oflag=direct status=none"
                );
                flow.run_on(&compute, &write)?;
            }
            let chassis = flow.fixture.run.cluster.chassis().clone();
            for (place, (compute, _)) in chassis.computes.iter().enumerate() {
                let direct =
                    format!("dd if={path}/node-{place} bs=4096 count=1 iflag=direct status=none");
                let read = flow.run_on(&chassis.rabbit, &direct)?;
                ensure!(read.trim() == compute, "node-{place} holds {read:?}");
                let link = flow.run_on(&chassis.rabbit, &format!("readlink {path}/{compute}"))?;
                ensure!(link.trim() == format!("node-{place}"), "{compute} leads to {link:?}");
            }
        }
    }
    flow.delete()?;
    flow.end()
}

#[test]
fn a_workflow_succeeds_if_the_coordinator_is_killed_in_each_state() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "killed")?;
    flow.live_with_kills(&[XFS, "#DW jobdw type=xfs capacity=320MiB name=other"])?;
    flow.end()
}

#[test]
fn a_workflow_that_is_deleted_while_it_is_mounted_leaves_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "deleted")?;
    flow.create(&[XFS])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in ["Setup", "DataIn", "PreRun"] {
        flow.reach(state)?;
    }
    flow.delete()?;
    flow.end()
}

#[test]
fn a_wrong_directive_and_a_wrong_state_are_refused_with_the_remedy() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(1, "refused")?;
    let why = flow.create(&["#DW jobdw type=ext4 capacity=1GiB name=scratch"]).unwrap_err();
    ensure!(format!("{why:#}").contains("type=ext4"), "{why:#}");
    flow.create(&[XFS])?;
    flow.wait("Proposal", "Completed")?;
    let why = flow.request_state("PreRun").unwrap_err();
    ensure!(format!("{why:#}").contains("after Proposal comes Setup"), "{why:#}");
    flow.reach("Teardown")?;
    let why = flow.request_state("Setup").unwrap_err();
    ensure!(format!("{why:#}").contains("nothing follows Teardown"), "{why:#}");
    flow.delete()?;
    flow.end()
}

/// The API must refuse a change of the computes: a compute that is added later would mount the storage of another
/// compute.
#[test]
fn computes_cannot_change_once_storage_was_made() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "named")?;
    flow.create(&[XFS])?;
    flow.wait("Proposal", "Completed")?;
    let advance = |flow: &Flow, words: &[&str]| {
        let words = [&["workflow", "advance", "named"], words].concat();
        flow.fixture.run.prints(&words)
    };
    advance(&flow, &["--nodes", "compute-1"])?;
    advance(&flow, &["--to", "PreRun"])?;
    for words in [&["--nodes", "compute-2"], &["--nodes", "compute-[1-2]"]] {
        let why = advance(&flow, words).unwrap_err();
        ensure!(format!("{why:#}").contains("storage was made for compute-1"), "{why:#}");
        let workflow = flow.object("workflow", "named", "default")?;
        ensure!(workflow["spec"]["desiredState"] == "PreRun", "{workflow:#}");
        let computes = flow.object("computes", "named", "default")?;
        ensure!(computes["data"] == serde_json::json!([{"name": "compute-1"}]), "{computes:#}");
    }
    // A repeated call with the same computes is accepted.
    let printed = advance(&flow, &["--nodes", "compute-1"])?;
    ensure!(printed == "workflow/named PostRun\n", "{printed}");
    advance(&flow, &["--to", "Teardown"])?;
    flow.delete()?;
    flow.end()
}

#[test]
fn persistent_storage_keeps_a_file_until_it_is_destroyed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    for kind in ["xfs", "raw"] {
        let mut flow = Flow::new(2, "make")?;
        let create = format!("#DW create_persistent type={kind} capacity=320MiB name=my-data");
        run_workflow(&mut flow, "make", &create, |_, _| Ok(()))?;
        ensure!(
            !flow.fixture.namespaces()?.is_empty(),
            "{kind}: the storage went with the workflow that created it"
        );
        let uses = "#DW persistentdw name=my-data";
        let (write, read) = match kind {
            "raw" => (
                "printf %-4096s written | dd of=PATH bs=4096 iflag=fullblock oflag=direct status=none",
                "dd if=PATH bs=4096 count=1 iflag=direct status=none",
            ),
            _ => ("test ! -e PATH/file; echo written > PATH/file", "cat PATH/file"),
        };
        run_workflow(&mut flow, "write", uses, |flow, path| {
            flow.run_on("compute-1", &write.replace("PATH", path)).map(drop)
        })?;
        flow.kill_coordinator()?;
        // Waits for the coordinator, since a real API server calls the coordinator's webhook for each Workflow.
        let run = &flow.fixture.run;
        until("the coordinator to serve again", PATIENCE, || run.prints(&["nodes"]).map(drop))?;
        run_workflow(&mut flow, "read", uses, |flow, path| {
            let found = flow.run_on("compute-1", &read.replace("PATH", path))?;
            ensure!(found.trim() == "written", "{kind}: {found:?}");
            let users = flow.fixture.run.prints(&["persistent", "list"])?;
            ensure!(users.contains("read-0") && users.contains("Active"), "{users}");
            let refused =
                flow.fixture.run.prints(&["persistent", "destroy", "my-data", "--user", "1050"]);
            let refused = format!("{:#}", refused.expect_err("the storage is in use"));
            ensure!(refused.contains("is used by read-0"), "{refused}");
            Ok(())
        })?;
        let shown = flow.fixture.run.prints(&["persistent", "show", "my-data"])?;
        ensure!(shown.contains("used by    no workflow") && shown.contains("user 1050"), "{shown}");
        run_workflow(&mut flow, "end", "#DW destroy_persistent name=my-data", |_, _| Ok(()))?;
        flow.nothing_is_left()?;
        flow.end()?;
    }
    Ok(())
}

/// Runs one workflow, and calls `work` in PreRun with the path of the persistent storage.
fn run_workflow(
    flow: &mut Flow,
    name: &str,
    directive: &str,
    work: impl Fn(&Flow, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    flow.live(name, directive, |flow, workflow| {
        let path = workflow["status"]["env"]["DW_PERSISTENT_my_data"].as_str();
        work(flow, path.unwrap_or_default())
    })
}
