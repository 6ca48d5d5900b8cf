//! A rabbit that is the only node of a real Kubernetes cluster. It runs the kubelet with containerd, and also the
//! cluster's control plane, name service and the program that enforces NetworkPolicies.

pub mod mpi;
pub mod policies;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use workflow::shipped;

use super::{Bench, Cluster, System, containers::HOSTS};
pub use mpi::PODHELPER;

/// Deadline of programs that start within seconds on real nodes.
const LONG: Duration = Duration::from_secs(900);

/// Directory of Kubernetes' programs in a guest.
const PROGRAMS: &str = "/opt/kube";

/// The administrator's kubeconfig in the guest.
pub const KUBECONFIG: &str = "/run/kube/kubeconfig";
/// The coordinator's kubeconfig in the guest.
pub const COORDINATOR: &str = "/run/kube/coordinator.kubeconfig";

/// Files of packaging/kubernetes that give the coordinator all rights that it has.
const RIGHTS: [&str; 4] = [
    "coordinator/coordinator-access.yaml",
    "engine/engine-access.yaml",
    "containers/containers-access.yaml",
    "packages/packages-access.yaml",
];

/// Image of the pods.
pub const IMAGE: &str = "localhost/view:1";

/// Script that starts Debian's container runtime with its network; systemd makes the control groups. Containers lie on
/// a tmpfs: the runtime stacks them with overlayfs, and a guest's root, an overlay itself, cannot hold the layers.
const RUNTIME: &str = r#"
mkdir -p /var/lib/containerd /var/lib/containers
for each in containerd containers; do mount -t tmpfs -o mode=0711,size=75% $each /var/lib/$each; done
modprobe -a overlay veth bridge loop
cat > /etc/containerd/config.toml <<'END'
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/view:1"
  cni.bin_dir = "/usr/lib/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  options.SystemdCgroup = true
END
systemctl start containerd
"#;

/// Script that makes the image from the guest's own Debian, and imports it into containerd, since there is no registry
/// to pull from. Run without a command, the image does the work of a pod's pause container.
const MAKE: &str = r#"
cd /var/tmp
(echo /tmp; type -P catatonit; ldd $(type -P sh cat dd id mv sleep socat) | grep -o '/[^ :]*') | sort -u | tar -chf root.tar --hard-dereference --no-recursion -T -
podman import --quiet --change 'ENTRYPOINT ["/usr/bin/catatonit", "-P"]' root.tar view:1 >/dev/null
podman save --quiet --format oci-archive -o view.tar localhost/view:1
podman rmi view:1 >/dev/null
ctr -n k8s.io images import view.tar >/dev/null
rm root.tar view.tar
"#;

/// Script that starts the control plane. It writes its files beneath /run/kube.
const CONTROL_PLANE: &str = r#"
cp -r /lab/kube /opt/kube
export TMPDIR=/var/tmp KUBEBUILDER_ASSETS=/opt/kube
setsid /programs/control-plane --node "$(hostname)" sh -c 'ln -sfn "${KUBECONFIG%/*}" /run/kube; exec sleep infinity' \
    > /var/log/control-plane.log 2>&1 < /dev/null &
until [ -e /run/kube ]; do kill -0 $! || { cat /var/log/control-plane.log >&2; exit 1; }; sleep 0.5; done
"#;

/// Script that starts the kubelet, with the rights of its node. The kubelet accepts requests for logs only from clients
/// whose certificate the cluster's authority signed. containerd 1.6 does not report its cgroup driver; kubelet 1.36 is
/// the last version that then takes the driver from its own configuration.
const KUBELET: &str = r"
mkdir -p /etc/kubernetes
cat > /etc/kubernetes/kubelet.yaml <<'END'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: systemd
clusterDNS: [192.168.77.1]
clusterDomain: cluster.local
authentication: {x509: {clientCAFile: /run/kube/certificates/ca.crt}}
END
systemd-run --quiet --unit kubelet /opt/kube/kubelet --config /etc/kubernetes/kubelet.yaml \
    --kubeconfig /run/kube/kubelet.kubeconfig --node-ip 192.168.77.1
";

/// Script that installs the objects that an administrator installs: CRDs, namespaces, the site's
/// objects, roles and accounts.
const SITE: &str = r#"
kubectl() { /opt/kube/kubectl --kubeconfig /run/kube/kubeconfig "$@"; }
kubectl apply --server-side -f /lab/definitions.json
kubectl wait --for=condition=Established crd --all --timeout=300s
for namespace in dws-system nnf-system rabbit-1 compute-1; do kubectl create namespace $namespace; done
kubectl create -f /lab/site.json -f /lab/rights
for account in coredns kube-network-policies; do kubectl create serviceaccount $account -n kube-system; done
kubectl create clusterrole coredns --verb=list,watch --resource=namespaces,services,endpointslices.discovery.k8s.io
kubectl create clusterrolebinding coredns --clusterrole=coredns --serviceaccount=kube-system:coredns
kubectl create clusterrole policies --verb=list,watch --resource=namespaces,pods,networkpolicies.networking.k8s.io
kubectl create clusterrolebinding policies --clusterrole=policies --serviceaccount=kube-system:kube-network-policies
cd /run/kube
for account in nnf-system/warren-coordinator kube-system/coredns; do
    name=${account#*/}
    token=$(kubectl create token $name -n ${account%/*} --duration=24h)
    cp kubeconfig ${name#warren-}.kubeconfig
    kubectl config --kubeconfig ${name#warren-}.kubeconfig set-credentials $name --token="$token"
    kubectl config --kubeconfig ${name#warren-}.kubeconfig set-context --current --user=$name
done
until kubectl wait --for=condition=Ready node/rabbit-1 --timeout=10s; do sleep 1; done
"#;

/// Script that starts the name service, with exactly the rights that it needs. Pods reach it at their node's address.
const NAMES: &str = r"
cat > /etc/kubernetes/Corefile <<'END'
.:53 {
    bind 192.168.77.1
    errors
    kubernetes cluster.local {
        kubeconfig /run/kube/coredns.kubeconfig
    }
}
END
systemd-run --quiet --unit coredns /opt/kube/coredns -conf /etc/kubernetes/Corefile
for try in $(seq 600); do ss -Hlun 'sport = 53' | grep -q 192.168.77.1 && exit; sleep 0.5; done
journalctl -u coredns >&2
exit 1
";

/// Script that prints everything of pods that exists on a node: mounts, directories and logs, containers, networks, and
/// block devices that the kubelet has opened.
const LEFT: &str = r"
find /var/lib/kubelet/pods /var/log/pods /var/log/containers /run/netns -mindepth 1 -maxdepth 1 2>/dev/null || true
ctr -n k8s.io tasks list -q
ctr -n k8s.io containers list -q
iptables -t nat -S | grep -e '--to-destination' || true
losetup --list --noheadings
awk '$2 ~ /^.var.lib.kubelet.(pods|plugins)|^.run.containerd.*.(rootfs|shm)$/' /proc/self/mounts
";

/// Objects that Kubernetes itself creates in the namespace `default`.
const OWN: [&str; 2] = ["configmap/kube-root-ca.crt", "service/kubernetes"];

/// Makes the rabbit, which systemd has booted, the only node of a new Kubernetes cluster, with [`IMAGE`] on it.
///
/// # Errors
/// When Kubernetes was not built, or a program of Kubernetes does not start.
pub fn install(bench: &Bench, cluster: &mut Cluster) -> anyhow::Result<()> {
    for compute in &mut cluster.computes {
        compute.run(HOSTS, LONG)?;
    }
    let exchange = cluster.rabbit.exchange();
    let programs =
        fs::read_dir(bench.assets().kubernetes()?).context("list the programs of Kubernetes")?;
    let programs =
        programs.map(|program| Ok(program.context("list the programs of Kubernetes")?.path()));
    hand_over(&exchange.join("kube"), programs.collect::<anyhow::Result<Vec<_>>>()?)?;
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubernetes");
    hand_over(&exchange.join("rights"), RIGHTS.map(|file| packaging.join(file)))?;
    let site = [serde_json::to_value(shipped::rules())?, serde_json::to_value(shipped::profile())?];
    for (name, items) in [("definitions", api::ruled_crd_values()), ("site", site.to_vec())] {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        fs::write(exchange.join(format!("{name}.json")), list.to_string())
            .context("write a list of objects")?;
    }
    for step in [HOSTS, RUNTIME, MAKE, CONTROL_PLANE, KUBELET, SITE, NAMES, policies::KEEPER] {
        cluster.rabbit.run(step, LONG)?;
    }
    Ok(())
}

/// Creates the directory `to`, and copies files into it.
fn hand_over(to: &Path, files: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<()> {
    fs::create_dir(to).with_context(|| format!("make {}", to.display()))?;
    for file in files {
        let name = file.file_name().context("a file has a name")?;
        fs::copy(&file, to.join(name)).with_context(|| format!("copy {}", file.display()))?;
    }
    Ok(())
}

/// Runs kubectl as the administrator, and returns its output.
///
/// # Errors
/// When kubectl fails.
pub fn kubectl(system: &System, rabbit: &str, words: &str) -> anyhow::Result<String> {
    system.run(rabbit, &format!("{PROGRAMS}/kubectl --kubeconfig {KUBECONFIG} {words}"))
}

/// Returns the pods of the namespace of workflows.
///
/// # Errors
/// When the pods cannot be listed.
pub fn pods(system: &System, rabbit: &str) -> anyhow::Result<Vec<Value>> {
    let listed = kubectl(system, rabbit, "get pods -n default -o json")?;
    let mut listed: Value = serde_json::from_str(&listed).context("decode the pods")?;
    serde_json::from_value(listed["items"].take()).context("decode the pods")
}

/// Checks that nothing of a container is left in the cluster or on its node.
///
/// # Errors
/// When something of a container is left.
pub fn nothing_is_left(system: &System, rabbit: &str) -> anyhow::Result<()> {
    let kinds = "jobs,pods,services,configmaps,secrets,networkpolicies,pvc,pv";
    let objects = kubectl(system, rabbit, &format!("get {kinds} -n default -o name"))?;
    let left: Vec<_> = objects.lines().filter(|name| !OWN.contains(name)).collect();
    ensure!(left.is_empty(), "left in the cluster: {left:?}");
    let left = system.run(rabbit, LEFT)?;
    ensure!(left.is_empty(), "left on {rabbit}: {left}");
    Ok(())
}
