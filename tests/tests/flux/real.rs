//! Tests of the scripts with the real agent's program, on a cluster with real XFS, and on nodes where no agent runs.

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

/// Returns a stage whose script calls the real agent of a compute.
fn stage(script: &str, fixture: &Fixture) -> anyhow::Result<Stage> {
    let run = fixture.run.cluster.coordinator_socket();
    let socket = run.with_file_name(format!("{COMPUTE}.sock"));
    Ok(Stage::new(script)?
        .with_real_agent()?
        .with("F_JOBSPEC", RABBIT_JOB)
        .with("FLUX_JOB_ID", "ƒ2")
        .with("WARREN_LISTEN", socket.to_str().context("a path in UTF-8")?))
}

/// Applies the job's Workflow in this state, with its Computes.
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
fn the_prolog_waits_for_the_mount_and_the_epilog_for_the_unmount() -> anyhow::Result<()> {
    if !gate::jq() || !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::without_engine(1, "xfs")?;
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;
    enter(&mut fixture, "PreRun")?;
    let prolog = stage("prolog", &fixture)?;
    // Flux starts the prolog before the ClientMounts exist.
    let ended = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| prolog.run());
        fixture.run.mount_on_computes()?;
        waiting.join().map_err(|_| anyhow::anyhow!("the prolog's thread panicked"))?
    })?;
    ensure!(ended.exit == Some(0), "{ended:?}");
    ensure!(ended.calls_of("flux job raise").is_empty() && prolog.is_quiet(), "{ended:?}");
    ensure!(is_mounted(&fixture)?, "the prolog let the job start without its mount: {ended:?}");

    epilog_names_the_holder(&mut fixture)?;
    let ended = stage("epilog", &fixture)?.run()?;
    ensure!(ended.exit == Some(0) && ended.calls_of("flux resource").is_empty(), "{ended:?}");
    ensure!(!is_mounted(&fixture)?, "the epilog released a node with a mount: {ended:?}");
    let late = stage("prolog", &fixture)?.run()?;
    ensure!(late.exit == Some(6), "the job is over: {late:?}");
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    fixture.end()
}

/// Checks that the epilog ends at its deadline if a mount is busy, and drains the node with the holder (the process
/// that uses the mount) in the reason.
fn epilog_names_the_holder(fixture: &mut Fixture) -> anyhow::Result<()> {
    let node = fixture.run.cluster.node(COMPUTE)?.node_pid().to_string();
    let path = fixture.run.job.mount_path();
    let mut holder = command("nsenter");
    holder.args(["--mount", "--target", &node, "--", "/bin/sh", "-ec"]);
    holder.arg(format!("cd {path}; echo there; exec tail -f /dev/null")).stdout(Stdio::piped());
    let mut holder = holder.spawn().context("start a holder")?;
    let mut there = String::new();
    // Keeps the output open until the holder is killed: tail ends when no process reads its output.
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
fn the_coordinator_lets_a_job_without_a_workflow_start() -> anyhow::Result<()> {
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

/// First no agent runs; then an agent accepts connections, but closes them.
#[test]
fn a_node_without_a_working_agent_is_drained_and_the_reason_names_the_agent() -> anyhow::Result<()>
{
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
            // Closes each connection immediately, as if the agent died whenever it was started.
            std::thread::spawn(move || listener.incoming().take_while(Result::is_ok).for_each(drop))
        });
        let stage = stage.with("WARREN_LISTEN", socket.to_str().context("a path in UTF-8")?);
        let ended = stage.run()?;
        drop(closing);
        ensure!(ended.exit == Some(8), "{script} {is_broken}: {ended:?}");
        ensure!(ended.calls_of("flux job raise").is_empty(), "{script} {is_broken}: {ended:?}");
        let last = ended.calls.last().context("no call")?;
        ensure!(last.starts_with("flux resource drain "), "{script} {is_broken}: {ended:?}");
        // Two messages are possible: the client may notice the closed connection before the call or during the call.
        let is_named = last.contains("agent.sock") || is_broken && last.contains("call the agent");
        ensure!(is_named, "the reason names no agent: {last}");
    }
    Ok(())
}
