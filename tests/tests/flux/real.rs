//! The scripts with the agent itself: without anybody who answers, and on a cluster with real XFS.

use std::{
    io::{BufRead, BufReader},
    os::unix::net::UnixListener,
    process::Stdio,
};

use anyhow::{Context, ensure};
use tests::{
    fixture::Fixture,
    gate,
    program::command,
    verbs::{computes, workflow},
};

use super::stage::{RABBIT_JOB, Stage};

const COMPUTE: &str = "compute-1";

/// A script that finds the real agent of a compute.
fn stage(script: &str, fixture: &Fixture) -> anyhow::Result<Stage> {
    let run = fixture.run.cluster.coordinator_socket();
    let socket = run.with_file_name(format!("{COMPUTE}.sock"));
    Ok(Stage::new(script)?
        .with_real_agent()?
        .with("F_JOBSPEC", RABBIT_JOB)
        .with("FLUX_JOB_ID", "ƒ2")
        .with("WARREN_LISTEN", socket.to_str().context("a path in UTF-8")?))
}

/// Brings the job's Workflow to a state, with its computes named.
fn enter(fixture: &mut Fixture, state: &str) -> anyhow::Result<()> {
    let (job, chassis) = (fixture.run.job.clone(), fixture.run.cluster.chassis().clone());
    fixture.run.apply("workflow", &[workflow(&job, state), computes(&job, &chassis)])
}

fn is_mounted(fixture: &Fixture) -> anyhow::Result<bool> {
    let path = fixture.run.job.mount_path();
    let script = format!("grep -cF ' {path} ' /proc/self/mountinfo || true");
    Ok(fixture.run.cluster.run_on(COMPUTE, 0, &script)?.trim() == "1")
}

#[test]
fn a_job_is_mounted_held_and_unmounted() -> anyhow::Result<()> {
    if !gate::jq() || !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::without_engine(1, "xfs")?;
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;
    enter(&mut fixture, "PreRun")?;
    let prolog = stage("prolog", &fixture)?;
    // Flux starts the prolog long before the mounts are asked for.
    let ended = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| prolog.run());
        fixture.run.mount_on_computes()?;
        waiting.join().map_err(|_| anyhow::anyhow!("the prolog's thread panicked"))?
    })?;
    ensure!(ended.exit == Some(0), "{ended:?}");
    ensure!(ended.calls_of("flux job raise").is_empty() && prolog.is_quiet(), "{ended:?}");
    ensure!(is_mounted(&fixture)?, "the prolog let the job start without its mount: {ended:?}");

    hold_an_epilog(&mut fixture)?;
    let ended = stage("epilog", &fixture)?.run()?;
    ensure!(ended.exit == Some(0) && ended.calls_of("flux resource").is_empty(), "{ended:?}");
    ensure!(!is_mounted(&fixture)?, "the epilog released a node with a mount: {ended:?}");
    let late = stage("prolog", &fixture)?.run()?;
    ensure!(late.exit == Some(6), "the job is over: {late:?}");
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    fixture.end()
}

/// An epilog whose mount is in use when the job ends itself ends at its deadline, and the drain says by whom.
fn hold_an_epilog(fixture: &mut Fixture) -> anyhow::Result<()> {
    let node = fixture.run.cluster.node(COMPUTE)?.node_pid().to_string();
    let path = fixture.run.job.mount_path();
    let mut holder = command("nsenter");
    holder.args(["--mount", "--target", &node, "--", "/bin/sh", "-ec"]);
    holder.arg(format!("cd {path}; echo there; exec tail -f /dev/null")).stdout(Stdio::piped());
    let mut holder = holder.spawn().context("start a holder")?;
    let mut there = String::new();
    // Open to the end: tail ends when nobody reads it any more.
    let mut stdout = BufReader::new(holder.stdout.take().context("stdout")?);
    stdout.read_line(&mut there)?;
    ensure!(there == "there\n", "the holder is not in {path}");
    enter(fixture, "PostRun")?;
    fixture.run.unmount_from_computes()?;
    let ended = stage("epilog", fixture)?
        .with_settings("WARREN_EPILOG_DEADLINE=2s\nWARREN_ON_TIMEOUT=report\n")?
        .run();
    holder.kill()?;
    let pid = holder.id().to_string();
    holder.wait()?;
    drop(stdout);
    let ended = ended?;
    ensure!(ended.exit == Some(3), "{ended:?}");
    let drains = ended.calls_of("flux resource drain --update ");
    ensure!(drains.len() == 1, "{ended:?}");
    for part in [&*path, &*pid, "tail"] {
        ensure!(drains[0].contains(part), "no {part} in {:?}", drains[0]);
    }
    Ok(())
}

#[test]
fn a_job_that_nobody_knows_is_let_through_by_the_coordinator_alone() -> anyhow::Result<()> {
    if !gate::jq() || !gate::loop_devices() {
        return Ok(());
    }
    let fixture = Fixture::without_engine(1, "xfs")?;
    for script in ["prolog", "epilog"] {
        let ended =
            stage(script, &fixture)?.with("F_JOBINFO", "1").with("FLUX_JOB_ID", "f9").run()?;
        ensure!(ended.exit == Some(0), "{script}: {ended:?}");
        ensure!(ended.calls_of("flux job raise").is_empty(), "{script}: {ended:?}");
    }
    fixture.end()
}

/// An agent that nobody started, and one that takes the connection and does not speak.
#[test]
fn without_an_agent_the_node_is_drained_and_the_coordinator_is_not_blamed() -> anyhow::Result<()> {
    if !gate::jq() {
        return Ok(());
    }
    for (script, is_broken) in [("prolog", false), ("prolog", true), ("epilog", false)] {
        let stage = Stage::new(script)?
            .with_real_agent()?
            .with_settings("WARREN_UNREACHABLE=0\nWARREN_EPILOG_DEADLINE=1\n")?
            .with("F_TIMEOUT", "1")
            .with("F_JOBSPEC", RABBIT_JOB);
        let socket = stage.path().join("agent.sock");
        let broken = is_broken.then(|| UnixListener::bind(&socket)).transpose()?;
        let closing = broken.map(|listener| {
            // Each connection ends at once, as with an agent that dies whenever it is started.
            std::thread::spawn(move || listener.incoming().take_while(Result::is_ok).for_each(drop))
        });
        let stage = stage.with("WARREN_LISTEN", socket.to_str().context("a path in UTF-8")?);
        let ended = stage.run()?;
        drop(closing);
        ensure!(ended.exit == Some(8), "{script} {is_broken}: {ended:?}");
        ensure!(ended.calls_of("flux job raise").is_empty(), "{script} {is_broken}: {ended:?}");
        let last = ended.calls.last().context("no call")?;
        ensure!(last.starts_with("flux resource drain "), "{script} {is_broken}: {ended:?}");
        // A connection that is closed at once is lost before the call, or in it.
        let is_named = last.contains("agent.sock") || is_broken && last.contains("call the agent");
        ensure!(is_named, "the reason names no agent: {last}");
    }
    Ok(())
}
