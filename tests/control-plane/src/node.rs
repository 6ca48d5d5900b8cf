//! What a control plane has beyond the usual where a kubelet runs pods. Flags that are lists add to what was there before.

use std::{fs, path::Path};

use anyhow::Context;

use crate::{Authority, apiserver::flags};

/// Names of what [`write_client`] writes.
const CERTIFICATE: &str = "kubelet-client.crt";
const KEY: &str = "kubelet-client.key";

/// Who a node's kubelet is to the API server: user and group.
pub(crate) fn kubelet(node: &str) -> (String, &'static str) {
    (format!("system:node:{node}"), "system:nodes")
}

/// Writes what the API server proves itself with to the kubelet, of whom it reads logs.
pub(crate) fn write_client(directory: &Path, authority: &Authority) -> anyhow::Result<()> {
    let own = authority.client("kube-apiserver", Some("system:masters"))?;
    fs::write(directory.join(CERTIFICATE), own.certificate).context("write a certificate")?;
    fs::write(directory.join(KEY), own.key).context("write a key")
}

/// kube-apiserver gives kubelets the rights of their own node, and reaches them without a name service.
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

/// The first lets pods onto a node once it is ready; the last tells a name service which pods a Service has.
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
