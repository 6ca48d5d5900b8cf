use super::tls::{Clients, Server};
use crate::{Api, Identity, Rights};
use daemon::accept::{Incoming, Limits};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::future::Future;
use tokio::net::TcpListener;

/// Serves the API over TLS until `shutdown` resolves, to clients with a certificate. `config` must require one; `identify`
/// returns whose it is, or `None` to refuse the client. Each client has the given rights. A client may need a connection for
/// each of its watches.
pub async fn mutual_tls(
    listener: TcpListener,
    api: Api,
    (config, limits): (ServerConfig, Limits),
    identify: fn(&CertificateDer<'_>) -> Option<Identity>,
    rights: Rights,
    shutdown: impl Future<Output = ()> + Send,
) {
    let clients = Clients::Certified { identify, rights };
    let server = Server::new(api, config, clients);
    server.serve(Incoming::new(listener, limits), shutdown).await;
}
