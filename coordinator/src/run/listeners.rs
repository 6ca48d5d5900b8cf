//! The sockets of a coordinator, all bound before any work begins. The embedded API binds its own.

use daemon::{listen, listen_open};
use tokio::net::{TcpListener, UnixListener};

use super::StartError;
use crate::config::Config;
use crate::serve::TlsListener;
use crate::{http, webhook};

pub(super) struct Listeners {
    /// For root on this host.
    pub(super) socket: UnixListener,
    /// For every user of this host: workload managers and jobs.
    pub(super) open: Option<UnixListener>,
    /// For nodes.
    pub(super) tls: Option<TlsListener>,
    /// For probes and metrics.
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
