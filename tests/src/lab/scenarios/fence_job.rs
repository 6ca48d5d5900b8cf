use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    centre::Job,
    cluster::patience,
    lab::{
        Bench, checksum,
        cluster::{Cluster, Fencing},
        functions::{self, unallocated},
        system::{FENCE, MOUNT_ROOT, System},
    },
    program::until,
    run::{Machines, Run, Silent},
};

use super::{
    Scenario,
    fence::{HOLD, wait_for_fencing},
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fence-job",
    about: "a compute hangs while it holds a GFS2 lock: our rabbit-agent fences it on request, the rabbit and the other compute work on",
    run,
};

const STEP: Duration = Duration::from_secs(300);

const DRIVES: usize = 2;

/// Name of the compute that is lost.
const DEAD: &str = "compute-0";
const ALIVE: &str = "compute-1";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut cluster = Cluster::boot_bare(bench, 2, DRIVES, Fencing::Acknowledged)?;
    let empty = unallocated(&mut cluster.rabbit, 0..DRIVES)?;
    let job = Job { capacity: 200 << 20, ..Job::new(1, "gfs2", MOUNT_ROOT) };
    let mut run = Run { cluster: System::start(cluster)?, job, narrator: Silent, patient: false };
    let outcome = story(&mut run, &empty);
    outcome.map_err(|error| run.cluster.explained(error))
}

fn story(run: &mut Run<Silent, System>, empty: &[u64]) -> anyhow::Result<()> {
    run.describe_system()?;
    run.carve_and_mount()?;
    run.mount_on_rabbit()?;
    let (here, there) = (run.job.mount_path(), format!("{}/node-0", run.job.mount_path()));
    let synced = run.cluster.run(DEAD, &checksum::write(&format!("{here}/synced"), 20))?;
    let hold = format!("MOUNT={here}\n{HOLD}");
    let holding = run.cluster.guest(DEAD).start(&hold)?;
    run.cluster.guest(DEAD).wait_for_print(holding, "\n3\n", STEP)?;
    run.cluster.guest(DEAD).freeze()?;
    let written = run.cluster.guest(DEAD).printed(holding)?.lines().count();

    let want = format!("flock {there}/lock sh -c 'echo got it; wc -l < {there}/log'");
    let blocked = run.cluster.guest("rabbit").start(&want)?;
    run.cluster.run("rabbit", &wait_for_fencing(2))?;
    let early = run.cluster.guest("rabbit").printed(blocked)?;
    ensure!(early.is_empty(), "the rabbit had the lock of a node that nobody had fenced");

    let answer = fence(run)?;
    ensure!(answer["success"] == true && answer["action_performed"] == "off", "{answer}");
    let output = run.cluster.guest("rabbit").finish(blocked, STEP)?;
    let (_, lines) = output.trim_end().rsplit_once('\n').unwrap_or_default();
    let lines: usize = lines.trim().parse().unwrap_or(0);
    ensure!(lines >= written, "the compute had synced {written} lines, the rabbit reads {output}");
    let back = run.cluster.run("rabbit", &checksum::read(&format!("{there}/synced")))?;
    ensure!(back == synced, "the compute wrote {synced}, the rabbit reads {back}");
    check_fenced(run)?;

    // Checks that the other compute lost no data and can still write.
    let own = run.cluster.run(ALIVE, &checksum::write(&format!("{here}/own"), 8))?;
    let read = checksum::read(&format!("{}/node-1/own", run.job.mount_path()));
    let back = run.cluster.run("rabbit", &read)?;
    ensure!(back == own, "{ALIVE} wrote {own}, the rabbit reads {back}");
    end_job(run)?;
    let left = unallocated(&mut run.cluster.guest("rabbit"), 0..DRIVES)?;
    ensure!(left == *empty, "drives had {empty:?} bytes left, and now {left:?}");
    lost_compute_has_nothing(run)
}

/// Requests the fence as the cluster's fence agent does, and waits for the answer.
fn fence(run: &Run<Silent, System>) -> anyhow::Result<Value> {
    let id = "0b9b8c1e-6d0f-4f0e-9a53-000000000001";
    let body = json!({
        "request_id": id, "timestamp": "2026-06-01T07:12:09+00:00", "action": "off",
        "target_node": DEAD, "recorder_node": "rabbit"
    });
    let ask = format!(
        "cd {FENCE}\necho '{body}' > requests/.new\nmv requests/.new requests/{DEAD}-{id}.json
         for try in $(seq 600); do [ -e responses/{DEAD}-{id}.json ] && exec cat responses/{DEAD}-{id}.json; sleep 0.2; done
         echo 'the agent has not answered' >&2; exit 1"
    );
    serde_json::from_str(&run.cluster.run("rabbit", &ask)?).context("decode the answer")
}

fn check_fenced(run: &Run<Silent, System>) -> anyhow::Result<()> {
    until("the NnfNode to report the compute as Fenced", patience(), || {
        let text = run.prints(&["get", "nnfnode", "nnf-nlc", "-n", "rabbit", "--json"])?;
        let node: Value = serde_json::from_str(&text)?;
        let servers = node["status"]["servers"].as_array().cloned().unwrap_or_default();
        let dead =
            servers.iter().find(|server| server["hostname"] == DEAD).context("no such server")?;
        ensure!(dead["status"] == "Fenced", "{dead}");
        Ok(())
    })
}

/// Lets the lost compute continue as if nothing had happened, and checks that it has no namespace that
/// it could write to.
fn lost_compute_has_nothing(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let mut dead = run.cluster.guest(DEAD);
    dead.thaw()?;
    let namespaces = dead.run(functions::LIST_NAMESPACES, STEP)?;
    ensure!(namespaces.is_empty(), "the fenced compute still has {namespaces}");
    Ok(())
}

/// Ends the job without the lost compute, and checks that no step waits for it and that the rabbit keeps
/// nothing of the job.
fn end_job(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.desire(ALIVE, "unmounted")?;
    let mount = format!("clientmount/{}", run.job.computes_mount());
    run.warren(&["wait", &mount, "-n", ALIVE, "--for", "unmounted", "--timeout", "300s"])?;
    run.warren(&["delete", &mount, "-n", ALIVE])?;
    let chassis = run.cluster.chassis().clone();
    run.apply("withdraw", &[run.job.block_storage(&chassis, false)])?;
    run.tear_down()
}
