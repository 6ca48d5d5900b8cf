use std::path::{Path, PathBuf};

use hyper::{Uri, http::uri::Authority};
use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

use crate::{
    address::Address,
    reloading::{self, CertificateFiles, Source},
    server::{self, Credentials, CredentialsError},
    unix,
};

/// The reason why no client can be made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The named kubeconfig is missing or cannot be used.
    #[error("read kubeconfig {}", path.display())]
    ReadKubeconfig { path: PathBuf, source: KubeconfigError },
    /// The certificate files cannot be read.
    #[error("read the certificates for https://{server}")]
    ReadCertificates { server: Authority, source: KubeconfigError },
    /// No kubeconfig was named, and no usable one was found.
    #[error("find a kubeconfig in $KUBECONFIG or ~/.kube")]
    FindKubeconfig(#[source] KubeconfigError),
    /// The process does not run in a pod with a service account.
    #[error("find the cluster of this pod: in-cluster works only in a pod with a service account")]
    InCluster(#[source] InClusterError),
    /// The address `https://HOST:PORT` was given without a token file and a CA file.
    #[error("https://{0} needs a token file and a CA file: set both options")]
    NoCredentials(Authority),
    /// The token file or the CA file cannot be used.
    #[error("set up the connection to https://{server}")]
    Credentials { server: Authority, source: CredentialsError },
    /// The configuration cannot be used, for example because of its certificates.
    #[error("create a client of the cluster's API")]
    MakeClient(#[source] kube::Error),
}

/// Directory with a pod's token and its cluster's CA.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns a client, which connects at its first request.
///
/// # Errors
/// When the kubeconfig, service account or credentials are missing or cannot be used.
pub async fn connect(address: &Address) -> Result<Client, ConnectError> {
    connect_with(address, None).await
}

/// Like [`connect`], with the credentials that an address `https://HOST:PORT` needs. `credentials` is not used for
/// other kinds of addresses.
pub async fn connect_with(
    address: &Address,
    credentials: Option<&Credentials>,
) -> Result<Client, ConnectError> {
    let config = match address {
        Address::Unix(path) => return Ok(unix::client(path)),
        Address::Server(server) => {
            let none = || ConnectError::NoCredentials(server.clone());
            return at(server.clone(), credentials.ok_or_else(none)?);
        }
        Address::InCluster => return in_cluster(),
        Address::Kubeconfig(Some(path)) => {
            return reloading::client(Source::Kubeconfig(path.clone())).await;
        }
        Address::Kubeconfig(None) => read(None).await?,
    };
    Client::try_from(config).map_err(ConnectError::MakeClient)
}

/// Returns a client of `https://SERVER` that authenticates with a certificate. It reads the files again when they change.
///
/// # Errors
/// When a file cannot be read or used.
pub async fn connect_certified(
    server: &Authority,
    files: &CertificateFiles,
) -> Result<Client, ConnectError> {
    reloading::client(Source::Certified(server.clone(), files.clone())).await
}

fn at(server: Authority, credentials: &Credentials) -> Result<Client, ConnectError> {
    server::client(server.clone(), credentials)
        .map_err(|source| ConnectError::Credentials { server, source })
}

/// Returns a client that reads the files of the pod's service account for each request: Kubernetes replaces the token
/// every hour, and the CA sometimes.
fn in_cluster() -> Result<Client, ConnectError> {
    let url = Config::incluster().map_err(ConnectError::InCluster)?.cluster_url;
    // The URL has no port when the port is 443.
    let (host, port) = (url.host().unwrap_or_default(), url.port_u16().unwrap_or(443));
    let server =
        format!("{host}:{port}").parse().expect("a URL's host and a port are an authority");
    let file = |name: &str| Path::new(SERVICE_ACCOUNT).join(name);
    at(server, &Credentials { token: file("token"), ca: file("ca.crt") })
}

/// Returns a client of `server`, with the credentials in the kubeconfig at `path`. Without `path`, uses the kubeconfig
/// that kubectl would use.
pub async fn connect_to_server(server: Uri, path: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = read(path).await?;
    config.cluster_url = server;
    Client::try_from(config).map_err(ConnectError::MakeClient)
}

async fn read(path: Option<&Path>) -> Result<Config, ConnectError> {
    let unusable = |source| match path {
        Some(path) => ConnectError::ReadKubeconfig { path: path.to_owned(), source },
        None => ConnectError::FindKubeconfig(source),
    };
    let file = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from).map_err(unusable)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future)
    }

    fn refused(address: &Address) -> String {
        match block_on(connect(address)) {
            Ok(_) => panic!("{address} should not be usable"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_error_for_an_unusable_kubeconfig_names_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let expected = format!("read kubeconfig {}", path.display());
        assert_eq!(refused(&Address::Kubeconfig(Some(path.clone()))), expected);
        std::fs::write(&path, "clusters: 7").unwrap();
        assert_eq!(refused(&Address::Kubeconfig(Some(path))), expected);
    }

    #[test]
    fn in_cluster_is_refused_outside_a_pod() {
        assert!(refused(&Address::InCluster).contains("only in a pod"));
    }

    #[test]
    fn an_https_address_without_credentials_is_refused() {
        let address = "https://localhost:6443".parse().unwrap();
        assert!(refused(&address).contains("a token file and a CA file"));
    }

    #[test]
    fn a_client_can_be_created_before_a_server_listens_on_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("api.sock"));
        block_on(async {
            let client = connect(&address).await.unwrap();
            client.apiserver_version().await.unwrap_err();
        });
    }
}
