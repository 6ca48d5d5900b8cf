//! Tests of the verbs' answers when the coordinator does not run, or does not answer.

use anyhow::ensure;
use nix::sys::signal::Signal;
use tests::{gate, program::signal, verbs::SHORT};

use crate::{end, end_job, is_mounted, mounted};

#[test]
fn without_a_coordinator_verbs_exit_with_7_and_show_the_local_mounts() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let path = fixture.run.job.mount_path();
    fixture.run.cluster.stop_one("coordinator")?;
    let away = caller
        .call(&["mount", "--job", "1", "--deadline", SHORT, "--json"])?
        .expect_exit(7)?
        .json()?;
    ensure!(away["mounts"][0]["path"] == path.as_str() && away["job"].is_null(), "{away}");
    ensure!(away["mounts"][0]["state"] == "mounted", "{away}");
    caller.call(&["unmount", "--job", "1", "--deadline", SHORT])?.expect_exit(7)?;
    caller.call(&["mount", "--job", "4711", "--deadline", SHORT])?.expect_exit(7)?;
    caller.call(&["status", "--job", "1"])?.expect_exit(7)?.expect_output(&path)?;
    let waiting = caller.begin(&["mount", "--job", "1", "--deadline", "60s"])?;
    fixture.run.cluster.start_coordinator()?;
    waiting.wait()?.expect_exit(0)?;
    end_job(&mut fixture)?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}

#[test]
fn a_coordinator_that_does_not_answer_counts_as_unreachable() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let coordinator = fixture.run.cluster.coordinator()?.pid()?;
    signal(coordinator, Signal::SIGSTOP)?;
    let words = ["mount", "--job", "1", "--deadline", SHORT];
    let slow = caller
        .call(&words)?
        .expect_exit(7)
        .and_then(|ended| ended.expect_output("has not answered"));
    let waiting = caller.begin(&["mount", "--job", "1", "--deadline", "60s"])?;
    signal(coordinator, Signal::SIGCONT)?;
    slow?;
    waiting.wait()?.expect_exit(0)?;
    ensure!(is_mounted(&fixture)?, "the storage is not mounted");
    end_job(&mut fixture)?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}

#[test]
fn without_an_agent_verbs_exit_with_8() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let caller = tests::verbs::Caller::at(&directory.path().join("agent.sock"))?;
    caller
        .call(&["mount", "--job", "1", "--deadline", SHORT])?
        .expect_exit(8)?
        .expect_output("systemctl start")?;
    Ok(())
}
