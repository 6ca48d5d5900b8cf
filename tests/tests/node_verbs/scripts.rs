//! Tests of scripts that call the verbs: a workload manager kills them, or a file system is full.

use anyhow::ensure;
use nix::sys::signal::Signal;
use std::time::Duration;
use tests::{
    cluster::PATIENCE,
    gate,
    program::{pause, until},
    verbs::SHORT,
};

use crate::{COMPUTE, end, end_job, enter, is_mounted, mounted, ready};

#[test]
fn two_prologs_of_one_job_both_succeed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = ready()?;
    let words = ["mount", "--job", "1", "--deadline", "60s"];
    let prologs = [caller.begin(&words)?, caller.by_warren()?.begin(&words)?];
    fixture.run.mount_on_computes()?;
    for prolog in prologs {
        prolog.wait()?.expect_exit(0)?;
    }
    let words = ["unmount", "--job", "1", "--deadline", "60s"];
    let epilogs = [caller.begin(&words)?, caller.begin(&words)?];
    end_job(&mut fixture)?;
    for epilog in epilogs {
        epilog.wait()?.expect_exit(0)?;
    }
    end(fixture)
}

#[test]
fn a_prolog_that_still_waits_ends_when_the_workflow_is_torn_down() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = ready()?;
    let prolog = caller.begin(&["mount", "--job", "1", "--deadline", "10m"])?;
    let epilog = caller.begin(&["unmount", "--job", "1", "--deadline", "10m"])?;
    enter(&mut fixture, "Teardown")?;
    prolog.wait()?.expect_exit(6)?.expect_output("is over")?;
    epilog.wait()?.expect_exit(0)?;
    fixture.run.tear_down_storage()?;
    fixture.end()
}

/// Kills the prolog before and during the mount, with the signals that workload managers send.
#[test]
fn the_next_prolog_succeeds_after_a_prolog_was_killed_at_any_moment() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = ready()?;
    let words = ["mount", "--job", "1", "--deadline", "60s"];
    for (signal, code) in
        [(Signal::SIGTERM, Some(6)), (Signal::SIGINT, Some(6)), (Signal::SIGKILL, None)]
    {
        let prolog = caller.begin(&words)?;
        pause(Duration::from_millis(300));
        prolog.signal(signal)?;
        let ended = prolog.wait()?;
        ensure!(ended.code == code, "{signal}: {ended:?}");
    }
    let killed = caller.begin(&words)?;
    fixture.run.mount_on_computes()?;
    // Kills the prolog at different moments of the mount; the prolog may have ended already.
    for delay in [0, 5, 20, 60, 150] {
        let prolog = caller.begin(&words)?;
        pause(Duration::from_millis(delay));
        drop(prolog.signal(Signal::SIGKILL));
        prolog.wait()?;
    }
    drop(killed.signal(Signal::SIGKILL));
    killed.wait()?;
    caller.call(&words)?.expect_exit(0)?;
    ensure!(is_mounted(&fixture)?, "the storage is not mounted");
    end_job(&mut fixture)?;
    let epilog = caller.begin(&["unmount", "--job", "1", "--deadline", "60s"])?;
    drop(epilog.signal(Signal::SIGKILL));
    epilog.wait()?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}

#[test]
fn a_full_file_system_keeps_the_old_environment_file() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let run = fixture.run.cluster.logs().join("full");
    std::fs::create_dir_all(&run)?;
    let full = Full::mount_over(&run)?;
    let file = run.join("job.env");
    std::fs::write(&file, "before\n")?;
    full.fill()?;
    let file = file.display().to_string();
    caller
        .call(&["mount", "--job", "1", "--env-file", &file, "--deadline", "60s"])?
        .expect_exit(1)?
        .expect_output("free space there")?;
    ensure!(std::fs::read_to_string(&file)? == "before\n", "the old file was damaged");
    ensure!(is_mounted(&fixture)?, "the storage was unmounted because of the full file system");
    drop(full);
    end_job(&mut fixture)?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}

/// The agent must not mount without a record in its state directory: after its next start it would not know the mount.
#[test]
fn with_a_full_state_directory_nothing_is_mounted() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = ready()?;
    let state = fixture.run.cluster.state_of(COMPUTE).join("mounts");
    fixture.run.cluster.stop_one(COMPUTE)?;
    let full = Full::mount_over(&state)?;
    fixture.run.cluster.start_node_with(COMPUTE, &[])?;
    until("the agent to serve", PATIENCE, || caller.call(&["status"])?.expect_exit(0).map(drop))?;
    full.fill()?;
    fixture.run.mount_on_computes()?;
    caller
        .call(&["mount", "--job", "1", "--deadline", SHORT])?
        .expect_exit(4)?
        .expect_output("No space left on device")?;
    ensure!(!is_mounted(&fixture)?, "the storage was mounted without a record");
    std::fs::remove_file(state.join("ballast"))?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end_job(&mut fixture)?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    fixture.run.cluster.stop_one(COMPUTE)?;
    drop(full);
    fixture.run.cluster.start_node_with(COMPUTE, &[])?;
    end(fixture)
}

/// A tmpfs of 64 KiB over a directory, unmounted when dropped.
struct Full(std::path::PathBuf);

impl Full {
    fn mount_over(path: &std::path::Path) -> anyhow::Result<Self> {
        let mut argv = tests::program::command("mount");
        argv.args(["-t", "tmpfs", "-o", "size=64k", "full"]).arg(path);
        tests::cluster::output(argv)?;
        Ok(Self(path.to_owned()))
    }

    fn fill(&self) -> anyhow::Result<()> {
        let written = std::fs::write(self.0.join("ballast"), vec![0; 1 << 20]);
        ensure!(written.is_err(), "the tmpfs had room for 1 MiB");
        Ok(())
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let mut argv = tests::program::command("umount");
        argv.arg(&self.0);
        drop(tests::cluster::output(argv));
    }
}

/// The wall clock jumps, as on a machine whose clock is set. Deadlines do not change, since they use CLOCK_MONOTONIC.
#[test]
fn a_jump_of_the_wall_clock_changes_no_deadline() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::clock() {
        return Ok(());
    }
    let (mut fixture, caller) = ready()?;
    let mut argv = tests::program::command("faketime");
    argv.args(["-f", "+0s", "printenv", "LD_PRELOAD"]);
    let library = tests::cluster::output(argv)?.trim().to_owned();
    let clock = |by: &'static str| {
        [
            ("LD_PRELOAD", library.clone()),
            ("FAKETIME", by.to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    };
    for (agents, scripts) in [("+400d", "-26h"), ("-400d x1000", "+3y")] {
        let (agents, scripts) = (clock(agents), clock(scripts));
        let environment: Vec<_> =
            agents.iter().map(|(name, value)| (*name, value.as_str())).collect();
        fixture.run.cluster.stop_one(COMPUTE)?;
        fixture.run.cluster.start_node_with(COMPUTE, &environment)?;
        let environment: Vec<_> =
            scripts.iter().map(|(name, value)| (*name, value.as_str())).collect();
        until("the agent to serve", PATIENCE, || {
            caller.call(&["status"])?.expect_exit(0).map(drop)
        })?;
        caller
            .call_with(&["mount", "--job", "1", "--deadline", SHORT], &environment)?
            .expect_exit(3)?
            .expect_output("directive 0")?;
    }
    fixture.run.mount_on_computes()?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end_job(&mut fixture)?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}
