//! A client of an API that somebody else serves.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("read kubeconfig {path}", path = path.display())]
    Kubeconfig {
        path: PathBuf,
        #[source]
        source: KubeconfigError,
    },
    #[error(
        "find the cluster of this pod: --in-cluster works only in a pod with a service account"
    )]
    InCluster(#[source] kube::config::InClusterError),
    #[error("make a Kubernetes client")]
    Client(#[source] kube::Error),
}

/// A client of the cluster that a kubeconfig names.
///
/// # Errors
/// When the file cannot be read or its credentials cannot be used.
pub(crate) async fn kubeconfig(path: &Path) -> Result<Client, ConnectError> {
    let failed = |source| ConnectError::Kubeconfig { path: path.to_owned(), source };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)?;
    Client::try_from(config).map_err(ConnectError::Client)
}

/// A client of the cluster this pod runs in.
///
/// # Errors
/// When this is no pod.
pub(crate) fn in_cluster() -> Result<Client, ConnectError> {
    Client::try_from(Config::incluster().map_err(ConnectError::InCluster)?)
        .map_err(ConnectError::Client)
}
