//! Tests of connection slots: which clients keep a slot, and for how long.

use super::*;
use crate::Config;
use daemon::accept::Limits;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Time after which a connection without an authenticated request is closed.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// Size of the buffer between client and server, in bytes.
const PIPE: usize = 4096;
const HELLO: &str = "GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer TOKEN\r\n\r\n";

/// A listener that accepts the connections that the test sends it.
struct Pipes(Mutex<UnboundedReceiver<DuplexStream>>);

impl Listener for Pipes {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<DuplexStream> {
        match self.0.lock().await.recv().await {
            Some(stream) => Ok(stream),
            None => std::future::pending().await,
        }
    }
}

/// A server, and the channel through which the test sends it connections.
struct Served {
    api: Api,
    credentials: Credentials,
    pipes: UnboundedSender<DuplexStream>,
    _directory: tempfile::TempDir,
}

impl Served {
    fn start(connections: usize, pending: usize, first_request: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let api = Api::open(Config::new(directory.path().join("store"))).unwrap();
        let address = ([127, 0, 0, 1], 6443).into();
        let credentials = Credentials::load_or_create(directory.path(), address).unwrap();
        let (pipes, accepted) = unbounded_channel();
        let limits = Limits { connections, pending, first_request, remedy: "end some" };
        let incoming = Incoming::new(Pipes(Mutex::new(accepted)), limits);
        let clients = Clients::WithToken(credentials.token().into());
        let server = Server::new(api.clone(), with_token(&credentials).unwrap(), clients);
        tokio::spawn(server.serve(incoming, std::future::pending()));
        Self { api, credentials, pipes, _directory: directory }
    }

    fn stranger(&self) -> DuplexStream {
        let (client, server) = duplex(PIPE);
        self.pipes.send(server).unwrap();
        client
    }

    /// Opens a connection and completes its handshake.
    async fn connect(&self) -> io::Result<TlsStream<DuplexStream>> {
        let mut roots = RootCertStore::empty();
        let pem = serde_json::to_value(&self.credentials).unwrap();
        let pem = pem["ca_certificate"].as_str().unwrap().as_bytes();
        roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(ServerName::try_from("127.0.0.1").unwrap(), self.stranger()).await
    }

    fn hello(&self) -> String {
        HELLO.replace("TOKEN", self.credentials.token())
    }

    async fn answers(&self, client: &mut TlsStream<DuplexStream>) -> bool {
        let mut answer = [0; 15];
        client.write_all(self.hello().as_bytes()).await.is_ok()
            && client.read_exact(&mut answer).await.is_ok()
            && answer == *b"HTTP/1.1 200 OK"
    }
}

/// Reads until the server closes the connection.
async fn wait_until_closed(stream: &mut (impl AsyncRead + Unpin)) {
    // The server may close the connection with an error or without.
    drop(stream.read_to_end(&mut Vec::new()).await);
}

/// Returns whether the connection stays open for a while.
async fn is_open(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    timeout(FIRST_REQUEST * 2, wait_until_closed(stream)).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn clients_can_connect_although_unauthenticated_connections_fill_all_slots() {
    // In this test no connection is closed because of its age.
    let served = Served::start(8, 4, Duration::from_secs(u64::from(u32::MAX)));
    let mut strangers: Vec<_> = (0..100).map(|_| served.stranger()).collect();
    let mut rests = served.connect().await.unwrap();
    assert!(served.answers(&mut rests).await);
    strangers.extend((0..100).map(|_| served.stranger()));
    let mut client = served.connect().await.unwrap();
    assert!(served.answers(&mut client).await);
    wait_until_closed(&mut strangers[0]).await;
    assert!(is_open(&mut rests).await, "an authenticated client stays");
}

#[tokio::test(start_paused = true)]
async fn unauthenticated_connections_are_closed_after_a_time() {
    let served = Served::start(8, 8, FIRST_REQUEST);
    let mut strangers = Vec::new();
    for log in [
        "",
        "GET",
        "GET /version HTTP/1.1\r\nhost: x\r\n",
        "GET /version HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer other\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        let mut stranger = served.connect().await.unwrap();
        stranger.write_all(log.as_bytes()).await.unwrap();
        strangers.push(stranger);
    }
    wait_until_closed(&mut served.stranger()).await;
    for stranger in &mut strangers {
        wait_until_closed(stranger).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_authenticated_client_may_stay_idle() {
    let served = Served::start(1, 1, FIRST_REQUEST);
    let mut client = served.connect().await.unwrap();
    for _ in 0..2 {
        assert!(served.answers(&mut client).await);
        assert!(is_open(&mut client).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_a_client_that_never_reads_is_closed_and_its_slot_becomes_free() {
    let served = Served::start(1, 1, FIRST_REQUEST);
    let service = served.api.service(Identity { user: "test".to_owned() });
    for index in 0..4 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{index}")},
            "data": {"v": "x".repeat(100_000)}});
        let request = Request::post("/api/v1/namespaces/default/configmaps");
        let request = request.header("content-type", "application/json");
        let body = http_body_util::Full::new(hyper::body::Bytes::from(map.to_string()));
        let answer = tower::ServiceExt::oneshot(service.clone(), request.body(body).unwrap());
        assert_eq!(answer.await.unwrap().status(), 201);
    }
    let mut client = served.connect().await.unwrap();
    let watch = served.hello().replace("/version", "/api/v1/configmaps?watch=true");
    client.write_all(watch.as_bytes()).await.unwrap();
    // The server has one slot, which this connection occupies.
    let dropped = async {
        loop {
            match served.connect().await {
                Ok(other) => return other,
                Err(_) => sleep(Duration::from_secs(1)).await,
            }
        }
    };
    let mut other =
        timeout(STALLED * 3, dropped).await.expect("the dropped client has no slot any more");
    assert!(served.answers(&mut other).await);
}
