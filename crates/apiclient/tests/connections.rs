//! Tests of the number of connections that a client opens to a server with TLS and HTTP/2, such as kube-apiserver.

#![expect(clippy::unwrap_used, reason = "a test fails if its set-up fails")]

use std::{
    convert::Infallible,
    fs,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use apiclient::{Address, Credentials, connect_with};
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use kube::{Client, client::Body};
use rcgen::CertifiedKey;
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Barrier};
use tokio_rustls::TlsAcceptor;

struct Server {
    client: Client,
    accepted: Arc<AtomicUsize>,
    _directory: TempDir,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (token, ca) = (directory.path().join("token"), directory.path().join("ca"));
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(&token, "t").unwrap();
        fs::write(&ca, cert.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let accepted = Arc::<AtomicUsize>::default();
        tokio::spawn(serve(listener, Arc::new(config).into(), Arc::clone(&accepted)));
        let server: Address = format!("https://{address}").parse().unwrap();
        let client = connect_with(&server, Some(&Credentials { token, ca })).await.unwrap();
        Self { client, accepted, _directory: directory }
    }

    async fn ask(&self, path: &str) -> kube::Result<String> {
        let request = Request::get(path).body(Vec::new()).unwrap();
        self.client.request_text(request).await
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, accepted: Arc<AtomicUsize>) {
    let pair = Arc::new(Barrier::new(2));
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        accepted.fetch_add(1, Ordering::SeqCst);
        let (acceptor, pair) = (acceptor.clone(), Arc::clone(&pair));
        tokio::spawn(async move {
            let stream = TokioIo::new(acceptor.accept(tcp).await.unwrap());
            let service = service_fn(|request| answer(request, Arc::clone(&pair)));
            // Ends when the client closes the connection.
            drop(Builder::new(TokioExecutor::new()).serve_connection(stream, service).await);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    pair: Arc<Barrier>,
) -> Result<Response<Body>, Infallible> {
    match request.uri().path() {
        "/never" => pending().await,
        // The server answers requests for `/pair` once two of them have arrived.
        "/pair" => {
            pair.wait().await;
        }
        _ => {}
    }
    Ok(Response::new(Body::from(b"answer".to_vec())))
}

#[tokio::test]
async fn parallel_requests_share_one_connection() {
    let server = Server::start().await;
    assert_eq!(server.ask("/").await.unwrap(), "answer");
    let (first, second) = tokio::join!(server.ask("/pair"), server.ask("/pair"));
    assert_eq!((first.unwrap(), second.unwrap()), ("answer".to_owned(), "answer".to_owned()));
    assert_eq!(server.accepted(), 1);
}

/// A load balancer may keep a connection open although the server behind it is dead.
#[tokio::test]
async fn after_a_request_without_an_answer_the_next_request_opens_a_new_connection() {
    let server = Server::start().await;
    server.ask("/").await.unwrap();
    tokio::time::pause();
    let error = server.ask("/never").await.unwrap_err();
    assert!(apiclient::plain(&error).starts_with("no answer from 127.0.0.1:"), "{error}");
    tokio::time::resume();
    assert_eq!(server.ask("/").await.unwrap(), "answer");
    assert_eq!(server.accepted(), 2);

    // The same holds if the caller gives up before the client's own time limit.
    tokio::time::pause();
    tokio::time::timeout(Duration::from_secs(8), server.ask("/never")).await.unwrap_err();
    tokio::time::resume();
    assert_eq!(server.ask("/").await.unwrap(), "answer");
    assert_eq!(server.accepted(), 3);
}
