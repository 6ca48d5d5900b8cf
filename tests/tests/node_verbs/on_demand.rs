//! Tests of an agent that systemd starts when a script connects to its socket, and that ends when it is idle.

use std::{path::Path, process::Command};

use anyhow::{Context, ensure};
use serde_json::Value;
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    program::{Program, command, until},
    verbs::Caller,
};

use crate::{COMPUTE, enter};

/// Program of systemd, the activator, that starts another program at the first connection to a socket, as
/// a socket unit does.
const ACTIVATE: &str = "systemd-socket-activate";

/// A compute whose agent is started on demand. The process `node` does nothing but keep the mount namespace.
struct OnDemand {
    fixture: Fixture,
    node: Program,
    caller: Caller,
    log: std::path::PathBuf,
}

impl OnDemand {
    fn new(mut fixture: Fixture) -> anyhow::Result<Self> {
        fixture.run.cluster.stop_one(COMPUTE)?;
        let cluster = &fixture.run.cluster;
        let mut idle = command("tail");
        idle.args(["-f", "/dev/null"]);
        let node = Program::start_on_node("node", &idle, &cluster.node_mounts(), &cluster.logs())?;
        let socket = cluster.logs().join("agent.sock");
        let log = cluster.logs().join("on-demand.log");
        let caller = Caller::at(&socket)?;
        Ok(Self { fixture, node, caller, log })
    }

    /// Starts the activator, which starts the agent at the first connection.
    fn activate(&self) -> anyhow::Result<std::process::Child> {
        let socket = self.fixture.run.cluster.logs().join("agent.sock");
        drop(std::fs::remove_file(&socket));
        let agent = self.fixture.run.cluster.agent(COMPUTE)?;
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        let mut argv = command("nsenter");
        argv.args(["--mount", "--target", &self.node.node_pid().to_string(), "--", ACTIVATE, "-l"]);
        argv.arg(&socket).arg(agent.get_program()).args(agent.get_args());
        argv.args(["--idle-exit", "1"]).stderr(log.try_clone()?).stdout(log);
        let activator = Command::spawn(&mut argv).context("start the activator")?;
        until("the socket", PATIENCE, || {
            ensure!(Path::new(&socket).exists(), "not yet");
            Ok(())
        })?;
        Ok(activator)
    }

    /// Waits until the agent ends by itself, with exit status 0.
    fn wait_for_idle_exit(&self, mut agent: std::process::Child) -> anyhow::Result<()> {
        let status = until("the agent to end", PATIENCE, || {
            agent.try_wait()?.context("the agent still runs")
        })?;
        ensure!(status.code() == Some(0), "{status}: {}", std::fs::read_to_string(&self.log)?);
        Ok(())
    }

    fn is_mounted(&self) -> anyhow::Result<bool> {
        let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", self.node.node_pid()))?;
        Ok(table.contains(&format!(" {} ", self.fixture.run.job.mount_path())))
    }

    fn object(&self) -> anyhow::Result<Value> {
        let name = self.fixture.run.job.computes_mount();
        let text =
            self.fixture.run.prints(&["get", "clientmount", &name, "-n", COMPUTE, "--json"])?;
        serde_json::from_str(&text).context("decode")
    }
}

#[test]
fn the_agent_runs_for_prolog_and_epilog_only_and_the_coordinator_removes_the_finalizer()
-> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::socket_activation() {
        return Ok(());
    }
    let mut fixture = Fixture::without_engine(1, "xfs")?;
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;
    enter(&mut fixture, "PreRun")?;
    let mut compute = OnDemand::new(fixture)?;
    compute.fixture.run.mount_on_computes()?;
    let agent = compute.activate()?;
    compute.caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    ensure!(compute.is_mounted()?, "the storage is not mounted");
    compute.wait_for_idle_exit(agent)?;
    ensure!(compute.is_mounted()?, "the agent unmounted the storage when it ended");

    enter(&mut compute.fixture, "PostRun")?;
    compute.fixture.run.unmount_from_computes()?;
    let agent = compute.activate()?;
    compute.caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    ensure!(!compute.is_mounted()?, "the storage is still mounted");
    compute.wait_for_idle_exit(agent)?;
    // Deletes the ClientMount and waits until it is gone. The agent does not run, so the coordinator must remove the
    // finalizer.
    compute.fixture.run.withdraw_from_computes()?;
    compute.fixture.run.tear_down_storage()?;
    drop(compute.node);
    compute.fixture.end()
}

#[test]
fn a_mounted_client_mount_is_not_deleted_while_its_agent_is_away() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::socket_activation() {
        return Ok(());
    }
    let mut fixture = Fixture::without_engine(1, "xfs")?;
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;
    enter(&mut fixture, "PreRun")?;
    let mut compute = OnDemand::new(fixture)?;
    compute.fixture.run.mount_on_computes()?;
    let agent = compute.activate()?;
    compute.caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    compute.wait_for_idle_exit(agent)?;
    // Mounts, unmounts and mounts again: the coordinator must forget the report that the file system was unmounted in
    // between.
    for (state, stage, verb) in
        [("unmounted", "PostRun", "unmount"), ("mounted", "PreRun", "mount")]
    {
        enter(&mut compute.fixture, stage)?;
        compute.fixture.run.desire(COMPUTE, state)?;
        let agent = compute.activate()?;
        compute.caller.call(&[verb, "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
        compute.wait_for_idle_exit(agent)?;
    }
    ensure!(compute.is_mounted()?, "the storage is not mounted");
    enter(&mut compute.fixture, "Teardown")?;
    compute.fixture.run.desire(COMPUTE, "unmounted")?;
    let name = compute.fixture.run.job.computes_mount();
    compute.fixture.run.warren(&["delete", "clientmount", &name, "-n", COMPUTE, "--wait=false"])?;
    let object = compute.object()?;
    ensure!(object["metadata"]["deletionTimestamp"].is_string(), "{object}");
    ensure!(object["metadata"]["finalizers"][0] == "nnf.cray.hpe.com/nnf_clientmount", "{object}");
    let agent = compute.activate()?;
    compute.caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    ensure!(!compute.is_mounted()?, "the storage is still mounted");
    compute.wait_for_idle_exit(agent)?;
    compute.fixture.run.tear_down_storage()?;
    drop(compute.node);
    compute.fixture.end()
}
