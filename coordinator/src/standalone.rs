//! The embedded API, for hosts without a cluster: opened in this process, served on a unix socket and on loopback TLS.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use daemon::{ListenError, listen};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
pub(crate) use kubeapi::serve::TlsError;
use kubeapi::serve::{tls, unix};
use kubeapi::{Admission, Api, Credentials, CredentialsError, Identity, OpenError, Status};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};

use crate::admission::{Change, Workflows, admit, admit_deletion, complete};
use crate::config::Standalone;

/// User name of the coordinator itself in the embedded API.
const USER: &str = "system:warren:coordinator";
/// Number of past events from which a watch may resume.
const HISTORY: usize = 20_000;

/// The reason why the embedded API cannot be served.
#[derive(Debug, Error)]
pub enum StandaloneError {
    #[error("open the store in the data directory")]
    Open(#[source] OpenError),
    #[error(
        "the store is damaged, so the coordinator does not serve it: move objects.redb in {directory} away, but leave objects.acknowledged there, and make a new store from the last backup with `coordinator --data-dir {directory} restore FILE` (`warren backup` writes one)",
        directory = directory.display()
    )]
    Damaged {
        directory: PathBuf,
        #[source]
        source: OpenError,
    },
    #[error(transparent)]
    Socket(#[from] ListenError),
    #[error(
        "listen on {address} for kubectl: another API server may use it; choose another address with --api-listen"
    )]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("make certificates and token for kubectl")]
    Credentials(#[source] CredentialsError),
    #[error("write the kubeconfig {path}", path = path.display())]
    Kubeconfig {
        path: PathBuf,
        #[source]
        source: CredentialsError,
    },
}

/// Returns the admission functions of the embedded API.
fn admission(workflows: Workflows) -> Admission {
    let rules = workflows.clone();
    Admission::new(move |change| admit_or_deny(change, &workflows))
        .completing(move |change| complete(creation_or_update(change)?, &rules, Timestamp::now()))
}

/// Converts a creation or an update for [`crate::admission`]; returns `None` for a deletion.
fn creation_or_update(change: kubeapi::Change<'_>) -> Option<Change<'_>> {
    let kubeapi::Change { group, resource, subresource, old, user, .. } = change;
    Some(Change { group, resource, subresource, caller: Some(user), old, new: change.new? })
}

/// Admits a change, or refuses it with the text that a webhook's refusal has on a cluster.
fn admit_or_deny(change: kubeapi::Change<'_>, workflows: &Workflows) -> Result<(), Status> {
    let result = match (creation_or_update(change), change.old) {
        (Some(change), _) => admit(change, workflows),
        (None, Some(old)) => admit_deletion(change.group, change.resource, old),
        (None, None) => Ok(()),
    };
    result.map_err(|why| {
        let text = why.text();
        let message = format!("admission webhook \"coordinator\" denied the request: {text}");
        let (code, reason) = why.code();
        Status::new(code, reason, message)
    })
}

/// The embedded API: store open, sockets bound, not served yet.
#[derive(Debug)]
pub(crate) struct Embedded {
    api: Api,
    socket: UnixListener,
    tcp: TcpListener,
    credentials: Credentials,
    address: SocketAddr,
}

impl Embedded {
    /// Opens the store, binds the sockets and writes the kubeconfig.
    pub(crate) async fn open(
        config: &Standalone,
        workflows: Workflows,
    ) -> Result<Self, StandaloneError> {
        let socket = listen(&config.api_socket)?;
        let address = config.api_listen;
        let bind = async {
            let tcp = TcpListener::bind(address).await?;
            let address = tcp.local_addr()?;
            io::Result::Ok((tcp, address))
        };
        let (tcp, address) =
            bind.await.map_err(|source| StandaloneError::Listen { address, source })?;
        let api = Api::open(kubeapi::Config {
            crds: api::crd::crd_values(),
            history: HISTORY,
            admission: admission(workflows),
            ..kubeapi::Config::new(&config.data_dir)
        })
        .map_err(|error| match error {
            OpenError::Damaged { .. } => {
                StandaloneError::Damaged { directory: config.data_dir.clone(), source: error }
            }
            error => StandaloneError::Open(error),
        })?;
        let credentials = Credentials::load_or_create(&config.data_dir, address)
            .map_err(StandaloneError::Credentials)?;
        let path = config.kubeconfig();
        credentials
            .write_kubeconfig(&path)
            .map_err(|source| StandaloneError::Kubeconfig { path, source })?;
        Ok(Self { api, socket, tcp, credentials, address })
    }

    /// Returns the API's TCP address, for kubectl.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a client that calls the API within this process.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.api.service(Identity { user: USER.to_owned() }), "default")
    }

    /// Serves root and the coordinator's own user on the unix socket, and holders of the token over TLS, until
    /// `stop_unix` and `stop_tls` resolve.
    pub(crate) fn serve(
        self,
        stop_unix: impl Future<Output = ()> + Send,
        stop_tls: impl Future<Output = ()> + Send,
    ) -> (impl Future<Output = ()> + Send, impl Future<Output = Result<(), TlsError>> + Send) {
        let Self { api, socket, tcp, credentials, .. } = self;
        let over_unix = unix(socket, api.clone(), Vec::new(), stop_unix);
        let over_tls = async move {
            let result = tls(tcp, api.clone(), &credentials, stop_tls).await;
            api.close();
            result
        };
        (over_unix, over_tls)
    }
}

#[cfg(test)]
mod tests;
