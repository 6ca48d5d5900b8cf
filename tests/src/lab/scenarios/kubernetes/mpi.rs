//! MPI in pods that a real kubelet runs. The scenario shows effects that simulated kubelets cannot show.

use anyhow::{Context, ensure};
use control_plane::AuditEvent;
use serde_json::{Value, json};

use crate::{
    cluster::patience,
    lab::{
        Bench,
        kubernetes::{
            kubectl,
            mpi::{RANKS as IMAGE, prepare, requests},
            policies::stranger,
        },
        scenarios::Scenario,
        system::System,
    },
    program::until,
    run::{Run, Silent},
};

use super::{
    COMPUTE, RABBIT, USER, advance, are_pods, containers_answer, create, environment, profile,
    run_story,
};

pub(in super::super) const SCENARIO: Scenario = Scenario {
    name: "kubernetes-mpi",
    about: "a rabbit that is a node of a real Kubernetes cluster, and its compute: Open MPI's ranks in pods read the job's GFS2 and a package",
    run,
};

const DIRECTIVES: [&str; 2] = [
    "#DW jobdw type=gfs2 capacity=512MiB name=scratch",
    "#DW container name=ranks profile=ranks DW_JOB_scratch=scratch",
];
const BESIDE: [&str; 1] = ["#DW container name=beside profile=beside"];

/// Script of each rank. It prints its host, kernel, user and rights, and the content of the job package. It waits for
/// the compute to write a file, and reads the file by all names that the rabbit's directory has for it. Rank 0 writes
/// an answer to the same file system.
const RANKS: &str = r#"
read -r kernel < /proc/sys/kernel/random/boot_id
while read -r name value; do
    case $name in CapBnd: | NoNewPrivs:) rights="${rights-}, $name $value" ;; esac
done < /proc/self/status
[ -e /var/run/secrets ] && token=yes || token=none
package=none
[ ! -e /nnf/packages/input ] || read -r package < /nnf/packages/input
echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, $(hostname) on $NNF_NODE_NAME, kernel $kernel, $(id -un) $(id -u):$(id -g)$rights, token $token, package $package"
[ -n "${DW_JOB_scratch-}" ] || exit 0
for each in "$DW_JOB_scratch"/*; do
    until read -r greeting < "$each/hello"; do sleep 1; done 2>/dev/null
    echo "rank $OMPI_COMM_WORLD_RANK, ${each##*/}: $greeting"
done
[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 0
echo "written by rank 0 on $(hostname)" > "$DW_JOB_scratch/node-0/new"
mv "$DW_JOB_scratch/node-0/new" "$DW_JOB_scratch/node-0/answer"
"#;

/// Script that first starts a rank in each pod, and these ranks send each other messages; then it starts
/// a rank per slot.
const BETWEEN: &str =
    "mpirun -np 2 --map-by ppr:1:node NPopenmpi -u 256 -n 5 -o /dev/null && mpirun sh /bin/ranks";

/// Port on which workers listen for their launcher.
const PORT: u16 = 2222;

/// Script that makes a job package for an agent to fetch, and prints its digest and its size.
const PACKAGE: &str = "
mkdir -p /srv/packages
echo from a package > /srv/packages/input
sha256sum < /srv/packages/input | cut -d' ' -f1
stat -c %s /srv/packages/input
";

/// User name of the rabbit's kubelet at the cluster's API.
const KUBELET: &str = "system:node:rabbit-1";
/// Other users that may send requests: the cluster's own programs, the administrator, as whom this test and the agent
/// log in, and Warren's coordinator.
const KNOWN: [&str; 7] = [
    "admin",
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:serviceaccount:kube-system:coredns",
    "system:serviceaccount:kube-system:kube-network-policies",
    "system:serviceaccount:nnf-system:warren-coordinator",
];

fn run(bench: &Bench) -> anyhow::Result<()> {
    run_story(bench, |cluster| prepare(bench, cluster, RANKS), story)
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    let package = run.cluster.run(RABBIT, PACKAGE)?;
    let (sha256, size) = package.trim().split_once('\n').context("a digest and a size")?;
    let size: u64 = size.parse().context("a size")?;
    let package =
        json!({"name": "input", "url": "/srv/packages/input", "sha256": sha256, "size": size});
    run.apply("profiles", &[ranks_profile(&package), beside_profile()])?;
    reads_the_data(run)?;
    talks_between_pods(run)?;
    no_request_entered_a_pod(&run.cluster)?;
    until("no package to be left", patience(), || packages_are_gone(&run.cluster))
}

/// Runs ranks in a worker on the rabbit that has the job's data.
fn reads_the_data(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    create(run, "ranks", &DIRECTIVES)?;
    advance(run, "ranks", "PreRun")?;
    are_pods(&run.cluster, 2)?;
    strangers_are_kept_out(&run.cluster)?;
    let environment = environment(run, "ranks")?;
    containers_answer(run, &environment, "rank 0 on ranks-worker-0")?;
    // The ranks have ended when PostRun is complete.
    advance(run, "ranks", "PostRun")?;
    let mut lines = ranks_on(run, &["ranks-worker-0"; 2], "from a package")?;
    for rank in 0..2 {
        for name in [COMPUTE, "node-0"] {
            lines.push(format!("rank {rank}, {name}: written on {COMPUTE}"));
        }
    }
    check_log(run, "ranks", lines)?;
    keys_are_gone(&run.cluster)?;
    advance(run, "ranks", "Teardown")?;
    run.warren(&["workflow", "delete", "ranks"])
}

/// Checks that a pod of another user cannot reach a worker's port, which the launcher can reach. The pod's packets do
/// arrive at the launcher, where no program listens on that port.
fn strangers_are_kept_out(system: &System) -> anyhow::Result<()> {
    for (role, expected) in [("launcher", "Connection refused"), ("worker", "timed out")] {
        let words = format!(
            "get pods -n default -l nnf.cray.hpe.com/role={role} -o jsonpath='{{.items[0].status.podIP}}'"
        );
        let log = stranger(system, RABBIT, &kubectl(system, RABBIT, &words)?, &[PORT])?;
        ensure!(log.len() == 1 && log[0].contains(expected), "{role}: {log:?}");
    }
    Ok(())
}

/// Runs ranks in two pods, the launcher's and the worker's.
fn talks_between_pods(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    create(run, "beside", &BESIDE)?;
    advance(run, "beside", "PreRun")?;
    advance(run, "beside", "PostRun")?;
    let hosts = ["beside-launcher", "beside-launcher", "beside-worker-0", "beside-worker-0"];
    let mut lines = ranks_on(run, &hosts, "none")?;
    // These lines come from the ranks that sent each other messages.
    lines.extend(["0: beside-launcher", "1: beside-worker-0"].map(str::to_owned));
    check_log(run, "beside", lines)?;
    let logs = run.prints(&["logs", "beside"])?;
    // This line of the benchmark is about the largest message.
    ensure!(logs.contains(" 256 bytes "), "no message of 256 bytes: {logs}");
    advance(run, "beside", "Teardown")?;
    run.warren(&["workflow", "delete", "beside"])
}

fn ranks_profile(package: &Value) -> Value {
    let data = json!({"storages": [{"name": "DW_JOB_scratch"}], "packages": [package]});
    mpi_profile("ranks", data, &["mpirun", "sh", "/bin/ranks"], false)
}

fn beside_profile() -> Value {
    mpi_profile("beside", json!({}), &["sh", "-c", BETWEEN], true)
}

fn mpi_profile(name: &str, mut data: Value, command: &[&str], is_worker: bool) -> Value {
    let container = json!({"name": "mpi", "image": IMAGE});
    let mut launcher = container.clone();
    launcher["command"] = json!(command);
    data["mpiSpec"] = json!({
        "slotsPerWorker": 2, "runLauncherAsWorker": is_worker,
        "launcher": {"containers": [launcher]}, "worker": {"containers": [container]},
    });
    profile(name, data)
}

/// Returns the lines that the ranks print about themselves when rank `k` runs on the host `hosts[k]`.
fn ranks_on(
    run: &Run<Silent, System>,
    hosts: &[&str],
    package: &str,
) -> anyhow::Result<Vec<String>> {
    let kernel = run.cluster.run(RABBIT, "cat /proc/sys/kernel/random/boot_id")?;
    let (kernel, of) = (kernel.trim(), hosts.len());
    let line = |(rank, host): (usize, &&str)| {
        format!(
            "rank {rank} of {of}, {host} on {RABBIT}, kernel {kernel}, user {USER}:{USER}, \
             CapBnd: 0000000000000000, NoNewPrivs: 1, token none, package {package}"
        )
    };
    Ok(hosts.iter().enumerate().map(line).collect())
}

/// Checks that the launcher's log has exactly these lines about ranks and hosts, in any order.
fn check_log(
    run: &Run<Silent, System>,
    workflow: &str,
    mut expected: Vec<String>,
) -> anyhow::Result<()> {
    let logs = run.prints(&["logs", workflow])?;
    let before = format!("{RABBIT}/launcher/mpi: ");
    let names_a_host =
        |line: &str| line.split_once(": ").is_some_and(|(_, rest)| rest.starts_with(workflow));
    let printed = logs.lines().filter_map(|line| line.strip_prefix(before.as_str()));
    let mut printed: Vec<&str> =
        printed.filter(|line| line.starts_with("rank ") || names_a_host(line)).collect();
    printed.sort_unstable();
    expected.sort_unstable();
    ensure!(
        printed == expected,
        "the ranks printed {printed:#?}, not {expected:#?}; the log is\n{logs}"
    );
    Ok(())
}

/// Checks that no job package is left, and no object that requests a job package.
fn packages_are_gone(system: &System) -> anyhow::Result<()> {
    let objects = kubectl(system, RABBIT, "get nodecontainers -A -o name")?;
    let files = system.run(RABBIT, "find /var/lib/warren/rabbit/packages -type f")?;
    ensure!(objects.is_empty() && files.is_empty(), "left of packages: {objects}{files}");
    Ok(())
}

/// Checks that the Secret with the run's TLS keys is deleted when the launcher has ended.
fn keys_are_gone(system: &System) -> anyhow::Result<()> {
    let secrets = kubectl(system, RABBIT, "get secrets -n default -o name")?;
    ensure!(secrets.is_empty(), "the launcher has ended, and there is still {secrets}");
    Ok(())
}

/// Checks that ranks were started without the cluster's API: only known users sent requests, and no request asked for
/// exec, attach or port forwarding in a pod.
fn no_request_entered_a_pod(system: &System) -> anyhow::Result<()> {
    let requests = requests(system, RABBIT)?;
    let is_known = |user: &str| user == KUBELET || KNOWN.contains(&user);
    let strange = requests.iter().find(|request| !is_known(&request.user));
    ensure!(strange.is_none(), "a request of an unknown user: {strange:?}");
    let ways = ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"];
    let reached = requests.iter().find(|request| ways.contains(&request.resource.as_str()));
    ensure!(reached.is_none(), "a way into a pod through the API: {reached:?}");
    for pod in ["ranks-launcher-", "ranks-worker-0-"] {
        let reports = |request: &AuditEvent| {
            request.user == KUBELET
                && request.resource == "pods/status"
                && request.name.starts_with(pod)
        };
        ensure!(requests.iter().any(reports), "the log has no report of the kubelet about {pod}");
    }
    Ok(())
}
