//! Containers beside a rabbit's data by a real kubelet: what a cluster without kubelets cannot show.

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
        kubernetes::{IMAGE, install, nothing_is_left, pods},
        system::{MOUNT_ROOT, System},
    },
    program::until,
    run::{Machines, Run, Silent},
    workflow,
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "kubernetes-job",
    about: "a rabbit that is a node of a real Kubernetes cluster, and its compute: kubelet and containerd run a container beside the job's GFS2",
    run,
};

const DRIVES: usize = 2;
/// For a state of a workflow.
const STATE: Duration = Duration::from_secs(900);
/// For the command that waits for it, which tells why it gives up.
const COMMAND: Duration = Duration::from_secs(960);

const RABBIT: &str = "rabbit-1";
const COMPUTE: &str = "compute-1";
const USER: u32 = 1050;

const DIRECTIVES: [&str; 2] = [
    "#DW jobdw type=gfs2 capacity=512MiB name=scratch",
    "#DW container name=view profile=view DW_JOB_scratch=scratch",
];
const FAILS: [&str; 1] = ["#DW container name=fails profile=fails"];

/// Tells where it is, as whom and with which limits and rights; reads by every name in the index tree what the compute writes there,
/// once it does; answers in the same file system; and ends with what a program on the compute sends to its port.
const VIEW: &str = r#"
read -r kernel < /proc/sys/kernel/random/boot_id
read -r memory < /sys/fs/cgroup/memory.max
read -r quota period < /sys/fs/cgroup/cpu.max
while read -r name value; do
    case $name in CapBnd: | NoNewPrivs:) rights="${rights-}, $name $value" ;; esac
done < /proc/self/status
[ -e /var/run/secrets ] && token=yes || token=none
echo "$NNF_NODE_NAME, kernel $kernel, $(id -un) $(id -u):$(id -g), memory $memory, cpu $quota/$period$rights, token $token"
for each in "$DW_JOB_scratch"/*; do
    until read -r said < "$each/hello"; do sleep 1; done 2>/dev/null
    echo "${each##*/}: $said"
done
echo "written by a container on $NNF_NODE_NAME" > "$DW_JOB_scratch/node-0/new"
mv "$DW_JOB_scratch/node-0/new" "$DW_JOB_scratch/node-0/answer"
echo "port: $(socat -u TCP-LISTEN:$NNF_CONTAINER_PORTS STDOUT)"
"#;

/// Bytes that the container may use, beside nine tenths of a processor.
const LIMIT: u64 = 64 << 20;

fn run(bench: &Bench) -> anyhow::Result<()> {
    // The root, programs, images and containers lie in the rabbit's memory too.
    let rabbit = Machine { memory: 4096, systemd: true, ..Machine::rabbit(DRIVES) };
    let mut clusters = Cluster::boot_pairs(bench, 1, &rabbit)?;
    let mut cluster = clusters.remove(0);
    let empty = unallocated(&mut cluster.rabbit, 0..DRIVES)?;
    install(bench, &mut cluster)?;
    let unused = Job::new(1, "gfs2", MOUNT_ROOT);
    let system = System::start_on_kubernetes(cluster)?;
    let mut run = Run { cluster: system, job: unused, narrator: Silent, patient: false };
    let outcome = story(&mut run).and_then(|()| is_as_before(&run, &empty));
    outcome.map_err(|error| run.cluster.explained(error))
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.describe_system()?;
    workflow::wait_until_ready(run, RABBIT)?;
    run.apply("profiles", &[view(), fails()])?;
    works(run)?;
    tells_how_it_failed(run)
}

/// One that does what it is to do, from first to last.
fn works(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    create(run, "view", &DIRECTIVES)?;
    advance(run, "view", "PreRun")?;
    is_a_pod(&run.cluster)?;
    let environment = environment(run, "view")?;
    let variable =
        |name: &str| environment[name].as_str().map(str::to_owned).with_context(|| name.to_owned());
    is_answered(run, &variable("DW_JOB_scratch")?)?;
    let sends = format!(
        "echo by the port | socat -u - TCP:{}:{},retry=60,interval=1",
        variable("NNF_CONTAINER_HOSTNAMES")?,
        variable("NNF_CONTAINER_PORTS")?
    );
    run.cluster.run_on(COMPUTE, USER, &sends)?;
    advance(run, "view", "PostRun")?;
    told(run)?;
    advance(run, "view", "Teardown")?;
    run.warren(&["workflow", "delete", "view"])
}

/// One that fails: its exit code and the end of its log are what the kubelet knows of it.
fn tells_how_it_failed(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    create(run, "fails", &FAILS)?;
    advance(run, "fails", "PreRun")?;
    let refused = advance(run, "fails", "PostRun").err().context("PostRun has no error")?;
    let why =
        "failed to run successfully after 1 attempts: container fails exited with 3: no input";
    ensure!(format!("{refused:#}").contains(why), "not {why:?}: {refused:#}");
    run.warren(&["workflow", "teardown", "fails"])?;
    run.warren(&["workflow", "delete", "fails"])
}

fn view() -> Value {
    let container = json!({
        "name": "view", "image": IMAGE, "command": ["sh", "-ec", VIEW],
        "resources": {"limits": {"cpu": "900m", "memory": LIMIT.to_string()}},
    });
    profile(
        "view",
        json!({
            "storages": [{"name": "DW_JOB_scratch"}], "numPorts": 1, "spec": {"containers": [container]},
        }),
    )
}

fn fails() -> Value {
    let command = json!(["sh", "-c", "echo no input >&2; exit 3"]);
    let container = json!({"name": "fails", "image": IMAGE, "command": command});
    profile("fails", json!({"spec": {"containers": [container]}}))
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

/// Brings a workflow to the end of a state.
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

/// What the workflow tells the job.
fn environment(run: &Run<Silent, System>, name: &str) -> anyhow::Result<Value> {
    let text = run.prints(&["get", "workflow", name, "-n", "default", "--json"])?;
    let mut workflow: Value = serde_json::from_str(&text).context("decode the Workflow")?;
    Ok(workflow["status"]["env"].take())
}

/// The pod runs on the rabbit; a kubelet gave it an address.
fn is_a_pod(system: &System) -> anyhow::Result<()> {
    let pods = pods(system, RABBIT)?;
    let [pod] = &pods[..] else { anyhow::bail!("not one pod: {pods:#?}") };
    ensure!(pod["spec"]["nodeName"] == RABBIT, "{:#}", pod["spec"]);
    let status = &pod["status"];
    let id = status["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    ensure!(id.starts_with("containerd://") && status["podIP"].is_string(), "{status:#}");
    Ok(())
}

/// Writes on the compute as a job does, a file that nobody sees before it is whole, and reads there what the container answers, as
/// the job's user.
fn is_answered(run: &Run<Silent, System>, storage: &str) -> anyhow::Result<()> {
    let script = format!(
        "cd {storage}; echo written on {COMPUTE} > new; sync new; mv new hello
         for try in $(seq 600); do [ ! -e answer ] || break; sleep 0.5; done
         cat answer; stat -c %u:%g answer"
    );
    let read = run.cluster.guest(COMPUTE).run(&as_user(&script), STATE)?;
    let expected = format!("written by a container on {RABBIT}\n{USER}:{USER}\n");
    ensure!(read == expected, "the compute reads {read:?}, not {expected:?}");
    Ok(())
}

fn as_user(script: &str) -> String {
    format!("setpriv --reuid {USER} --regid {USER} --clear-groups sh -e <<'END'\n{script}\nEND\n")
}

/// Its log, line for line.
fn told(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let kernel = run.cluster.run(RABBIT, "cat /proc/sys/kernel/random/boot_id")?;
    let kernel = kernel.trim();
    let lines = [
        format!(
            "{RABBIT}, kernel {kernel}, user {USER}:{USER}, memory {LIMIT}, cpu 90000/100000, \
             CapBnd: 0000000000000000, NoNewPrivs: 1, token none"
        ),
        format!("{COMPUTE}: written on {COMPUTE}"),
        format!("node-0: written on {COMPUTE}"),
        "port: by the port".to_owned(),
    ];
    let expected: String = lines.iter().map(|line| format!("{RABBIT}/view: {line}\n")).collect();
    let logs = run.prints(&["logs", "view"])?;
    ensure!(logs == expected, "the log is\n{logs}and not\n{expected}");
    let shown = run.prints(&["containers", "view", "--json"])?;
    let shown: Value = serde_json::from_str(&shown).context("decode what warren shows")?;
    ensure!(shown[0]["phase"] == "succeeded" && shown[0]["retries"] == 0, "{shown:#}");
    Ok(())
}

/// Nothing is left: in the API, of containers, on the nodes and on the drives.
fn is_as_before(run: &Run<Silent, System>, empty: &[u64]) -> anyhow::Result<()> {
    until("no object to be left", patience(), || {
        let left = workflow::left(run)?;
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })?;
    // A kubelet looks once a minute for containers that nobody needs.
    until("nothing of pods to be left", patience(), || nothing_is_left(&run.cluster, RABBIT))?;
    run.cluster.until_empty()?;
    let left = unallocated(&mut run.cluster.guest(RABBIT), 0..DRIVES)?;
    ensure!(left == *empty, "the drives had {empty:?} bytes left, and now {left:?}");
    Ok(())
}
