//! Tests of `copy_in` and `copy_out` with all programs, on real loop devices and a real XFS.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
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
    flow.create(&directives.iter().map(String::as_str).collect::<Vec<_>>())?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    flow.reach("Setup")?;
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
    flow.create(&directives.iter().map(String::as_str).collect::<Vec<_>>())?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    flow.reach("Setup")?;
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
    flow.create(&directives.iter().map(String::as_str).collect::<Vec<_>>())?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    flow.reach("Setup")?;
    flow.request_state("DataIn")?;
    until("the copy to run", patience(), || {
        let shown = flow.fixture.run.prints(&["movements", "slow"])?;
        ensure!(shown.contains("Running"), "not yet: {shown}");
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
