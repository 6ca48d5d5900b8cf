//! Command lines of etcd, kube-apiserver and kube-controller-manager, and the audit policy.

use std::path::Path;

use serde_json::{Value, json};

use crate::authority::Files;

/// TCP ports of one control plane, on loopback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) peer: u16,
    pub(crate) api: u16,
}

pub(crate) fn etcd(directory: &Path, ports: Ports) -> Vec<String> {
    let (client, peer) =
        (format!("http://127.0.0.1:{}", ports.etcd), format!("http://127.0.0.1:{}", ports.peer));
    flags(&[
        ("data-dir", &directory.join("etcd").display().to_string()),
        ("listen-client-urls", &client),
        ("advertise-client-urls", &client),
        ("listen-peer-urls", &peer),
        ("initial-advertise-peer-urls", &peer),
        ("initial-cluster", &format!("default={peer}")),
        ("unsafe-no-fsync", "true"),
        ("log-level", "warn"),
    ])
}

pub(crate) fn apiserver(directory: &Path, ports: Ports, files: &Files) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    flags(&[
        ("etcd-servers", &format!("http://127.0.0.1:{}", ports.etcd)),
        ("bind-address", "127.0.0.1"),
        ("advertise-address", "127.0.0.1"),
        ("secure-port", &ports.api.to_string()),
        ("tls-cert-file", &path(&files.certificate)),
        ("tls-private-key-file", &path(&files.key)),
        ("client-ca-file", &path(&files.authority)),
        ("cert-dir", &path(&directory.join("certificates"))),
        ("service-account-issuer", "https://kubernetes.default.svc"),
        ("service-account-key-file", &path(&files.account_public_key)),
        ("service-account-signing-key-file", &path(&files.account_key)),
        ("authorization-mode", "RBAC"),
        ("service-cluster-ip-range", "10.96.0.0/24"),
        ("endpoint-reconciler-type", "none"),
        ("allow-privileged", "true"),
        ("audit-policy-file", &path(&directory.join("audit-policy.json"))),
        ("audit-log-path", &path(&directory.join("audit.log"))),
    ])
}

pub(crate) fn controller_manager(directory: &Path, files: &Files) -> Vec<String> {
    let controllers = [
        "namespace-controller",
        "garbage-collector-controller",
        "serviceaccount-controller",
        "root-ca-certificate-publisher-controller",
        "clusterrole-aggregation-controller",
        "validatingadmissionpolicy-status-controller",
        "job-controller",
        "ttl-after-finished-controller",
        "persistentvolume-binder-controller",
        "persistentvolume-protection-controller",
        "persistentvolumeclaim-protection-controller",
    ];
    let path = |path: &Path| path.display().to_string();
    flags(&[
        ("kubeconfig", &path(&directory.join("controllers.kubeconfig"))),
        ("controllers", &controllers.join(",")),
        ("leader-elect", "false"),
        ("secure-port", "0"),
        ("root-ca-file", &path(&files.authority)),
        ("service-account-private-key-file", &path(&files.account_key)),
    ])
}

/// Returns the audit policy: the log has requests about Warren's kinds with their bodies, so that tests can count
/// bytes, and only the metadata of other requests.
pub(crate) fn audit_policy() -> Value {
    let groups = ["dataworkflowservices.github.io", "nnf.cray.hpe.com"];
    let groups = groups.map(|group| json!({"group": group}));
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "RequestResponse", "resources": groups},
            {"level": "Metadata"},
        ],
    })
}

pub(crate) fn flags(flags: &[(&str, &str)]) -> Vec<String> {
    flags.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}
