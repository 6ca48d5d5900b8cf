//! Containers run by the rabbit's agent with podman, without a kubelet, on a job's data on real devices.

use std::{fs, os::unix::fs::PermissionsExt};

use anyhow::{Context, ensure};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tests::{
    file_server::{FileServer, give, hold, say},
    fixture::Fixture,
    gate,
    podman::Podman,
    program::{self, until},
    workflow::Flow,
};

const LINES: [&str; 2] = [
    "#DW jobdw type=raw capacity=64MiB name=scratch",
    "#DW container name=view profile=viewer DW_JOB_scratch=scratch",
];
/// Script that waits for the first compute's data. It reads with O_DIRECT: the compute writes through another device,
/// so the rabbit's page cache would not show the new data.
const VIEW: &str = "echo viewer on $NNF_NODE_NAME; cat /between/said; \
    until dd if=$DW_JOB_scratch/node-0 bs=4096 count=1 iflag=direct 2>/dev/null | grep -q hello; do sleep 0.2; done; \
    ls $DW_JOB_scratch; id -u; cat /nnf/config/nodes.json; echo; echo seen";

fn profile(image: &str, script: &str) -> Value {
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfContainerProfile",
        "metadata": {"name": "viewer", "namespace": "nnf-system"},
        "data": {
            "storages": [{"name": "DW_JOB_scratch"}], "retryLimit": 0, "preRunTimeoutSeconds": 120, "postRunTimeoutSeconds": 120,
            "spec": {"terminationGracePeriodSeconds": 1,
                "containers": [{"name": "view", "image": image, "command": ["/bin/sh", "-c"], "args": [script]}]},
        },
    })
}

/// Returns the profile of [`profile`] with an init container, which leaves a file in a volume that both containers
/// share.
fn profile_with_init_container(image: &str, script: &str) -> Value {
    let mut profile = profile(image, script);
    let spec = &mut profile["data"]["spec"];
    spec["volumes"] = json!([{"name": "between", "emptyDir": {}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "between", "mountPath": "/between"}]);
    let mut first = spec["containers"][0].clone();
    first["name"] = json!("first");
    first["args"] = json!(["echo said before > /between/said"]);
    spec["initContainers"] = json!([first]);
    profile
}

fn flow(podman: &Podman, name: &str, script: &str) -> anyhow::Result<Flow> {
    let mut flow = workflow_before_prerun(podman, name, &profile(&podman.image(), script))?;
    flow.reach("PreRun")?;
    Ok(flow)
}

/// Creates a workflow and takes it to the end of DataIn, so that PreRun is the next state.
fn workflow_before_prerun(podman: &Podman, name: &str, profile: &Value) -> anyhow::Result<Flow> {
    let fixture = Fixture::with_podman(2, &podman.program_on_a_node())?;
    let mut flow = Flow::on(fixture, name)?;
    flow.fixture.run.apply("profile", std::slice::from_ref(profile))?;
    flow.create(&LINES)?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in ["Setup", "DataIn"] {
        flow.reach(state)?;
    }
    Ok(flow)
}

/// Kills the rabbit's agent, and waits until it is started again.
fn kill_agent(flow: &Flow) -> anyhow::Result<()> {
    let cluster = &flow.fixture.run.cluster;
    let rabbit = &cluster.chassis().rabbit;
    let agent = cluster.node(rabbit)?.pid()?;
    cluster.run_on(rabbit, 0, &format!("kill -9 {agent}"))?;
    until("the agent to be started again", tests::cluster::PATIENCE, || {
        ensure!(cluster.node(rabbit)?.pid()? != agent, "not yet");
        Ok(())
    })
}

/// Returns the first entry of `warren containers --json`.
fn listed_container(flow: &Flow) -> anyhow::Result<Value> {
    let text = flow.fixture.run.prints(&["containers", &flow.name, "--json"])?;
    let containers: Value =
        serde_json::from_str(&text).context("decode the output of warren containers")?;
    containers.get(0).cloned().context("warren containers lists nothing")
}

/// Checks that the job's user sees the log of a running container by the socket for users, and that another user does not.
fn only_their_user_sees_logs(flow: &Flow) -> anyhow::Result<()> {
    let cluster = &flow.fixture.run.cluster;
    let warren = flow.fixture.run.cluster.logs().join("warren-of-users");
    let copy = format!("cp {} {}", program::binary("warren")?.display(), warren.display());
    cluster.run_on(&cluster.chassis().rabbit, 0, &copy)?;
    let logs = |user: u32| {
        let words = format!(
            "WARREN_API=workloads://{} {} logs view 2>&1 || true",
            cluster.workloads_socket().display(),
            warren.display()
        );
        cluster.run_on(&cluster.chassis().rabbit, user, &words)
    };
    let (own, foreign) = (logs(flow.user)?, logs(flow.user + 1)?);
    ensure!(own.contains("seen") && !own.contains("error"), "the user's own logs: {own}");
    ensure!(foreign.contains("there are no containers of view"), "logs of another user: {foreign}");
    Ok(())
}

#[test]
fn a_container_sees_what_the_computes_write_and_outlives_its_agent() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() {
        return Ok(());
    }
    let podman = Podman::new();
    let mut flow = workflow_before_prerun(
        &podman,
        "view",
        &profile_with_init_container(&podman.image(), VIEW),
    )?;
    flow.reach("PreRun")?;
    let chassis = flow.fixture.run.cluster.chassis().clone();
    ensure!(listed_container(&flow)?["phase"] == "ready", "{:#}", listed_container(&flow)?);
    let running = |flow: &Flow| {
        let script = podman.program_on_a_node().display().to_string() + " ps --quiet --no-trunc";
        flow.fixture.run.cluster.run_on(&chassis.rabbit, 0, &script)
    };
    let before = running(&flow)?;
    ensure!(before.lines().count() == 2, "a container and its infra container: {before:?}");
    kill_agent(&flow)?;
    ensure!(running(&flow)? == before, "the agent started another container");
    let so_far = format!("{0}/view: viewer on {0}\n{0}/view: said before\n", chassis.rabbit);
    until("the agent to return the container's log so far", tests::cluster::PATIENCE, || {
        let log = flow.fixture.run.prints(&["logs", "view"])?;
        ensure!(log == so_far, "not yet: {log}");
        Ok(())
    })?;
    let (compute, _) = &chassis.computes[0];
    let path = flow.workflow()?["status"]["env"]["DW_JOB_scratch"].clone();
    let path = path.as_str().context("DW_JOB_scratch")?.to_owned();
    flow.run_on(
        compute,
        &format!(
            "printf %-4096s hello | dd of={path} bs=4096 iflag=fullblock oflag=direct status=none"
        ),
    )?;
    // Waits before the compute unmounts. The nodes of a test share /dev, so when a compute's agent takes the device
    // from the user, the user loses it on the rabbit too.
    until("the container to read the file of the compute", tests::cluster::PATIENCE, || {
        let log = flow.fixture.run.prints(&["logs", "view"])?;
        ensure!(log.contains("seen"), "not yet: {log}");
        Ok(())
    })?;
    only_their_user_sees_logs(&flow)?;
    flow.reach("PostRun")?;
    ensure!(listed_container(&flow)?["phase"] == "succeeded", "{:#}", listed_container(&flow)?);
    let log = flow.fixture.run.prints(&["logs", "view"])?;
    let rabbit = &chassis.rabbit;
    for line in ["viewer on", "node-0", "node-1", compute, "1050", "\"global\":0", "seen"] {
        let prefix = format!("{rabbit}/view: ");
        let mut printed = log.lines().filter_map(|text| text.strip_prefix(&prefix));
        let is_there = printed.any(|text| text.contains(line));
        ensure!(is_there, "{line:?} is not in {log}");
    }
    flow.reach("DataOut")?;
    flow.reach("Teardown")?;
    ensure!(running(&flow)?.is_empty() && podman.pods().is_empty(), "pods are left");
    flow.delete()?;
    flow.end()
}

#[test]
fn a_container_that_fails_ends_postrun_with_exit_code_and_log_and_leaves_nothing()
-> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() {
        return Ok(());
    }
    let podman = Podman::new();
    let mut flow = flow(&podman, "fails", "echo no input >&2; sleep 1; exit 3")?;
    flow.request_state("PostRun")?;
    let workflow = flow.wait("PostRun", "Error")?;
    let message = workflow["status"]["message"].as_str().context("a message")?;
    let words =
        "failed to run successfully after 1 attempts: container view exited with 3: no input";
    ensure!(message.contains(words), "{message}");
    ensure!(
        listed_container(&flow)?["why"] == "container view exited with 3: no input",
        "{:#}",
        listed_container(&flow)?
    );
    flow.reach("Teardown")?;
    ensure!(podman.pods().is_empty(), "pods are left");
    flow.delete()?;
    flow.end()
}

/// Returns a profile's entry for a job package.
fn job_package(name: &str, url: &str, bytes: &[u8], unpack: bool) -> Value {
    let digest = digest(&SHA256, bytes);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"name": name, "url": url, "sha256": digest, "size": bytes.len(), "unpack": unpack})
}

/// Returns a tar archive with a program.
fn tools() -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let script = b"#!/bin/sh\necho the tool runs\n";
    let mut header = tar::Header::new_gnu();
    header.set_size(script.len() as u64);
    header.set_mode(0o755);
    archive.append_data(&mut header, "bin/tool", &script[..])?;
    Ok(archive.into_inner()?)
}

#[test]
fn a_container_reads_its_job_packages_after_the_agent_was_killed_during_a_download()
-> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() {
        return Ok(());
    }
    let podman = Podman::new();
    let tools = tools()?;
    let archive = tools.clone();
    let (_let_go, held) = hold();
    // The server first answers 503. Its second answer stops in the middle of the archive, and there the agent is
    // killed. The third answer is complete.
    let server = FileServer::new(move |count, stream| match count {
        1 => say(stream, "503 Service Unavailable"),
        2 => {
            give(stream, archive.len(), &archive[..700]);
            held();
        }
        _ => give(stream, archive.len(), &archive),
    });
    let shared = tempfile::tempdir()?;
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o755))?;
    let path = shared.path().join("data");
    fs::write(&path, "shared data\n")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    let script = "ls /nnf/packages; cat /nnf/packages/data; /nnf/packages/tools/bin/tool";
    let mut profile = profile(&podman.image(), script);
    profile["data"]["packages"] = json!([
        job_package("data", &path.display().to_string(), b"shared data\n", false),
        job_package("tools", &server.url(), &tools, true),
    ]);
    let mut flow = workflow_before_prerun(&podman, "packs", &profile)?;
    flow.request_state("PreRun")?;
    until("the download of the archive to begin", tests::cluster::PATIENCE, || {
        ensure!(server.requests() == 2, "the agent sent {} requests", server.requests());
        Ok(())
    })?;
    ensure!(podman.pods().is_empty(), "the container was started before its job packages arrived");
    kill_agent(&flow)?;
    flow.wait("PreRun", "Completed")?;
    flow.reach("PostRun")?;
    let rabbit = flow.fixture.run.cluster.chassis().rabbit.clone();
    let log = flow.fixture.run.prints(&["logs", "packs"])?;
    for line in ["shared data", "the tool runs"] {
        ensure!(log.contains(&format!("{rabbit}/view: {line}\n")), "{line:?} is not in {log}");
    }
    ensure!(server.requests() == 3, "the agent sent {} requests", server.requests());
    let packages = flow.fixture.run.cluster.state_of(&rabbit).join("packages");
    ensure!(
        fs::read_dir(packages.join("ready"))?.count() == 2,
        "not exactly two job packages are ready"
    );
    flow.reach("DataOut")?;
    flow.reach("Teardown")?;
    for part in ["ready", "uses", "fetching"] {
        ensure!(fs::read_dir(packages.join(part))?.next().is_none(), "{part} is not empty");
    }
    flow.delete()?;
    flow.end()
}

#[test]
fn a_job_package_with_a_wrong_checksum_fails_prerun_and_starts_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() {
        return Ok(());
    }
    let podman = Podman::new();
    let server = FileServer::serving(b"another file");
    let mut profile = profile(&podman.image(), "true");
    profile["data"]["packages"] =
        json!([job_package("data", &server.url(), b"what was meant", false)]);
    profile["data"]["packages"][0]["size"] = json!(12);
    let mut flow = workflow_before_prerun(&podman, "wrong", &profile)?;
    flow.request_state("PreRun")?;
    let workflow = flow.wait("PreRun", "Error")?;
    let message = workflow["status"]["message"].as_str().context("a message")?;
    let rabbit = flow.fixture.run.cluster.chassis().rabbit.clone();
    let begin =
        format!("containers on {rabbit} were not started: job package data from {}", server.url());
    ensure!(
        message.contains(&begin) && message.contains("the SHA-256 of the file is"),
        "{message}"
    );
    ensure!(listed_container(&flow)?["phase"] == "not started", "{:#}", listed_container(&flow)?);
    ensure!(podman.pods().is_empty(), "something was started");
    flow.reach("Teardown")?;
    flow.delete()?;
    flow.end()
}
