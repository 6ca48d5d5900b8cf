use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::getsockopt;
use proto::v1::ListNodesRequest;
use proto::v1::cluster_client::ClusterClient;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tonic::Streaming;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use workflow::EngineHandle;

use super::*;
use crate::health;
use crate::hub::Hub;

/// Deadline of waits, longer than any step of these tests.
const LONG: Duration = Duration::from_secs(60);
/// Deadline of a connection's first request, for tests in which this deadline must never pass.
const NEVER: Duration = Duration::from_secs(3600);

/// Creates the services without an API; no test here calls one that needs an API.
async fn services_without_api() -> Services {
    let unreachable = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(io::Error::other("no API"))
    });
    let client = kube::Client::new(unreachable, "default");
    let (hub, engine) = (Arc::new(Hub::new().0), EngineHandle::new().0);
    let stop = tokio::sync::watch::Sender::new(false).subscribe();
    let managers = crate::workloads::Managers::default();
    Services {
        link: Link::new(hub.clone()),
        cluster: ClusterService::new(hub.clone(), engine, client.clone(), &[]),
        workloads: WorkloadsService::new(client, hub, managers, workflow::Rules::default(), stop),
        health: health::reporter().await,
    }
}

/// gRPC served over TCP by this process, and the client's TLS configuration for it.
struct Served {
    address: SocketAddr,
    tls: ClientTlsConfig,
}

impl Served {
    async fn start(connections: usize, pending: usize, first_request: Duration) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(parameters, key);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap().pem();
        let identity = Identity::from_pem(certificate, key.serialize_pem());
        let authority = Certificate::from_pem(authority);
        let config =
            ServerTlsConfig::new().identity(identity.clone()).client_ca_root(authority.clone());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits { connections, pending, first_request, remedy: "end some" };
        let services = services_without_api().await;
        let listener = TlsListener { listener, config, limits };
        tokio::spawn(services.on_tcp(listener, std::future::pending()));
        let tls = ClientTlsConfig::new().ca_certificate(authority).identity(identity);
        Self { address, tls: tls.domain_name("localhost") }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Opens a connection with TLS and HTTP/2, without a request.
    async fn channel(&self) -> Option<Channel> {
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address)).unwrap();
        endpoint.tls_config(self.tls.clone()).unwrap().connect().await.ok()
    }

    /// Sends a request whose stream of answers stays open until dropped.
    async fn request(&self) -> Option<Streaming<HealthCheckResponse>> {
        let mut client = HealthClient::new(self.channel().await?);
        let response = client.watch(HealthCheckRequest::default()).await.ok()?;
        let mut answers = response.into_inner();
        answers.message().await.ok()??;
        Some(answers)
    }

    async fn request_until_accepted(&self) -> Streaming<HealthCheckResponse> {
        let accepted = async {
            loop {
                match self.request().await {
                    Some(answers) => return answers,
                    None => sleep(Duration::from_millis(20)).await,
                }
            }
        };
        timeout(LONG, accepted).await.expect("the request is accepted")
    }
}

async fn expect_close(mut stream: TcpStream) {
    let read =
        timeout(LONG, stream.read(&mut [0; 1])).await.expect("the server closes the connection");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_and_a_connection_with_a_request_stays_open() {
    let first_request = Duration::from_millis(300);
    let served = Served::start(3, 3, first_request).await;
    let mut answers = served.request_until_accepted().await;
    // Connections without a request occupy the other slots: one before TLS, one after TLS and HTTP/2.
    let silent = served.connect().await;
    let _idle = served.channel().await;
    let _answers = served.request_until_accepted().await;
    expect_close(silent).await;
    let more = timeout(first_request * 3, answers.message()).await;
    assert!(more.is_err(), "the stream is still open: {more:?}");
}

#[tokio::test]
async fn connections_without_a_request_do_not_block_clients() {
    let served = Served::start(16, 4, NEVER).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(served.connect().await);
    }
    let _answers = served.request_until_accepted().await;
    expect_close(silent.swap_remove(0)).await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed() {
    let served = Served::start(2, 2, NEVER).await;
    let requests = (served.request_until_accepted().await, served.request_until_accepted().await);
    assert!(served.request().await.is_none());
    expect_close(served.connect().await).await;
    drop(requests);
    served.request_until_accepted().await;
}

/// Reads until the server closes the connection.
async fn expect_unix_close(stream: &mut UnixStream) {
    let mut read = Vec::new();
    drop(
        timeout(LONG, stream.read_to_end(&mut read))
            .await
            .expect("the server closes the connection"),
    );
}

#[tokio::test]
async fn on_the_unix_socket_silent_connections_and_those_beyond_the_limit_are_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let services = services_without_api().await;
    let limits = Limits { connections: 2, pending: 2, first_request: NEVER, remedy: "end some" };
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(services.on_unix(listener, limits, std::future::pending()));
    let silent =
        [UnixStream::connect(&path).await.unwrap(), UnixStream::connect(&path).await.unwrap()];
    let at = format!("unix://{}", path.display());
    let mut clients = Vec::new();
    for mut silent in silent {
        let channel = Endpoint::from_shared(at.clone()).unwrap().connect().await.unwrap();
        let mut cluster = ClusterClient::new(channel);
        cluster.list_nodes(ListNodesRequest::default()).await.unwrap();
        clients.push(cluster);
        expect_unix_close(&mut silent).await;
    }
    expect_unix_close(&mut UnixStream::connect(&path).await.unwrap()).await;
    for mut cluster in clients {
        cluster.list_nodes(ListNodesRequest::default()).await.unwrap();
    }
}

#[tokio::test]
async fn the_kernel_ends_the_connection_of_a_dead_node_also_while_a_message_is_unacknowledged() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    set_keepalive(&listener).unwrap();
    let _node = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    assert_eq!(getsockopt(&accepted, sockopt::TcpUserTimeout).unwrap(), UNACKNOWLEDGED);
    assert!(getsockopt(&accepted, sockopt::KeepAlive).unwrap());
    assert_eq!(getsockopt(&accepted, sockopt::TcpKeepIdle).unwrap(), KEEPALIVE_IDLE);
    let probes = getsockopt(&accepted, sockopt::TcpKeepInterval).unwrap();
    let count = getsockopt(&accepted, sockopt::TcpKeepCount).unwrap();
    assert_eq!((probes, count), KEEPALIVE_PROBES);
}
