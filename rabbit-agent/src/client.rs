//! Ways to the Kubernetes API: a unix socket of a coordinator on this box, a kubeconfig, or the pod's service account.

use std::{
    fmt,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    str::FromStr,
    task::{Context, Poll},
};

use hyper_util::{
    client::legacy::Client as HttpClient,
    rt::{TokioExecutor, TokioIo},
};
use kube::{
    Client, Config,
    client::Body,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;
use tokio::net::UnixStream;
use tower::{Service, ServiceExt};

/// Where the API is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `unix://<path>`
    Unix(PathBuf),
    /// `kubeconfig:<path>`, or `kubeconfig`: the one that `$KUBECONFIG` names, or else `~/.kube/config`.
    Kubeconfig(Option<PathBuf>),
    /// `in-cluster`: the pod's service account.
    InCluster,
}

/// A text that names no way to an API.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not an API address: use unix:///path/to/api.sock, kubeconfig:/path, or in-cluster"
)]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let absolute = |path: &str| Path::new(path).is_absolute().then(|| PathBuf::from(path));
        let address = if text == "in-cluster" {
            Some(Self::InCluster)
        } else if text == "kubeconfig" {
            Some(Self::Kubeconfig(None))
        } else if let Some(path) = text.strip_prefix("unix://") {
            absolute(path).map(Self::Unix)
        } else if let Some(path) = text.strip_prefix("kubeconfig:") {
            absolute(path).map(|path| Self::Kubeconfig(Some(path)))
        } else {
            None
        };
        address.ok_or_else(|| AddressError(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Kubeconfig(None) => f.write_str("kubeconfig"),
            Self::Kubeconfig(Some(path)) => write!(f, "kubeconfig:{}", path.display()),
            Self::InCluster => f.write_str("in-cluster"),
        }
    }
}

/// A client could not be made.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The kubeconfig file is missing or not usable.
    #[error("read {address}")]
    Kubeconfig {
        /// Which.
        address: Address,
        /// Why.
        #[source]
        source: KubeconfigError,
    },
    /// There is no service account here.
    #[error("find the pod's service account")]
    InCluster(#[source] InClusterError),
    /// The configuration names certificates that cannot be used, or the like.
    #[error("connect to the cluster's API")]
    Client(#[source] kube::Error),
}

/// A client; nothing is connected before it is used.
///
/// # Errors
/// When the configuration it should come from is not there or not usable.
pub async fn connect(address: &Address) -> Result<Client, ClientError> {
    let config = match address {
        Address::Unix(path) => return Ok(over_unix(path)),
        Address::Kubeconfig(path) => {
            let wrong = |source| ClientError::Kubeconfig { address: address.clone(), source };
            let file = path
                .as_ref()
                .map_or_else(Kubeconfig::read, Kubeconfig::read_from)
                .map_err(wrong)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(wrong)?
        }
        Address::InCluster => Config::incluster().map_err(ClientError::InCluster)?,
    };
    Client::try_from(config).map_err(ClientError::Client)
}

fn over_unix(path: &Path) -> Client {
    let http: HttpClient<_, Body> =
        HttpClient::builder(TokioExecutor::new()).build(UnixConnector(path.into()));
    // The socket decides where requests go; HTTP still wants an authority, and its host is of no consequence.
    let service = http.map_request(|mut request: hyper::Request<Body>| {
        let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
        if let Ok(uri) = format!("http://localhost{path}").parse() {
            *request.uri_mut() = uri;
        }
        request
    });
    Client::new(service, "default")
}

#[derive(Debug, Clone)]
struct UnixConnector(PathBuf);

impl Service<hyper::Uri> for UnixConnector {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: hyper::Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in [
            "unix:///run/warren/api.sock",
            "kubeconfig",
            "kubeconfig:/etc/kube/config",
            "in-cluster",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_remedy() {
        for text in ["", "unix://run/api.sock", "http://localhost", "kubeconfig:config"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("unix:///path") && error.contains(text), "{error}");
        }
    }
}
