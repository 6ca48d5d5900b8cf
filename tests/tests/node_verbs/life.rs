//! Tests of the verbs for one job, from its prolog to its epilog.

use std::{fs, os::unix::fs::MetadataExt};

use anyhow::{Context, ensure};
use serde_json::json;
use tests::{
    fixture::Fixture,
    gate,
    verbs::{Caller, SHORT, report, workflow},
};

use crate::{COMPUTE, end, end_job, enter, is_mounted, ready, until_connected};

#[test]
fn a_prolog_waits_for_its_mounts_and_an_epilog_for_their_unmount() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = ready()?;
    let path = fixture.run.job.mount_path();
    let file = fixture.run.cluster.logs().join("job.env");
    let file = file.display().to_string();
    let waiting =
        caller.begin(&["mount", "--job", "ƒ2", "--deadline", "60s", "--env-file", &file])?;
    fixture.run.mount_on_computes()?;
    waiting.wait()?.expect_exit(0)?.expect_output(&path)?;
    ensure!(is_mounted(&fixture)?, "the storage is not mounted");
    let text = fs::read_to_string(&file).context("read the environment")?;
    ensure!(text.contains(&format!("DW_JOB_my_scratch='{path}'\n")), "{text}");
    let metadata = fs::metadata(&file)?;
    ensure!((metadata.uid(), metadata.mode() & 0o777) == (1050, 0o600), "{metadata:?}");
    for name in [&["--job", "1"], &["--job", "fluxjob-1"], &["--workflow", "default/fluxjob-1"]] {
        caller.call(&["mount", name[0], name[1], "--deadline", "60s"])?.expect_exit(0)?;
    }
    caller
        .by_warren()?
        .call(&["mount", "--job", "1", "--deadline", "60s"])?
        .expect_exit(0)?
        .expect_output(&path)?;
    let status = caller.call(&["status", "--job", "1", "--json"])?.expect_exit(0)?.json()?;
    ensure!(status["mounts"][0]["state"] == "mounted", "{status}");
    ensure!(status["job"]["desiredState"] == "PreRun", "{status}");
    caller.call(&["plan", "--job", "1"])?.expect_exit(0)?.expect_output("nothing to do")?;
    fixture.run.write()?;

    caller
        .call(&["unmount", "--job", "1", "--deadline", SHORT])?
        .expect_exit(3)?
        .expect_output("PostRun")?;
    ensure!(is_mounted(&fixture)?, "the storage was unmounted before PostRun");
    let waiting = caller.begin(&["unmount", "--job", "1", "--deadline", "60s"])?;
    end_job(&mut fixture)?;
    waiting.wait()?.expect_exit(0)?.expect_output("unmounted")?;
    ensure!(!is_mounted(&fixture)?, "the storage is still mounted");
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    caller
        .call(&["wait", "--job", "1", "--for", "unmounted", "--deadline", "60s"])?
        .expect_exit(0)?;
    caller
        .call(&["mount", "--job", "1", "--deadline", "60s"])?
        .expect_exit(6)?
        .expect_output("is over")?;
    end(fixture)
}

#[test]
fn verbs_end_at_once_for_an_unknown_job_and_wait_for_a_known_job() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::without_engine(1, "xfs")?;
    let caller = Caller::on(&fixture, COMPUTE)?;
    let file = fixture.run.cluster.logs().join("job.env");
    let file_name = file.display().to_string();
    fs::write(&file, "DW_JOB_of_another='/mnt'\n")?;
    for verb in ["mount", "unmount"] {
        caller
            .call(&[verb, "--job", "4711", "--deadline", "60s"])?
            .expect_exit(0)?
            .expect_output("no Workflow")?;
    }
    caller
        .call(&["mount", "--job", "4711", "--env-file", &file_name, "--deadline", "60s"])?
        .expect_exit(0)?;
    ensure!(
        fs::read_to_string(&file)?.is_empty(),
        "the environment of another job is still in the file"
    );
    caller.call(&["mount", "--job", "1", "--workflow", "w"])?.expect_exit(2)?;
    caller.call(&["mount"])?.expect_exit(2)?;
    caller.call(&["mount", "--job", ""])?.expect_exit(2)?;

    // Before PreRun the workload manager has not listed the job's computes.
    let setup = workflow(&fixture.run.job.clone(), "Setup");
    fixture.run.apply("workflow", &[setup])?;
    caller
        .call(&["mount", "--job", "1", "--deadline", SHORT])?
        .expect_exit(3)?
        .expect_output("computes")?;
    caller.call(&["unmount", "--job", "1", "--deadline", SHORT])?.expect_exit(3)?;
    // Changes the job's computes to others, so that this compute does not belong to the job.
    let elsewhere = json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Computes",
        "metadata": {"name": "fluxjob-1", "namespace": "default"}, "data": [{"name": "compute-9"}],
    });
    let pre_run = workflow(&fixture.run.job.clone(), "PreRun");
    fixture.run.apply("elsewhere", &[elsewhere, pre_run])?;
    caller
        .call(&["mount", "--job", "1", "--deadline", "60s"])?
        .expect_exit(0)?
        .expect_output("none of the computes")?;
    fixture.end()
}

#[test]
fn a_job_with_a_missing_client_mount_does_not_count_as_mounted() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = ready()?;
    let mut two = workflow(&fixture.run.job.clone(), "PreRun");
    let more = json!("#DW persistentdw name=dataset");
    two["spec"]["dwDirectives"].as_array_mut().context("directives")?.push(more);
    fixture.run.apply("two", &[two])?;
    let none = caller.call(&["mount", "--job", "1", "--deadline", SHORT])?.expect_exit(3)?;
    none.expect_output("directive 0")?;
    fixture.run.mount_on_computes()?;
    fixture.run.wait_for_computes("mounted")?;
    let half = caller
        .call(&["mount", "--job", "1", "--deadline", SHORT, "--json"])?
        .expect_exit(3)?
        .json()?;
    ensure!(half["exitStatus"] == 3 && half["mounts"][0]["state"] == "mounted", "{half}");
    let message = half["message"].as_str().unwrap_or_default();
    ensure!(message.contains("directive 1, #DW persistentdw name=dataset"), "{half}");
    end_job(&mut fixture)?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}

#[test]
fn a_failed_workflow_ends_the_wait_at_once_with_exit_status_5() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::without_engine(1, "xfs")?;
    let caller = Caller::on(&fixture, COMPUTE)?;
    enter(&mut fixture, "PreRun")?;
    until_connected(&caller)?;
    let message = "no space on rabbit-1";
    report(
        &fixture,
        &json!({"state": "PreRun", "ready": false, "status": "Error", "message": message}),
    )?;
    caller
        .call(&["mount", "--job", "1", "--deadline", "10m"])?
        .expect_exit(5)?
        .expect_output("no space on rabbit-1")?;
    fixture.end()
}
