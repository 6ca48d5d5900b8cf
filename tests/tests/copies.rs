//! Tests of `copy_in` and `copy_out` with all programs, on real loop devices and a real XFS.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use tests::{cluster::patience, fixture::Fixture, gate, program::until, workflow::Flow};

/// Returns the first block of docs/use/copies.md, with the site's directory in place of `/project`.
fn documented_directives(site: &Path) -> anyhow::Result<Vec<String>> {
    let page = include_str!("../../docs/use/copies.md");
    let block = page.lines().skip_while(|line| !line.starts_with("    #DW"));
    let lines = block.map_while(|line| line.strip_prefix("    "));
    let lines: Vec<_> =
        lines.map(|line| line.replace("/project/", &format!("{}/", site.display()))).collect();
    ensure!(lines.len() == 3, "the first block of copies.md has other lines: {lines:?}");
    Ok(lines)
}

/// Creates the site's input, and a directory for results that belongs to the job's user.
fn prepare(site: &Path, user: u32) -> anyhow::Result<()> {
    fs::create_dir_all(site.join("input/deep"))?;
    fs::write(site.join("input/a"), "first")?;
    fs::write(site.join("input/deep/b"), "second")?;
    fs::create_dir_all(site.join("results"))?;
    chown(site.join("results"), Some(user), Some(user)).context("give the results to the user")
}

/// Creates the workflow, and makes its storage.
fn set_up(flow: &mut Flow, directives: &[String]) -> anyhow::Result<()> {
    flow.create(&directives.iter().map(String::as_str).collect::<Vec<_>>())?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    flow.reach("Setup")?;
    Ok(())
}

fn storage_path(workflow: &Value) -> anyhow::Result<&str> {
    workflow["status"]["env"]["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")
}

#[test]
fn the_directives_of_the_page_copy_data_in_and_results_out() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "copy")?;
    let site = flow.fixture.run.cluster.global();
    prepare(&site, flow.user)?;
    let directives = documented_directives(&site)?;
    set_up(&mut flow, &directives)?;
    flow.reach("DataIn")?;
    let workflow = flow.reach("PreRun")?;
    let path = storage_path(&workflow)?;
    for (index, compute) in ["compute-1", "compute-2"].into_iter().enumerate() {
        let script = format!(
            "cat {path}/input/a {path}/input/deep/b; mkdir {path}/results; echo {index} > {path}/results/number"
        );
        ensure!(flow.run_on(compute, &script)? == "firstsecond", "{compute} lacks the input");
    }
    flow.reach("PostRun")?;
    flow.reach("DataOut")?;
    let shown = flow.fixture.run.prints(&["movements", "copy"])?;
    ensure!(shown.matches("Success").count() == 4, "{shown}");
    for index in 0..2 {
        let number = site.join(format!("results/rabbit-1-{index}/number"));
        ensure!(fs::read_to_string(&number)? == format!("{index}\n"), "{}", number.display());
        ensure!(fs::metadata(&number)?.uid() == flow.user, "{}", number.display());
    }
    flow.reach("Teardown")?;
    flow.delete()?;
    flow.end()
}

#[test]
fn a_results_directory_of_another_user_fails_dataout_and_keeps_the_storage() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(1, "foreign")?;
    let site = flow.fixture.run.cluster.global();
    prepare(&site, flow.user + 1)?;
    let directives = documented_directives(&site)?;
    set_up(&mut flow, &directives)?;
    flow.reach("DataIn")?;
    let workflow = flow.reach("PreRun")?;
    let path = storage_path(&workflow)?;
    flow.run_on("compute-1", &format!("mkdir {path}/results; touch {path}/results/number"))?;
    flow.reach("PostRun")?;
    flow.request_state("DataOut")?;
    let failed = flow.wait("DataOut", "Error")?;
    let message = failed["status"]["message"].as_str().context("a message")?;
    ensure!(
        message.contains("copy_out on rabbit-1") && message.contains("ermission denied"),
        "{message}"
    );
    ensure!(fs::read_dir(site.join("results"))?.next().is_none(), "something was copied");
    ensure!(!flow.fixture.namespaces()?.is_empty(), "the storage is gone");
    flow.reach("Teardown")?;
    flow.delete()?;
    flow.end()
}

#[test]
fn a_cancelled_copy_ends_and_fails_its_state() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow =
        Flow::on(Fixture::with_environment(1, &[("WARREN_MOVEMENT_RATE", "64KiB")])?, "slow")?;
    let site = flow.fixture.run.cluster.global();
    prepare(&site, flow.user)?;
    fs::write(site.join("input/large"), vec![1; 8 << 20])?;
    let directives = documented_directives(&site)?;
    set_up(&mut flow, &directives)?;
    flow.request_state("DataIn")?;
    until("the copy to run", patience(), || {
        let shown = flow.fixture.run.prints(&["movements", "slow"])?;
        ensure!(shown.contains("Running"), "not yet: {shown}");
        let workflow = flow.workflow()?;
        let message = workflow["status"]["message"].as_str().unwrap_or_default();
        let is_whole = message.contains("copies on rabbit-1: ")
            && message.contains(" of 8.0 MiB, 0 of 1 ended");
        ensure!(is_whole && message.contains(" left"), "not yet: {message}");
        Ok(())
    })?;
    flow.fixture.run.warren(&["movements", "cancel", "slow"])?;
    let failed = flow.wait("DataIn", "Error")?;
    ensure!(
        failed["status"]["message"].to_string().contains("the copy was cancelled"),
        "{failed:#}"
    );
    flow.reach("Teardown")?;
    flow.delete()?;
    flow.end()
}

#[test]
fn files_that_the_user_may_not_read_fail_datain_and_are_listed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(1, "secret")?;
    let site = flow.fixture.run.cluster.global();
    prepare(&site, flow.user)?;
    for name in ["a", "deep/b"] {
        fs::set_permissions(site.join("input").join(name), Permissions::from_mode(0o600))?;
    }
    set_up(&mut flow, &documented_directives(&site)?)?;
    flow.request_state("DataIn")?;
    let failed = flow.wait("DataIn", "Error")?;
    let message = failed["status"]["message"].to_string();
    ensure!(message.contains("2 files or directories were not copied"), "{message}");
    let shown = flow.fixture.run.prints(&["movements", "secret", "--failed"])?;
    for name in ["a", "deep/b"] {
        let is_listed = |line: &str| {
            line.contains(&format!("   input/{name} ")) && line.contains("Permission denied")
        };
        ensure!(shown.lines().any(is_listed), "{name} is missing in: {shown}");
    }
    flow.reach("Teardown")?;
    flow.delete()?;
    flow.end()
}

/// Makes the storage of a workflow, and brings the workflow to Teardown. `on_computes` runs in PreRun.
fn live(
    flow: &mut Flow,
    name: &str,
    directives: &[&str],
    on_computes: impl Fn(&Flow, &Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    flow.next(name);
    set_up(flow, &directives.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())?;
    flow.reach("DataIn")?;
    let workflow = flow.reach("PreRun")?;
    on_computes(flow, &workflow)?;
    for state in ["PostRun", "DataOut", "Teardown"] {
        flow.reach(state)?;
    }
    flow.leave()
}

#[test]
fn jobs_exchange_data_by_persistent_storage() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(1, "make")?;
    let site = flow.fixture.run.cluster.global();
    prepare(&site, flow.user)?;
    let nothing = |_: &Flow, _: &Value| Ok(());
    let kept = "#DW persistentdw name=kept";
    let create = "#DW create_persistent type=xfs capacity=320MiB name=kept";
    live(&mut flow, "make", &[create], nothing)?;
    let fill =
        format!("#DW copy_in source={}/input/ destination=$DW_PERSISTENT_kept/", site.display());
    live(&mut flow, "fill", &[kept, &fill], |flow, workflow| {
        let path = workflow["status"]["env"]["DW_PERSISTENT_kept"].as_str().context("its path")?;
        let found = flow.run_on("compute-1", &format!("cat {path}/a {path}/deep/b"))?;
        ensure!(found == "firstsecond", "{found:?}");
        Ok(())
    })?;
    let scratch = "#DW jobdw type=xfs capacity=320MiB name=scratch";
    let take = "#DW copy_in source=$DW_PERSISTENT_kept/deep destination=$DW_JOB_scratch/";
    let out = format!(
        "#DW copy_out source=$DW_PERSISTENT_kept/a destination={}/results/",
        site.display()
    );
    live(&mut flow, "take", &[kept, scratch, take, &out], |flow, workflow| {
        let found = flow.run_on("compute-1", &format!("cat {}/deep/b", storage_path(workflow)?))?;
        ensure!(found == "second", "{found:?}");
        Ok(())
    })?;
    ensure!(fs::read_to_string(site.join("results/rabbit-1-0/a"))? == "first");
    live(&mut flow, "end", &["#DW destroy_persistent name=kept"], nothing)?;
    flow.nothing_is_left()?;
    flow.end()
}
