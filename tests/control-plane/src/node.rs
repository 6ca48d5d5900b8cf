//! Flags and credentials that a control plane needs in addition where a kubelet runs pods. If a flag whose value is a
//! list occurs twice, both lists apply.

use std::{fs, path::Path};

use anyhow::Context;

use crate::{Authority, apiserver::flags};

/// Names of the files that [`write_client`] writes.
const CERTIFICATE: &str = "kubelet-client.crt";
const KEY: &str = "kubelet-client.key";

/// Returns the user and the group as which a node's kubelet logs in to the API server.
pub(crate) fn kubelet(node: &str) -> (String, &'static str) {
    (format!("system:node:{node}"), "system:nodes")
}

/// Writes the client certificate and key with which the API server logs in to the kubelet, to read the logs of pods.
pub(crate) fn write_client(directory: &Path, authority: &Authority) -> anyhow::Result<()> {
    let own = authority.client("kube-apiserver", Some("system:masters"))?;
    fs::write(directory.join(CERTIFICATE), own.certificate).context("write a certificate")?;
    fs::write(directory.join(KEY), own.key).context("write a key")
}

/// Returns flags of kube-apiserver: each kubelet may access only its own node's objects, and the server reaches
/// kubelets by IP address, without DNS.
pub(crate) fn apiserver(directory: &Path) -> Vec<String> {
    let path = |name| directory.join(name).display().to_string();
    flags(&[
        ("authorization-mode", "Node"),
        ("enable-admission-plugins", "NodeRestriction"),
        ("kubelet-client-certificate", &path(CERTIFICATE)),
        ("kubelet-client-key", &path(KEY)),
        ("kubelet-preferred-address-types", "InternalIP"),
    ])
}

/// Returns flags of kube-controller-manager. The node lifecycle controller admits pods to a node once it is ready; the
/// endpoint slice controller lists the pods of a Service, for DNS.
pub(crate) fn controllers() -> Vec<String> {
    let more = [
        "node-lifecycle-controller",
        "pod-garbage-collector-controller",
        "endpointslice-controller",
    ];
    flags(&[("controllers", &more.join(","))])
}

pub(crate) fn scheduler(kubeconfig: &Path) -> Vec<String> {
    let kubeconfig = kubeconfig.display().to_string();
    flags(&[("kubeconfig", &kubeconfig), ("leader-elect", "false"), ("secure-port", "0")])
}
