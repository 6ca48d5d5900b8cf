//! A rabbit that is a node of a real Kubernetes cluster, and its compute.

mod job;
mod mpi;

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    centre::Job,
    cluster::patience,
    lab::{
        Bench, Machine,
        cluster::Cluster,
        functions::unallocated,
        kubernetes::{install, nothing_is_left, pods},
        system::{MOUNT_ROOT, System},
    },
    program::until,
    run::{Run, Silent},
    workflow,
};

pub(super) use self::{job::SCENARIO as JOB, mpi::SCENARIO as MPI};

const DRIVES: usize = 2;
/// Deadline of a state of a workflow.
const STATE: Duration = Duration::from_secs(900);
/// Deadline of the command that waits for the state. It is longer than [`STATE`], so that the command can give up by
/// itself and print the reason.
const COMMAND: Duration = Duration::from_secs(960);

const RABBIT: &str = "rabbit-1";
const COMPUTE: &str = "compute-1";
const USER: u32 = 1050;

/// Runs `story` on a rabbit that is the only node of a cluster, and checks that nothing of the story is left. `prepare`
/// installs additional files that the story needs on the node.
fn run_story(
    bench: &Bench,
    prepare: impl FnOnce(&mut Cluster) -> anyhow::Result<()>,
    story: impl FnOnce(&mut Run<Silent, System>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // The memory also holds the root file system, programs, images and containers.
    let rabbit = Machine { memory: 4096, systemd: true, ..Machine::rabbit(DRIVES) };
    let mut clusters = Cluster::boot_pairs(bench, 1, &rabbit)?;
    let mut cluster = clusters.remove(0);
    let empty = unallocated(&mut cluster.rabbit, 0..DRIVES)?;
    install(bench, &mut cluster)?;
    prepare(&mut cluster)?;
    let unused = Job::new(1, "gfs2", MOUNT_ROOT);
    let system = System::start_on_kubernetes(cluster)?;
    let mut run = Run { cluster: system, job: unused, narrator: Silent, patient: false };
    let outcome = begin(&mut run, story).and_then(|()| is_as_before(&run, &empty));
    outcome.map_err(|error| run.cluster.explained(error))
}

fn begin(
    run: &mut Run<Silent, System>,
    story: impl FnOnce(&mut Run<Silent, System>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    run.describe_system()?;
    workflow::wait_until_ready(run, RABBIT)?;
    story(run)
}

fn profile(name: &str, mut data: Value) -> Value {
    data["retryLimit"] = json!(0);
    for limit in ["preRunTimeoutSeconds", "postRunTimeoutSeconds"] {
        data[limit] = json!(STATE.as_secs());
    }
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfContainerProfile",
        "metadata": {"name": name, "namespace": "nnf-system"}, "data": data,
    })
}

fn create(run: &mut Run<Silent, System>, name: &str, directives: &[&str]) -> anyhow::Result<()> {
    let owner = USER.to_string();
    let create = ["workflow", "create", "--name", name, "--user", &owner, "--group", &owner];
    run.warren(&[&create[..], directives].concat())
}

/// Requests a state of a workflow, and waits until it is complete.
fn advance(run: &Run<Silent, System>, name: &str, state: &str) -> anyhow::Result<()> {
    let timeout = format!("{}s", STATE.as_secs());
    let words = ["workflow", "advance", name, "--to", state, "--timeout", &timeout];
    let computes: &[&str] = if state == "PreRun" { &["--nodes", COMPUTE] } else { &[] };
    let script = run.cluster.warren(&[&words[..], computes].concat());
    let advanced = run.cluster.guest(RABBIT).run(&script, COMMAND);
    advanced.map(drop).with_context(|| {
        let shown = ["containers", "logs"].map(|verb| run.prints(&[verb, name]));
        let shown = shown.map(|shown| shown.unwrap_or_else(|error| format!("{error:#}\n")));
        format!("{}{:?}", shown.concat(), pods(&run.cluster, RABBIT))
    })
}

/// Returns the environment variables that the workflow gives the job.
fn environment(run: &Run<Silent, System>, name: &str) -> anyhow::Result<Value> {
    let text = run.prints(&["get", "workflow", name, "-n", "default", "--json"])?;
    let mut workflow: Value = serde_json::from_str(&text).context("decode the Workflow")?;
    Ok(workflow["status"]["env"].take())
}

/// Checks that `number` pods run on the rabbit, each with an address from the kubelet.
fn are_pods(system: &System, number: usize) -> anyhow::Result<()> {
    let pods = pods(system, RABBIT)?;
    ensure!(pods.len() == number, "not {number} pods: {pods:#?}");
    for pod in pods {
        ensure!(pod["spec"]["nodeName"] == RABBIT, "{:#}", pod["spec"]);
        let status = &pod["status"];
        let id = status["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
        ensure!(id.starts_with("containerd://") && status["podIP"].is_string(), "{status:#}");
    }
    Ok(())
}

/// Writes on the compute as a job does, a file that gets its final name when it is complete. Then reads, on the
/// compute, the containers' answer, which must come from `who` and belong to the job's user.
fn containers_answer(
    run: &Run<Silent, System>,
    environment: &Value,
    who: &str,
) -> anyhow::Result<()> {
    let storage = environment["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")?;
    let script = format!(
        "cd {storage}; echo written on {COMPUTE} > new; sync new; mv new hello
         for try in $(seq 600); do [ ! -e answer ] || break; sleep 0.5; done
         cat answer; stat -c %u:%g answer"
    );
    let read = run.cluster.guest(COMPUTE).run(&as_user(&script), STATE)?;
    let expected = format!("written by {who}\n{USER}:{USER}\n");
    ensure!(read == expected, "the compute reads {read:?}, not {expected:?}");
    Ok(())
}

fn as_user(script: &str) -> String {
    format!("setpriv --reuid {USER} --regid {USER} --clear-groups sh -e <<'END'\n{script}\nEND\n")
}

/// Checks that no object of the workflow is left in the API, no container, and nothing of the job on
/// the nodes and drives.
fn is_as_before(run: &Run<Silent, System>, empty: &[u64]) -> anyhow::Result<()> {
    until("no object to be left", patience(), || {
        let left = workflow::remaining_objects(run)?;
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })?;
    // Once a minute, a kubelet removes containers that are no longer needed.
    until("nothing of pods to be left", patience(), || nothing_is_left(&run.cluster, RABBIT))?;
    run.cluster.until_empty()?;
    let left = unallocated(&mut run.cluster.guest(RABBIT), 0..DRIVES)?;
    ensure!(left == *empty, "the drives had {empty:?} bytes left, and now {left:?}");
    Ok(())
}
