//! Tests of the gRPC service `Workloads` with all programs: a workload manager's jobs on real loop
//! devices and real XFS.

use std::{
    fs::{Permissions, set_permissions},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;
use tests::{
    cluster::patience,
    gate,
    program::{path_with_broken_mkfs, pause, until},
    workflow::Flow,
    workloads::{Called, Caller},
};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";

/// Calls of one job in their order, and the state after each.
const CALLS: [(&[&str], &str); 6] = [
    (&["setup", "--nodes", "compute-[1-3]"], "Setup"),
    (&["start", "--only-data"], "DataIn"),
    (&["start"], "PreRun"),
    (&["post-run", "--only-nodes"], "PostRun"),
    (&["post-run"], "DataOut"),
    (&["teardown"], ""),
];

fn create(caller: &Caller<'_>) -> anyhow::Result<Called> {
    caller.reach(&["create", XFS, "--user", "1050", "--group", "1050"], "Proposal")
}

/// The test makes every call twice. The second call finds its work done.
#[test]
fn each_call_of_a_job_may_be_repeated() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(3, "unused")?;
    let caller = Caller::new(&flow, "7");
    create(&caller)?;
    let again = create(&caller)?;
    ensure!(
        again.printed["userId"] == 1050 && again.printed["workflow"] == "default/test-7",
        "{again:?}"
    );
    let other =
        caller.call(&["create", "#DW jobdw type=raw capacity=64MiB name=other"])?.expect_exit(1)?;
    other.expect_output(&["another user"])?;
    caller.call(&["start"])?.expect_exit(1)?.expect_output(&["call Setup first"])?;
    for (words, state) in CALLS {
        for time in ["first", "second"] {
            let called = caller.call(words)?.expect_exit(0).context(time)?;
            ensure!(called.printed["state"] == state, "{time}: {called:?}");
            if state == "PreRun" {
                let node = called.node("compute-2");
                ensure!(node["condition"] == "ready" && node["mounted"] == true, "{called:?}");
            }
            if state == "PostRun" {
                ensure!(called.node("compute-2")["mounted"] == false, "{called:?}");
            }
        }
        if state == "PreRun" {
            let others = caller.call(&["setup", "--nodes", "compute-1"])?;
            others.expect_exit(1)?.expect_output(&["compute-[1-3]"])?;
            let env = caller.call(&["env"])?.expect_exit(0)?;
            let path = env.printed["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")?;
            for (compute, _) in &flow.fixture.run.cluster.chassis().computes {
                let script = format!("echo {compute} > {path}/hello; cat {path}/hello");
                ensure!(flow.run_on(compute, &script)?.trim() == compute, "{compute}");
            }
        }
    }
    caller.call(&["status"])?.expect_exit(1)?.expect_output(&["no job 7"])?;
    flow.nothing_is_left()?;
    flow.end()
}

#[test]
fn a_refusal_names_the_line_the_argument_and_the_remedy() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(1, "unused")?;
    let caller = Caller::new(&flow, "7");
    let refused = caller.call(&["create", "#DW jobdw type=ext4 capacity=1GiB name=scratch"])?;
    refused.expect_exit(2)?.expect_output(&["type=ext4", "raw|xfs|gfs2|lustre"])?;
    let profile = caller.call(&["create", &format!("{XFS} profile=fast")])?;
    profile.expect_exit(2)?.expect_output(&[
        "directive 0 `#DW jobdw",
        "no such NnfStorageProfile",
        "Teardown",
    ])?;
    caller.call(&["teardown"])?.expect_exit(0)?;
    caller.call(&["create", XFS])?.expect_exit(0)?;
    let stranger = caller.call(&["setup", "--nodes", "login-1"])?;
    stranger.expect_exit(2)?.expect_output(&["login-1", "no rabbit serves"])?;
    caller.call(&["teardown"])?.expect_exit(0)?;
    let large = Caller::new(&flow, "8");
    large.call(&["create", "#DW jobdw type=xfs capacity=100TiB name=scratch"])?.expect_exit(0)?;
    large
        .call(&["setup", "--nodes", "compute-1"])?
        .expect_output(&["rabbit-1", "directive 0 `#DW"])?;
    large.call(&["teardown"])?.expect_exit(0)?;
    flow.nothing_is_left()?;
    flow.end()
}

/// The coordinator is killed before each call, and again while the call waits. The calling script must see no failure.
#[test]
fn a_workload_managers_calls_succeed_although_the_coordinator_is_killed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(3, "unused")?;
    let caller = Caller::new(&flow, "7");
    let coordinator = flow.fixture.run.cluster.coordinator()?;
    create(&caller)?;
    for (words, state) in CALLS {
        until("a coordinator", patience(), || coordinator.kill())?;
        let mut argv = caller.command(words)?;
        let child = argv.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("call")?;
        // Waits long enough for the coordinator to have received the call.
        pause(Duration::from_millis(400));
        until("a coordinator", patience(), || coordinator.kill())?;
        let called =
            Called::read(&child.wait_with_output().context("wait for a call")?)?.expect_exit(0)?;
        ensure!(called.printed["state"] == state, "{called:?}");
    }
    flow.nothing_is_left()?;
    flow.end()
}

#[test]
fn a_job_is_aborted_in_each_state_and_leaves_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(3, "unused")?;
    for last in 0..CALLS.len() {
        let caller = Caller::new(&flow, &last.to_string());
        create(&caller)?;
        for (words, state) in &CALLS[..last] {
            caller.reach(words, state)?;
        }
        for _ in 0..2 {
            let aborted =
                caller.call(&["abort", "--reason", "the user cancelled it"])?.expect_exit(0)?;
            aborted.expect_output(&["user 0 at 20", "the user cancelled it"])?;
        }
        let start = caller.call(&["setup"])?.expect_exit(6)?;
        start.expect_output(&["aborted by user 0", "the user cancelled it"])?;
        caller.call(&["teardown"])?.expect_exit(0)?;
        caller.call(&["abort"])?.expect_exit(0)?;
        flow.nothing_is_left()?;
    }
    flow.end()
}

#[test]
fn a_user_may_act_on_its_own_jobs_and_a_workload_manager_on_all_of_its_jobs() -> anyhow::Result<()>
{
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(1, "unused")?;
    let socket = flow.fixture.run.cluster.workloads_socket();
    for directory in socket.ancestors().skip(1).take(2) {
        set_permissions(directory, Permissions::from_mode(0o711)).context("let users in")?;
    }
    let caller_of = |user: u32, job: &str| {
        let mut caller = Caller::new(&flow, job);
        caller.user = Some(user);
        caller
    };
    // A user cannot create a job with an ID of the workload manager, which could be that of a later job.
    caller_of(1050, "mine")
        .call(&["create", XFS])?
        .expect_exit(1)?
        .expect_output(&["--manager user-1050"])?;
    let own = |user: u32, job: &str| {
        let mut caller = caller_of(user, job);
        caller.manager = "user-1050".to_owned();
        caller
    };
    own(1051, "mine")
        .call(&["create", XFS])?
        .expect_exit(1)?
        .expect_output(&["--manager user-1051"])?;
    let mine = own(1050, "mine");
    let created = mine.call(&["create", XFS])?.expect_exit(0)?;
    ensure!(created.printed["userId"] == 1050 && created.printed["groupId"] == 1050, "{created:?}");
    let as_root = ["create", XFS, "--user", "0", "--group", "0"];
    own(1050, "root")
        .call(&as_root)?
        .expect_exit(1)?
        .expect_output(&["user 1050", "--wlm-user"])?;
    let others: [&[&str]; 5] =
        [&["setup", "--nodes", "compute-1"], &["start"], &["abort"], &["teardown"], &["status"]];
    for words in others {
        own(1051, "mine").call(words)?.expect_exit(1)?.expect_output(&["another user's"])?;
    }
    let status = mine.call(&["status"])?.expect_exit(0)?;
    ensure!(
        status.printed["desiredState"] == "Proposal" && status.printed["aborted"] == "",
        "{status:?}"
    );
    // User 1060, whom the option --wlm-user names for the workload manager `test`, may act only on jobs of that
    // manager.
    own(1060, "mine")
        .call(&["teardown"])?
        .expect_exit(1)?
        .expect_output(&["acts for test only"])?;
    let manager = caller_of(1060, "managed");
    manager.call(&["create", XFS, "--user", "1051", "--group", "1051"])?.expect_exit(0)?;
    caller_of(1051, "managed").call(&["setup", "--nodes", "compute-1"])?.expect_exit(0)?;
    manager.call(&["teardown"])?.expect_exit(0)?;
    manager
        .reach(&["setup", "--nodes", "compute-1"], "Setup")
        .err()
        .context("the job was not removed")?;
    mine.call(&["teardown"])?.expect_exit(0)?;
    // On the socket that every user may connect to, the coordinator does not accept the calls that are for
    // administrators.
    let cluster = &flow.fixture.run.cluster;
    let warren = cluster.warren()?.get_program().to_string_lossy().into_owned();
    let nodes = format!("{warren} nodes --coordinator unix://{}", socket.display());
    let refused = cluster.run_on_host_as(1050, &nodes).err().context("a list of nodes")?;
    ensure!(format!("{refused:#}").contains("list the coordinator's nodes"), "{refused:#}");
    flow.nothing_is_left()?;
    flow.end()
}

/// A rabbit whose agent is stopped counts as unreachable, not as down. A deadline is stored, so it is valid even after
/// the restart of the coordinator that received it.
#[test]
fn a_missed_deadline_is_reported_after_the_coordinators_restart_and_can_be_renewed()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(1, "unused")?;
    let rabbit = flow.fixture.run.cluster.chassis().rabbit.clone();
    create(&Caller::new(&flow, "7"))?;
    flow.fixture.run.cluster.stop_one(&rabbit)?;
    let caller = Caller::new(&flow, "7");
    let late =
        caller.call(&["setup", "--nodes", "compute-1", "--timeout", "3s"])?.expect_exit(3)?;
    ensure!(late.node(&rabbit)["condition"] == "unreachable", "{late:?}");
    let late =
        late.expect_output(&["user 0 set", "does not prove that the node is down", "waitsFor"])?;
    ensure!(late.printed["desiredState"] == "Setup", "{late:?}");
    flow.kill_coordinator()?;
    let caller = Caller::new(&flow, "7");
    let status = until("the coordinator to be back", patience(), || {
        let status = caller.call(&["status"])?;
        ensure!(status.code == Some(3), "{status:?}");
        Ok(status)
    })?;
    let deadlines = status.printed["deadlines"].as_array().context("deadlines")?;
    let setup = deadlines
        .iter()
        .find(|deadline| deadline["state"] == "Setup")
        .context("no deadline of Setup")?;
    ensure!(setup["outcome"] == "missed" && setup["owner"] == "user 0", "{setup}");
    // The deadline has passed, so the call fails immediately, even with a long time-out.
    caller.call(&["setup", "--timeout", "1h"])?.expect_exit(3)?;
    flow.fixture.run.cluster.start_node(&rabbit)?;
    let caller = Caller::new(&flow, "7");
    caller.reach(&["setup", "--renew"], "Setup")?;
    caller.call(&["teardown"])?.expect_exit(0)?;
    flow.nothing_is_left()?;
    flow.end()
}

#[test]
fn a_compute_that_is_down_is_named_with_the_evidence() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(3, "unused")?;
    let caller = Caller::new(&flow, "7");
    create(&caller)?;
    caller.reach(&["setup", "--nodes", "compute-[1-3]"], "Setup")?;
    flow.fixture.run.cluster.stop_one("compute-2")?;
    // The coordinator has no evidence yet that compute-2 is down.
    let caller = Caller::new(&flow, "7");
    let late = caller.call(&["start", "--timeout", "3s"])?.expect_exit(3)?;
    ensure!(late.node("compute-2")["condition"] == "unreachable", "{late:?}");
    ensure!(late.node("compute-1")["condition"] == "ready", "{late:?}");
    let status = json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemStatus",
        "metadata": {"name": "default", "namespace": "default"}, "data": {"nodes": {"compute-2": "Disabled"}},
    });
    flow.fixture.run.apply("status", &[status])?;
    let caller = Caller::new(&flow, "7");
    let down = caller.call(&["start", "--renew", "--timeout", "3s"])?.expect_exit(4)?;
    ensure!(down.node("compute-2")["condition"] == "down", "{down:?}");
    down.expect_output(&["compute-2: the workload manager's SystemStatus says Disabled"])?;
    caller.call(&["teardown"])?.expect_exit(0)?;
    flow.fixture.run.cluster.start_node("compute-2")?;
    flow.nothing_is_left()?;
    flow.end()
}

/// The call `start` reports the lost compute to the job. The compute's storage is removed together with the job's.
#[test]
fn a_job_goes_on_without_a_compute_whose_mount_failed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(3, "unused")?;
    let caller = Caller::new(&flow, "7");
    let whole =
        ["create", "#DW create_persistent type=xfs capacity=320MiB name=kept", "--tolerance", "1"];
    caller.call(&whole)?.expect_exit(2)?.expect_output(&["tolerance", "needs all its nodes"])?;
    let create = ["create", XFS, "--tolerance", "1", "--user", "1050", "--group", "1050"];
    let created = caller.reach(&create, "Proposal")?;
    ensure!(created.printed["tolerance"] == 1, "{created:?}");
    let without = ["create", XFS, "--user", "1050", "--group", "1050"];
    caller.call(&without)?.expect_exit(1)?.expect_output(&["another tolerance"])?;
    caller.reach(&["setup", "--nodes", "compute-[1-3]"], "Setup")?;
    // Another mount occupies the mount point on two computes, one more than the job tolerates.
    let workflow = flow.object("workflow", "test-7", "default")?;
    let uid = workflow["metadata"]["uid"].as_str().context("uid")?.to_owned();
    let path = format!("{}/{uid}-0", flow.fixture.run.cluster.mount_root());
    for compute in ["compute-2", "compute-3"] {
        let occupy = format!("mkdir -p {path} && mount -t tmpfs other {path}");
        flow.fixture.run.cluster.run_on(compute, 0, &occupy)?;
    }
    let start = ["start", "--timeout", "3s"];
    let late =
        caller.call(&start)?.expect_exit(4)?.expect_output(&["compute-2: ", "compute-3: "])?;
    late.expect_output(&["2 computes are lost (compute-[2-3]), and the job tolerates 1"])?;
    flow.fixture.run.cluster.run_on("compute-3", 0, &format!("umount {path}"))?;
    until("compute-3 to have its mount", patience(), || {
        let status = caller.call(&["status"])?;
        ensure!(status.node("compute-3")["condition"] == "ready", "{status:?}");
        Ok(())
    })?;
    // The deadline has passed, so the first of these calls lets the job continue without compute-2. The second call
    // must give the same answer.
    for _ in 0..2 {
        let started = caller.reach(&start, "PreRun")?;
        let lost = started.printed["lost"].as_array().context("lost")?;
        ensure!(lost.len() == 1 && lost[0]["node"] == "compute-2", "{started:?}");
        ensure!(lost[0]["state"] == "PreRun" && lost[0]["evidence"] != "", "{started:?}");
        ensure!(started.printed["message"] == "Forced Ready", "{started:?}");
    }
    let env = caller.call(&["env"])?.expect_exit(0)?;
    ensure!(env.printed["DW_JOB_scratch"] == path, "{env:?}");
    flow.run_on("compute-1", &format!("echo hello > {path}/hello"))?;
    flow.kill_coordinator()?;
    let caller = Caller::new(&flow, "7");
    let ended = caller.reach(&["post-run"], "DataOut")?;
    ensure!(
        ended.printed["lost"][0]["node"] == "compute-2",
        "the new coordinator does not report the lost compute: {ended:?}"
    );
    caller.call(&["teardown"])?.expect_exit(0)?;
    flow.fixture.run.cluster.run_on("compute-2", 0, &format!("umount {path}"))?;
    flow.nothing_is_left()?;
    flow.end()
}

/// The rabbit of compute-9 cannot make file systems. While the rabbit's agent is silent, the coordinator has no
/// evidence of a failure. Once the agent reports the failure, the job continues with the other computes.
#[test]
fn a_job_goes_on_without_the_computes_of_a_rabbit_that_failed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "unused")?;
    let broken = second_rabbit(&mut flow)?;
    let caller = Caller::new(&flow, "7");
    caller.reach(&["create", XFS, "--tolerance", "1"], "Proposal")?;
    flow.fixture.run.cluster.stop_one("rabbit-9")?;
    let caller = Caller::new(&flow, "7");
    let setup = ["setup", "--nodes", "compute-[1-2],compute-9", "--timeout", "2s"];
    // On a busy machine, the good rabbit may miss the deadline too: repeats the call until only rabbit-9 misses it.
    until("rabbit-9 alone to be late", patience(), || {
        caller
            .call(&setup)?
            .expect_exit(3)?
            .expect_output(&["no fault of rabbit-9 was reported"])
            .map(drop)
    })?;
    flow.fixture.run.cluster.start_node_with("rabbit-9", &[("PATH", &broken)])?;
    let caller = Caller::new(&flow, "7");
    until("rabbit-9 to say what is wrong", patience(), || {
        let status = caller.call(&["status"])?;
        ensure!(status.node("rabbit-9")["condition"] == "faulty", "{status:?}");
        Ok(())
    })?;
    for _ in 0..2 {
        let stored = caller.reach(&setup, "Setup")?;
        let lost = &stored.printed["lost"][0];
        ensure!(lost["node"] == "compute-9" && lost["state"] == "Setup", "{stored:?}");
        let evidence = lost["evidence"].as_str().context("evidence")?;
        ensure!(evidence.starts_with("rabbit-9: ") && evidence.contains("mkfs"), "{stored:?}");
    }
    let started = caller.reach(&["start"], "PreRun")?;
    ensure!(started.printed["lost"].as_array().map(Vec::len) == Some(1), "{started:?}");
    ensure!(started.printed["message"] == "", "PreRun was forced: {started:?}");
    for compute in ["compute-1", "compute-2"] {
        ensure!(started.node(compute)["condition"] == "ready", "{started:?}");
    }
    caller.reach(&setup, "PreRun")?;
    caller.reach(&["post-run"], "DataOut")?;
    caller.call(&["teardown"])?.expect_exit(0)?;
    flow.nothing_is_left()?;
    flow.end()
}

/// Adds rabbit-9 with its own drives, and compute-9. Returns a PATH with a mkfs.xfs that fails.
fn second_rabbit(flow: &mut Flow) -> anyhow::Result<String> {
    let mut system = flow.fixture.run.cluster.chassis().system_configuration();
    let nodes = system["spec"]["storageNodes"].as_array_mut().context("storageNodes")?;
    let access = json!([{"name": "compute-9", "index": 0}]);
    nodes.push(json!({"type": "Rabbit", "name": "rabbit-9", "computesAccess": access}));
    // On a cluster, the site's controllers create the rabbit's namespace.
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rabbit-9"}});
    flow.fixture.run.apply("system", &[namespace, system])?;
    let cluster = &mut flow.fixture.run.cluster;
    cluster.add_rabbit("rabbit-9")?;
    let path = path_with_broken_mkfs(&cluster.logs().join("tools"))?;
    until("its Storage to be Ready", patience(), || {
        let storage = flow.object("storage", "rabbit-9", "default")?;
        ensure!(storage["status"]["status"] == "Ready", "not yet: {storage}");
        Ok(())
    })?;
    Ok(path)
}
