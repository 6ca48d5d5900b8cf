//! The sockets of a coordinator, all bound before any task starts. The embedded API binds its own sockets itself.

use daemon::{listen, listen_open};
use tokio::net::{TcpListener, UnixListener};

use super::StartError;
use crate::config::Config;
use crate::serve::TlsListener;
use crate::{http, webhook};

pub(super) struct Listeners {
    /// Unix socket for agents and operators, for root and the coordinator's own user.
    pub(super) socket: UnixListener,
    /// Unix socket of `Workloads`, for every user of this host: workload managers and jobs.
    pub(super) open: Option<UnixListener>,
    /// TCP listener for nodes, with mutual TLS.
    pub(super) tls: Option<TlsListener>,
    /// TCP listener for probes and metrics.
    pub(super) http: Option<TcpListener>,
    pub(super) webhook: Option<webhook::Listener>,
}

impl Listeners {
    pub(super) async fn bind(config: &Config) -> Result<Self, StartError> {
        let tls = match &config.tls {
            Some(tls) => Some(TlsListener::bind(tls).await.map_err(StartError::Tcp)?),
            None => None,
        };
        let socket = listen(&config.socket)?;
        let open = config.workloads.as_deref().map(listen_open).transpose()?;
        let http = match config.http {
            Some(address) => Some(http::listen(address).await?),
            None => None,
        };
        let webhook = match &config.webhook {
            Some(webhook) => Some(webhook::Listener::bind(webhook).await?),
            None => None,
        };
        Ok(Self { socket, open, tls, http, webhook })
    }
}
