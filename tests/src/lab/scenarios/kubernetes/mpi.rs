//! MPI in pods that a real kubelet runs: what played kubelets cannot show.

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
    COMPUTE, RABBIT, USER, advance, are_pods, create, environment, happens, is_answered, profile,
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

/// Each rank tells where it is, on which kernel, as whom, with which rights, and what the package says; and reads by every name in
/// the index tree what the compute writes there, once it does. Rank 0 answers in the same file system.
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
    until read -r said < "$each/hello"; do sleep 1; done 2>/dev/null
    echo "rank $OMPI_COMM_WORLD_RANK, ${each##*/}: $said"
done
[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 0
echo "written by rank 0 on $(hostname)" > "$DW_JOB_scratch/node-0/new"
mv "$DW_JOB_scratch/node-0/new" "$DW_JOB_scratch/node-0/answer"
"#;

/// A rank in each pod: they send each other messages. Then as many as there are slots.
const BETWEEN: &str =
    "mpirun -np 2 --map-by ppr:1:node NPopenmpi -u 256 -n 5 -o /dev/null && mpirun sh /bin/ranks";

/// Where workers listen for their launcher.
const PORT: u16 = 2222;

/// What the rabbit has of a package before an agent fetches it: prints its digest and its size.
const PACKAGE: &str = "
mkdir -p /srv/packages
echo from a package > /srv/packages/input
sha256sum < /srv/packages/input | cut -d' ' -f1
stat -c %s /srv/packages/input
";

/// The rabbit's kubelet as the cluster's API knows it.
const KUBELET: &str = "system:node:rabbit-1";
/// Who else may have asked that API for something: the cluster's own parts, this test with the agent, and Warren's coordinator.
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
    happens(bench, |cluster| prepare(bench, cluster, RANKS), story)
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    let package = run.cluster.run(RABBIT, PACKAGE)?;
    let (sha256, size) = package.trim().split_once('\n').context("a digest and a size")?;
    let size: u64 = size.parse().context("a size")?;
    let package =
        json!({"name": "input", "url": "/srv/packages/input", "sha256": sha256, "size": size});
    run.apply("profiles", &[ranks(&package), beside()])?;
    reads_the_data(run)?;
    talks_between_pods(run)?;
    nobody_asked_for_pods(&run.cluster)?;
    until("no package to be left", patience(), || packages_are_gone(&run.cluster))
}

/// Ranks in a worker, beside the job's data.
fn reads_the_data(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    create(run, "ranks", &DIRECTIVES)?;
    advance(run, "ranks", "PreRun")?;
    are_pods(&run.cluster, 2)?;
    strangers_are_kept_out(&run.cluster)?;
    let environment = environment(run, "ranks")?;
    is_answered(run, &environment, "rank 0 on ranks-worker-0")?;
    // The ranks have ended by then.
    advance(run, "ranks", "PostRun")?;
    let mut lines = ranks_on(run, &["ranks-worker-0"; 2], "from a package")?;
    for rank in 0..2 {
        for name in [COMPUTE, "node-0"] {
            lines.push(format!("rank {rank}, {name}: written on {COMPUTE}"));
        }
    }
    told(run, "ranks", lines)?;
    keys_are_gone(&run.cluster)?;
    advance(run, "ranks", "Teardown")?;
    run.warren(&["workflow", "delete", "ranks"])
}

/// The port of a worker answers the launcher, which waits for that. A pod of another's is kept away from it, though it reaches the
/// launcher, where nothing listens there.
fn strangers_are_kept_out(system: &System) -> anyhow::Result<()> {
    for (role, expected) in [("launcher", "Connection refused"), ("worker", "timed out")] {
        let words = format!(
            "get pods -n default -l nnf.cray.hpe.com/role={role} -o jsonpath='{{.items[0].status.podIP}}'"
        );
        let heard = stranger(system, RABBIT, &kubectl(system, RABBIT, &words)?, &[PORT])?;
        ensure!(heard.len() == 1 && heard[0].contains(expected), "{role}: {heard:?}");
    }
    Ok(())
}

/// Ranks in two pods, the launcher's and the worker's.
fn talks_between_pods(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    create(run, "beside", &BESIDE)?;
    advance(run, "beside", "PreRun")?;
    advance(run, "beside", "PostRun")?;
    let hosts = ["beside-launcher", "beside-launcher", "beside-worker-0", "beside-worker-0"];
    let mut lines = ranks_on(run, &hosts, "none")?;
    // Of those who sent each other messages.
    lines.extend(["0: beside-launcher", "1: beside-worker-0"].map(str::to_owned));
    told(run, "beside", lines)?;
    let logs = run.prints(&["logs", "beside"])?;
    // What one says of the last of their messages.
    ensure!(logs.contains(" 256 bytes "), "no message of 256 bytes: {logs}");
    advance(run, "beside", "Teardown")?;
    run.warren(&["workflow", "delete", "beside"])
}

fn ranks(package: &Value) -> Value {
    let data = json!({"storages": [{"name": "DW_JOB_scratch"}], "packages": [package]});
    of_mpi("ranks", data, &["mpirun", "sh", "/bin/ranks"], false)
}

fn beside() -> Value {
    of_mpi("beside", json!({}), &["sh", "-c", BETWEEN], true)
}

fn of_mpi(name: &str, mut data: Value, command: &[&str], is_worker: bool) -> Value {
    let container = json!({"name": "mpi", "image": IMAGE});
    let mut launcher = container.clone();
    launcher["command"] = json!(command);
    data["mpiSpec"] = json!({
        "slotsPerWorker": 2, "runLauncherAsWorker": is_worker,
        "launcher": {"containers": [launcher]}, "worker": {"containers": [container]},
    });
    profile(name, data)
}

/// What each rank tells of itself when rank `k` is on the host `hosts[k]`.
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

/// Checks what the launcher told of ranks and hosts, in any order, and nothing else of them.
fn told(
    run: &Run<Silent, System>,
    workflow: &str,
    mut expected: Vec<String>,
) -> anyhow::Result<()> {
    let logs = run.prints(&["logs", workflow])?;
    let before = format!("{RABBIT}/launcher/mpi: ");
    let names_a_host =
        |line: &str| line.split_once(": ").is_some_and(|(_, rest)| rest.starts_with(workflow));
    let said = logs.lines().filter_map(|line| line.strip_prefix(before.as_str()));
    let mut said: Vec<&str> =
        said.filter(|line| line.starts_with("rank ") || names_a_host(line)).collect();
    said.sort_unstable();
    expected.sort_unstable();
    ensure!(said == expected, "the ranks told {said:#?}, not {expected:#?}; the log is\n{logs}");
    Ok(())
}

/// No package, and nothing that says which the rabbit is to have.
fn packages_are_gone(system: &System) -> anyhow::Result<()> {
    let objects = kubectl(system, RABBIT, "get nodecontainers -A -o name")?;
    let files = system.run(RABBIT, "find /var/lib/warren/rabbit/packages -type f")?;
    ensure!(objects.is_empty() && files.is_empty(), "left of packages: {objects}{files}");
    Ok(())
}

/// The launcher has ended, and the keys with it.
fn keys_are_gone(system: &System) -> anyhow::Result<()> {
    let secrets = kubectl(system, RABBIT, "get secrets -n default -o name")?;
    ensure!(secrets.is_empty(), "the launcher has ended, and there is still {secrets}");
    Ok(())
}

/// Ranks were started without the cluster's API: only the cluster itself, and those who drive it, asked it for anything, and nobody for
/// a way into a pod.
fn nobody_asked_for_pods(system: &System) -> anyhow::Result<()> {
    let requests = requests(system, RABBIT)?;
    let is_known = |user: &str| user == KUBELET || KNOWN.contains(&user);
    let strange = requests.iter().find(|one| !is_known(&one.user));
    ensure!(strange.is_none(), "a request by somebody else: {strange:?}");
    let ways = ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"];
    let reached = requests.iter().find(|one| ways.contains(&one.resource.as_str()));
    ensure!(reached.is_none(), "a way into a pod through the API: {reached:?}");
    for pod in ["ranks-launcher-", "ranks-worker-0-"] {
        let tells = |one: &AuditEvent| {
            one.user == KUBELET && one.resource == "pods/status" && one.name.starts_with(pod)
        };
        ensure!(requests.iter().any(tells), "the log has no word of the kubelet's on {pod}");
    }
    Ok(())
}
