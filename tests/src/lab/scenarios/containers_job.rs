//! MPI ranks on two rabbits, which have the data, without Kubernetes. The scenario shows effects that the test of
//! docs/use/containers.md cannot show, since the rabbits of that test share one kernel.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    centre::Job,
    cluster::patience,
    lab::{
        Bench, Machine,
        cluster::Cluster,
        containers::{IMAGE, install, make_image, nothing_is_left},
        functions::unallocated,
        system::{MOUNT_ROOT, System},
    },
    program::until,
    run::{Machines, Run, Silent},
    workflow,
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "containers-job",
    about: "two rabbits, a compute at each, no Kubernetes: Open MPI's ranks on both rabbits, in podman, read what the computes write",
    run,
};

const DRIVES: usize = 2;
/// Deadline of a state of the workflow. It is long because each call of podman takes seconds.
const STATE: Duration = Duration::from_secs(1200);
/// Deadline of the command that waits for the state. It is longer than [`STATE`], so that the command can give up by
/// itself and print the reason.
const COMMAND: Duration = Duration::from_secs(1260);

const RABBITS: [&str; 2] = ["rabbit-1", "rabbit-2"];
const COMPUTES: [&str; 2] = ["compute-1", "compute-2"];
const USER: u32 = 1050;

const DIRECTIVES: [&str; 3] = [
    "#DW jobdw type=gfs2 capacity=512MiB name=scratch",
    "#DW jobdw type=raw capacity=64MiB name=disk",
    "#DW container name=ranks profile=ranks DW_JOB_scratch=scratch DW_JOB_disk=disk",
];

/// Script of the job. First two ranks, one on each rabbit, send each other messages. Then each rank prints its host,
/// its kernel and its limits. Each rank waits for a compute to write, and reads a file and the first line of a device,
/// by all names that the rabbit's directories have for them.
const LAUNCH: &str =
    "mpirun -np 2 --map-by ppr:1:node NPopenmpi -u 256 -n 5 -o /dev/null && mpirun sh /bin/ranks";
const RANKS: &str = r#"
read -r kernel < /proc/sys/kernel/random/boot_id
read -r memory < /sys/fs/cgroup/memory.max
read -r quota period < /sys/fs/cgroup/cpu.max
for each in "$DW_JOB_scratch"/*; do
    until read -r greeting < "$each/hello"; do sleep 1; done 2>/dev/null
    read -r block < "$DW_JOB_disk/${each##*/}"
    echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, $(hostname) on $NNF_NODE_NAME, kernel $kernel, memory $memory, cpu $quota/$period, ${each##*/}: $greeting, $block"
done
"#;

/// Bytes of memory that each worker may use. It may also use nine tenths of a processor.
const LIMIT: u64 = 512 << 20;

fn run(bench: &Bench) -> anyhow::Result<()> {
    // The memory also holds the root file system, the images and the containers. systemd makes the control groups of
    // pods: in a control group that podman 4.3 makes itself, no process may create /dev/null.
    let rabbit = Machine { memory: 1536, processors: 1, systemd: true, ..Machine::rabbit(DRIVES) };
    let mut clusters = Cluster::boot_pairs(bench, 2, &rabbit)?;
    let empty = clusters.iter_mut().map(|cluster| unallocated(&mut cluster.rabbit, 0..DRIVES));
    let empty = empty.collect::<anyhow::Result<Vec<_>>>()?;
    install(&mut clusters)?;
    let unused = Job::new(1, "gfs2", MOUNT_ROOT);
    let system = System::start_all(clusters)?;
    let mut run = Run { cluster: system, job: unused, narrator: Silent, patient: false };
    let outcome = story(&mut run).and_then(|()| is_as_before(&run, &empty));
    outcome.map_err(|error| run.cluster.explained(error))
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.describe_system()?;
    for rabbit in RABBITS {
        workflow::wait_until_ready(run, rabbit)?;
    }
    make_image(&run.cluster, RABBITS, RANKS)?;
    run.apply("profile", &[profile()])?;
    let owner = USER.to_string();
    let create = ["workflow", "create", "--name", "ranks", "--user", &owner, "--group", &owner];
    run.warren(&[&create[..], &DIRECTIVES].concat())?;
    advance(run, "PreRun")?;
    let running = containers_run(&run.cluster)?;
    for rabbit in RABBITS {
        run.cluster.run(rabbit, "systemctl restart warren-rabbit-agent")?;
    }
    let after = containers_run(&run.cluster)?;
    ensure!(after == running, "restarted agents had {running:?}, and have {after:?}");
    for compute in COMPUTES {
        write(run, compute)?;
    }
    // The ranks have ended when PostRun is complete.
    advance(run, "PostRun")?;
    read(run)?;
    advance(run, "Teardown")?;
    run.warren(&["workflow", "delete", "ranks"])
}

fn profile() -> Value {
    let container = json!({"name": "mpi", "image": IMAGE});
    let mut launcher = container.clone();
    launcher["command"] = json!(["sh", "-c", LAUNCH]);
    let mut worker = container;
    worker["resources"] = json!({"limits": {"cpu": "900m", "memory": LIMIT.to_string()}});
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfContainerProfile",
        "metadata": {"name": "ranks", "namespace": "nnf-system"},
        "data": {
            "storages": [{"name": "DW_JOB_scratch"}, {"name": "DW_JOB_disk"}], "retryLimit": 0,
            "preRunTimeoutSeconds": STATE.as_secs(), "postRunTimeoutSeconds": STATE.as_secs(),
            "mpiSpec": {
                "slotsPerWorker": 2, "launcher": {"containers": [launcher]}, "worker": {"containers": [worker]},
            },
        },
    })
}

/// Requests a state of the workflow, and waits until it is complete.
fn advance(run: &Run<Silent, System>, state: &str) -> anyhow::Result<()> {
    let timeout = format!("{}s", STATE.as_secs());
    let words = ["workflow", "advance", "ranks", "--to", state, "--timeout", &timeout];
    let computes: &[&str] = if state == "PreRun" { &["--nodes", "compute-[1-2]"] } else { &[] };
    let script = run.cluster.warren(&[&words[..], computes].concat());
    let advanced = run.cluster.guest(RABBITS[0]).run(&script, COMMAND);
    advanced.map(drop).with_context(|| describe(run))
}

/// Returns the output of `warren containers`, for error messages.
fn describe(run: &Run<Silent, System>) -> String {
    let verbs = [&["containers", "ranks"][..], &["logs", "ranks"], &["workflow", "show", "ranks"]];
    let printed =
        verbs.map(|words| run.prints(words).unwrap_or_else(|error| format!("{error:#}\n")));
    printed.concat()
}

/// Checks that the launcher and a worker run on the first rabbit, and a worker on the other. Returns their
/// names and start times.
fn containers_run(system: &System) -> anyhow::Result<[String; 2]> {
    let mut all = [const { String::new() }; 2];
    for (place, (rabbit, containers)) in RABBITS.into_iter().zip([2, 1]).enumerate() {
        let running =
            system.run(rabbit, "podman ps --sort names --format '{{.StartedAt}} {{.Names}}'")?;
        let own = running.lines().filter(|line| line.ends_with("-mpi")).count();
        ensure!(own == containers, "not {containers} containers on {rabbit}: {running}");
        all[place] = running;
    }
    Ok(all)
}

/// Returns the line that a compute's user writes into the job's storage.
fn words(compute: &str) -> String {
    format!("written on {compute}")
}

/// Writes as a job does: first to the device, then a file, which gets its final name when it is complete.
fn write(run: &Run<Silent, System>, compute: &str) -> anyhow::Result<()> {
    let text = run.prints(&["get", "workflow", "ranks", "-n", "default", "--json"])?;
    let workflow: Value = serde_json::from_str(&text).context("decode the Workflow")?;
    let path = |name| workflow["status"]["env"][name].as_str().context(name);
    let (directory, disk, line) = (path("DW_JOB_scratch")?, path("DW_JOB_disk")?, words(compute));
    let script = format!(
        "echo '{line}' | dd of={disk} bs=4096 conv=sync,fsync 2>/dev/null\n\
         cd {directory}; echo '{line}' > new; sync new; mv new hello"
    );
    run.cluster.run_on(compute, USER, &script).map(drop)
}

/// Checks that ranks 0 and 1 ran on the first rabbit's kernel and ranks 2 and 3 on the second's, and that each rank
/// read the line from its rabbit's compute.
fn read(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let logs = run.prints(&["logs", "ranks"])?;
    let expect_line = |line: &str| {
        let line = format!("rabbit-1/launcher/mpi: {line}");
        ensure!(logs.lines().any(|printed| printed == line), "no {line:?} in {logs}");
        Ok(())
    };
    for (place, (rabbit, compute)) in RABBITS.into_iter().zip(COMPUTES).enumerate() {
        let kernel = run.cluster.run(rabbit, "cat /proc/sys/kernel/random/boot_id")?;
        let (kernel, host) = (kernel.trim(), format!("ranks-worker-{place}"));
        // This line comes from the ranks that sent each other messages.
        expect_line(&format!("{place}: {host}"))?;
        for rank in [2 * place, 2 * place + 1] {
            let who = format!(
                "rank {rank} of 4, {host} on {rabbit}, kernel {kernel}, memory {LIMIT}, cpu 90000/100000"
            );
            for name in ["node-0", compute] {
                expect_line(&format!("{who}, {name}: {0}, {0}", words(compute)))?;
            }
        }
    }
    // This line of the benchmark is about the largest message.
    ensure!(logs.contains(" 256 bytes "), "no message of 256 bytes: {logs}");
    let reports = logs.lines().filter(|line| line.contains(": rank ")).count();
    ensure!(reports == 8, "not 4 ranks with a directory and a link each: {logs}");
    Ok(())
}

/// Checks that no object of the workflow is left in the API, no container, and nothing of the job on
/// the nodes and drives.
fn is_as_before(run: &Run<Silent, System>, empty: &[Vec<u64>]) -> anyhow::Result<()> {
    until("no object to be left", patience(), || {
        let left = workflow::remaining_objects(run)?;
        ensure!(left.is_empty(), "left: {left:?}");
        for kind in ["nodecontainers", "secret"] {
            let shown = run.prints(&["get", kind, "--all-namespaces", "--json"])?;
            ensure!(!shown.contains("ranks"), "left: {shown}");
        }
        Ok(())
    })?;
    run.cluster.until_empty()?;
    for (rabbit, empty) in RABBITS.into_iter().zip(empty) {
        nothing_is_left(&run.cluster, rabbit)?;
        let left = unallocated(&mut run.cluster.guest(rabbit), 0..DRIVES)?;
        ensure!(left == *empty, "{rabbit}'s drives had {empty:?} bytes left, and now {left:?}");
    }
    Ok(())
}
