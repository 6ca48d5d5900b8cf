//! Runs a real Kubernetes control plane for tests on loopback: etcd, kube-apiserver and kube-controller-manager, and
//! kube-scheduler where a kubelet runs pods.
//!
//! ```text
//! KUBEBUILDER_ASSETS ─ Assets ─┐
//! Authority (certificates) ────┼─► ControlPlane ─► kubeconfigs, clients, audit log; kill, pause, start again
//! Settings (added flags) ──────┘
//! ```
//! Guarantees: all files lie below one directory; the processes end when the thread that started them ends, or when the
//! control plane is dropped. Assumption: the programs lie where `envtest` looks for them.

mod apiserver;
mod assets;
mod audit;
mod authority;
mod kubeconfig;
mod node;
mod plane;
mod port;
mod process;

pub use assets::Assets;
pub use audit::{AuditEvent, read_audit};
pub use authority::{Authority, Certified};
pub use kubeconfig::{Login, write_kubeconfig};
pub use plane::{ControlPlane, Settings, alone, client, client_without_retry};
pub use port::free_port;
pub use process::Process;

/// Environment variable that names the kubeconfig of the server that the suites run against.
pub const KUBECONFIG: &str = "WARREN_KUBE";

/// Returns the kubeconfig of the API server that `make kube` started.
///
/// # Panics
/// When `WARREN_KUBE` is not set: a suite that a person selected must fail if it cannot run.
#[must_use]
pub fn kubeconfig_from_environment() -> std::path::PathBuf {
    std::env::var_os(KUBECONFIG).map_or_else(
        || panic!("{KUBECONFIG} names no kubeconfig of a real API server: run `make kube`"),
        Into::into,
    )
}
