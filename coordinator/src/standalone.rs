//! The embedded API, for sites without a cluster: opened in this process, served on a unix socket, on loopback TLS, and to
//! rabbits on other hosts on mutual TLS.

mod nodes;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use daemon::{ListenError, listen};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
pub(crate) use kubeapi::serve::TlsError;
use kubeapi::serve::{mutual_tls, tls, unix};
use kubeapi::{Admission, Api, Credentials, CredentialsError, Identity, OpenError, Status};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};

use crate::admission::{Change, Workflows, admit, admit_deletion, complete};
use crate::config::{Standalone, Tls};
use crate::files;
use nodes::{ForRabbits, NodeApiError};

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
    #[error("serve the API to rabbits")]
    Rabbits(#[from] NodeApiError),
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
    nodes::check_write(&change).map_err(|why| Status::new(403, "Forbidden", why))?;
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

/// Resolves when the coordinator stops.
type Stop = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The embedded API: store open, sockets bound, not served yet.
#[derive(Debug)]
pub(crate) struct Embedded {
    api: Api,
    socket: UnixListener,
    tcp: TcpListener,
    rabbits: Option<ForRabbits>,
    credentials: Credentials,
    address: SocketAddr,
}

impl Embedded {
    /// Opens the store, binds the sockets and writes the kubeconfig.
    pub(crate) async fn open(
        config: &Standalone,
        certificates: Option<&Tls>,
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
        let rabbits = match (config.api_listen_rabbits, certificates) {
            (Some(address), Some(certificates)) => {
                Some(ForRabbits::bind(address, certificates).await?)
            }
            _ => None,
        };
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
        Ok(Self { api, socket, tcp, rabbits, credentials, address })
    }

    /// Returns the API's TCP address, for kubectl.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a client that calls the API within this process.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.api.service(Identity { user: USER.to_owned() }), "default")
    }

    /// Serves root and the coordinator's own user on the unix socket, and holders of the token or of a rabbit's certificate
    /// over TLS, until the `stops` resolve.
    pub(crate) fn serve(
        self,
        stops: [Stop; 3],
    ) -> (impl Future<Output = ()> + Send, impl Future<Output = Result<(), TlsError>> + Send) {
        let Self { api, socket, tcp, rabbits, credentials, .. } = self;
        let [stop_unix, stop_tls, stop_rabbits] = stops;
        let over_unix = unix(socket, api.clone(), Vec::new(), stop_unix);
        let for_rabbits = api.clone();
        let to_rabbits = async move {
            let Some(ForRabbits { listener, config }) = rabbits else { return };
            let (limits, rights) = (files::tcp_connections(), nodes::rights(for_rabbits.clone()));
            let tls = (config, limits);
            mutual_tls(listener, for_rabbits, tls, nodes::identify, rights, stop_rabbits).await;
        };
        let over_tls = async move {
            let to_administrators = tls(tcp, api.clone(), &credentials, stop_tls);
            let to_rabbits = async {
                to_rabbits.await;
                Ok(())
            };
            let result = tokio::try_join!(to_administrators, to_rabbits).map(drop);
            api.close();
            result
        };
        (over_unix, over_tls)
    }
}

#[cfg(test)]
mod tests;
