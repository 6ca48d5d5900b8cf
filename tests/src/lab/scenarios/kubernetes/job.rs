//! Containers on a rabbit with the job's data, run by a real kubelet. The scenario shows effects that a cluster
//! without kubelets cannot show.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    lab::{
        Bench,
        kubernetes::{IMAGE, kubectl, policies::stranger},
        scenarios::Scenario,
        system::System,
    },
    run::{Machines, Run, Silent},
};

use super::{
    COMPUTE, RABBIT, USER, advance, are_pods, containers_answer, create, environment, profile,
    run_story,
};

pub(in super::super) const SCENARIO: Scenario = Scenario {
    name: "kubernetes-job",
    about: "a rabbit that is a node of a real Kubernetes cluster, and its compute: kubelet and containerd run a container beside the job's GFS2 and raw device",
    run,
};

const DIRECTIVES: [&str; 3] = [
    "#DW jobdw type=gfs2 capacity=512MiB name=scratch",
    "#DW jobdw type=raw capacity=64MiB name=disk",
    "#DW container name=view profile=view DW_JOB_scratch=scratch DW_JOB_disk=disk",
];
const FAILS: [&str; 1] = ["#DW container name=fails profile=fails"];

/// Script of the container. It prints its host, user, limits and rights. It waits for the compute to write, and reads a
/// file and the first block of a device, each by all names that the rabbit's directories have for them. It writes an
/// answer to both, and at last prints the text that a program on the compute sends to the container's port.
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
    until read -r greeting < "$each/hello"; do sleep 1; done 2>/dev/null
    dd if="$DW_JOB_disk/${each##*/}" bs=4096 count=1 iflag=direct 2>/dev/null |
        { read -r block; echo "${each##*/}: $greeting, $block"; }
done
echo "written by a container" | dd of="$DW_JOB_disk/node-0" bs=4096 seek=1 conv=sync oflag=direct 2>/dev/null
echo "written by a container on $NNF_NODE_NAME" > "$DW_JOB_scratch/node-0/new"
mv "$DW_JOB_scratch/node-0/new" "$DW_JOB_scratch/node-0/answer"
echo "port: $(socat -u TCP-LISTEN:$NNF_CONTAINER_PORTS STDOUT)"
"#;

/// Bytes of memory that the container may use. It may also use nine tenths of a processor.
const LIMIT: u64 = 64 << 20;

fn run(bench: &Bench) -> anyhow::Result<()> {
    run_story(bench, |_| Ok(()), story)
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.apply("profiles", &[view(), fails()])?;
    container_succeeds(run)?;
    failure_is_reported(run)
}

/// Runs a container that succeeds, from first to last.
fn container_succeeds(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    create(run, "view", &DIRECTIVES)?;
    advance(run, "view", "PreRun")?;
    are_pods(&run.cluster, 1)?;
    let environment = environment(run, "view")?;
    let variable =
        |name: &str| environment[name].as_str().map(str::to_owned).with_context(|| name.to_owned());
    let disk = variable("DW_JOB_disk")?;
    let writes =
        format!("echo 'on the disk' | dd of={disk} bs=4096 conv=sync oflag=direct 2>/dev/null");
    run.cluster.run_on(COMPUTE, USER, &writes)?;
    containers_answer(run, &environment, &format!("a container on {RABBIT}"))?;
    let reads = format!("dd if={disk} bs=4096 skip=1 count=1 iflag=direct 2>/dev/null | head -n 1");
    let read = run.cluster.run_on(COMPUTE, USER, &reads)?;
    ensure!(read == "written by a container\n", "the compute reads {read:?} from its device");
    let sends = format!(
        "echo by the port | socat -u - TCP:{}:{},retry=60,interval=1",
        variable("NNF_CONTAINER_HOSTNAMES")?,
        variable("NNF_CONTAINER_PORTS")?
    );
    strangers_are_kept_out(&run.cluster, &variable("NNF_CONTAINER_PORTS")?)?;
    run.cluster.run_on(COMPUTE, USER, &sends)?;
    advance(run, "view", "PostRun")?;
    check_log(run)?;
    advance(run, "view", "Teardown")?;
    run.warren(&["workflow", "delete", "view"])
}

/// Checks that a pod of another user reaches no port of the container. The pod calls the port next to the container's:
/// at the container's own port, the program accepts only one connection, which must be the compute's.
fn strangers_are_kept_out(system: &System, port: &str) -> anyhow::Result<()> {
    let words =
        "get pods -n default -l job-name=view-rabbit-1 -o jsonpath='{.items[0].status.podIP}'";
    let ip = kubectl(system, RABBIT, words)?;
    let port: u16 = port.parse().with_context(|| format!("read the port {port:?}"))?;
    let log = stranger(system, RABBIT, &ip, &[port + 1])?;
    ensure!(log.len() == 1 && log[0].contains("timed out"), "{log:?}");
    Ok(())
}

/// Runs a container that fails, and checks that Warren reports its exit code and the end of its log, which it can get
/// only from the kubelet.
fn failure_is_reported(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
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
            "storages": [{"name": "DW_JOB_scratch"}, {"name": "DW_JOB_disk"}], "numPorts": 1, "spec": {"containers": [container]},
        }),
    )
}

fn fails() -> Value {
    let command = json!(["sh", "-c", "echo no input >&2; exit 3"]);
    let container = json!({"name": "fails", "image": IMAGE, "command": command});
    profile("fails", json!({"spec": {"containers": [container]}}))
}

/// Checks the container's log line by line.
fn check_log(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let kernel = run.cluster.run(RABBIT, "cat /proc/sys/kernel/random/boot_id")?;
    let kernel = kernel.trim();
    let lines = [
        format!(
            "{RABBIT}, kernel {kernel}, user {USER}:{USER}, memory {LIMIT}, cpu 90000/100000, \
             CapBnd: 0000000000000000, NoNewPrivs: 1, token none"
        ),
        format!("{COMPUTE}: written on {COMPUTE}, on the disk"),
        format!("node-0: written on {COMPUTE}, on the disk"),
        "port: by the port".to_owned(),
    ];
    let expected: String = lines.iter().map(|line| format!("{RABBIT}/view: {line}\n")).collect();
    let logs = run.prints(&["logs", "view"])?;
    ensure!(logs == expected, "the log is\n{logs}and not\n{expected}");
    let shown = run.prints(&["containers", "view", "--json"])?;
    let shown: Value = serde_json::from_str(&shown).context("decode the output of warren")?;
    ensure!(shown[0]["phase"] == "succeeded" && shown[0]["retries"] == 0, "{shown:#}");
    Ok(())
}
