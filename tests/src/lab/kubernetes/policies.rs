//! The program that enforces NetworkPolicies on a node, and a pod that belongs to no container run, by which tests see
//! the effect of the policies.

use anyhow::Context;

use super::{IMAGE, kubectl};
use crate::lab::System;

/// Script that starts this program (kube-network-policies) as in a pod, with exactly the rights that the program needs.
/// The script also makes packets between pods of one node pass the kernel's filter.
pub(super) const KEEPER: &str = r#"
modprobe -a br_netfilter nft_queue nfnetlink_queue
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
kubectl() { /opt/kube/kubectl --kubeconfig /run/kube/kubeconfig "$@"; }
of() { kubectl config view --raw -o jsonpath="{.clusters[0].cluster.$1}"; }
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cd /run/secrets/kubernetes.io/serviceaccount
of certificate-authority-data | base64 -d > ca.crt
kubectl create token kube-network-policies -n kube-system --duration=24h > token
server=$(of server)
server=${server#https://}
systemd-run --quiet --unit kube-network-policies -E "KUBERNETES_SERVICE_HOST=${server%:*}" -E "KUBERNETES_SERVICE_PORT=${server##*:}" \
    /opt/kube/kube-network-policies --disable-nri --hostname-override rabbit-1 --metrics-bind-address 127.0.0.1:9080
for try in $(seq 600); do [ -z "$(cat /proc/net/netfilter/nfnetlink_queue)" ] || exit 0; sleep 0.5; done
journalctl -u kube-network-policies >&2
exit 1
"#;

/// Runs a pod that belongs to no container run and tries to connect to each of these ports of another pod. Returns the
/// output of the pod, with a line per port.
///
/// # Errors
/// When the pod does not run, or is not deleted in time.
pub fn stranger(
    system: &System,
    rabbit: &str,
    ip: &str,
    ports: &[u16],
) -> anyhow::Result<Vec<String>> {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let calls = format!(
        "for port in {}; do socat -u OPEN:/dev/null TCP:{ip}:$port,connect-timeout=10 2>&1 && echo connected; done; true",
        ports.join(" ")
    );
    let run = |words: &str| kubectl(system, rabbit, words);
    run(&format!(
        "run stranger -n default --image {IMAGE} --image-pull-policy Never --restart Never --command -- sh -c '{calls}'"
    ))?;
    run("wait -n default pod/stranger --for=jsonpath='{.status.phase}'=Succeeded --timeout 300s")
        .context("wait for a stranger's pod")?;
    let log = run("logs -n default stranger")?;
    run("delete -n default pod stranger --timeout 300s")?;
    Ok(log.lines().map(str::to_owned).collect())
}
