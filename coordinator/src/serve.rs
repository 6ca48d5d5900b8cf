//! Serves gRPC on the unix sockets, and on TCP with mutual TLS.

mod refusals;

use std::io;
use std::net::SocketAddr;

use daemon::accept::{Caller, Incoming, Limits, Local};
use nix::sys::socket::{setsockopt, sockopt};
use proto::limits::FROM_NODE;
use proto::pem::{self, PemError};
use proto::v1::cluster_server::ClusterServer;
use proto::v1::node_link_server::NodeLinkServer;
use proto::v1::workloads_server::WorkloadsServer;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tonic::service::InterceptorLayer;
use tonic::transport::server::{Router, TcpConnectInfo, UdsConnectInfo};
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Status};
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use crate::cluster::ClusterService;
use crate::config::Tls;
use crate::files;
use crate::link::Link;
use crate::workloads::WorkloadsService;
use refusals::bounded_refusals;

/// Seconds of silence after which the kernel probes a node's connection: the coordinator itself sends a silent node
/// nothing, and so would not notice that the node is dead.
const KEEPALIVE_IDLE: u32 = 60;
/// Seconds between the kernel's probes, and the number of unanswered probes that ends the connection.
const KEEPALIVE_PROBES: (u32, u32) = (10, 3);
/// Milliseconds after which an unacknowledged message ends the connection. While a message is unacknowledged the
/// kernel does not probe, and by default retransmits for a quarter of an hour (tcp(7), `TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED: u32 = 30_000;

/// The reason why gRPC cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("set up TLS with the given certificates")]
    Tls(#[source] tonic::transport::Error),
    #[error("describe the protocol for reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
    #[error("serve the Kubernetes API over TLS")]
    Api(#[source] crate::standalone::TlsError),
    #[error(
        "a task of the coordinator ended unexpectedly, which is a defect: the log names the task"
    )]
    Ended,
    #[error("serve gRPC")]
    Serve(#[source] tonic::transport::Error),
}

/// The gRPC services; clones serve on several listeners.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub link: Link,
    pub cluster: ClusterService,
    pub workloads: WorkloadsService,
    pub health: HealthReporter,
}

#[derive(Debug)]
pub(crate) struct TlsListener {
    listener: TcpListener,
    config: ServerTlsConfig,
    limits: Limits,
}

impl TlsListener {
    /// Reads the certificates, and binds the socket.
    pub(crate) async fn bind(tls: &Tls) -> Result<Self, ServeError> {
        let identity = pem::identity(&tls.certificate, &tls.key)?;
        let authority = pem::authority(&tls.authority)?;
        let config = ServerTlsConfig::new().identity(identity).client_ca_root(authority);
        // Checks the certificates before it binds the port.
        Server::builder().tls_config(config.clone()).map_err(ServeError::Tls)?;
        let address = tls.listen;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServeError::Listen { address, source })?;
        set_keepalive(&listener).map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, config, limits: files::tcp_connections() })
    }

    /// Returns the bound address, with the port that the kernel picked for port 0.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }
}

/// Lets the kernel detect dead nodes. Accepted connections inherit these options from their listener.
fn set_keepalive(listener: &TcpListener) -> io::Result<()> {
    setsockopt(listener, sockopt::KeepAlive, &true)?;
    setsockopt(listener, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE)?;
    setsockopt(listener, sockopt::TcpKeepInterval, &KEEPALIVE_PROBES.0)?;
    setsockopt(listener, sockopt::TcpKeepCount, &KEEPALIVE_PROBES.1)?;
    Ok(setsockopt(listener, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?)
}

/// Marks the request's connection as used, so that it is not closed as idle. Every request passes
/// through this function first.
#[expect(clippy::unnecessary_wraps, reason = "an interceptor may refuse")]
fn mark_connection_used<I: Clone + Send + Sync + 'static>(
    request: Request<()>,
) -> Result<Request<()>, Status> {
    if let Some((caller, _)) = request.extensions().get::<(Caller, I)>() {
        caller.record_request();
    }
    Ok(request)
}

impl Services {
    /// Serves root and the coordinator's own user on a unix socket until `stop`.
    pub(crate) async fn on_unix(
        self,
        listener: UnixListener,
        limits: Limits,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let incoming = Incoming::new(Local::new(listener, Vec::new()), limits).connections();
        let server = Server::builder()
            .layer(InterceptorLayer::new(mark_connection_used::<UdsConnectInfo>))
            .layer(bounded_refusals());
        self.add_services(server)?
            .serve_with_incoming_shutdown(incoming, stop)
            .await
            .map_err(ServeError::Serve)
    }

    /// Serves `Workloads`, and nothing else, to every user of this host on a unix socket until `stop`.
    pub(crate) async fn on_open_unix(
        self,
        listener: UnixListener,
        limits: Limits,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let incoming = Incoming::new(Local::open(listener), limits).connections();
        Server::builder()
            .layer(InterceptorLayer::new(mark_connection_used::<UdsConnectInfo>))
            .layer(bounded_refusals())
            .add_service(WorkloadsServer::new(self.workloads))
            .serve_with_incoming_shutdown(incoming, stop)
            .await
            .map_err(ServeError::Serve)
    }

    /// Serves holders of certificates on TCP until `stop`.
    pub(crate) async fn on_tcp(
        self,
        listener: TlsListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let incoming = Incoming::new(listener.listener, listener.limits).connections();
        let server = Server::builder().tls_config(listener.config).map_err(ServeError::Tls)?;
        let server = server
            .layer(InterceptorLayer::new(mark_connection_used::<TcpConnectInfo>))
            .layer(bounded_refusals());
        self.add_services(server)?
            .serve_with_incoming_shutdown(incoming, stop)
            .await
            .map_err(ServeError::Serve)
    }

    fn add_services<L: Clone>(self, mut server: Server<L>) -> Result<Router<L>, ServeError> {
        let health = HealthServer::new(HealthService::from_health_reporter(self.health));
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(ServeError::Reflection)?;
        Ok(server
            .add_service(NodeLinkServer::new(self.link).max_decoding_message_size(FROM_NODE))
            .add_service(ClusterServer::new(self.cluster))
            .add_service(WorkloadsServer::new(self.workloads))
            .add_service(health)
            .add_service(reflection))
    }
}

#[cfg(test)]
mod tests;
