use super::{Connections, LIMITS, accept_failed};
use crate::body::Body;
use crate::credentials::Credentials;
use crate::service::{ApiService, refuse};
use crate::status::Status;
use crate::{Api, Identity};
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use subtle::ConstantTimeEq;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// A peer that takes longer to shake hands is none of ours.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the TLS side cannot start.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("the server's certificate or key cannot be read")]
    ReadKey(#[from] rustls::pki_types::pem::Error),
    #[error("the server's certificate and key cannot be used")]
    UseKey(#[from] rustls::Error),
}

/// Serves the API over TLS until `shutdown` is ready, to whoever shows the bearer token of `credentials`.
///
/// # Errors
/// [`TlsError`] when the credentials cannot be used; once serving, nothing ends it but `shutdown`.
pub async fn tls(
    listener: TcpListener,
    api: Api,
    credentials: &Credentials,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), TlsError> {
    let acceptor = acceptor(credentials)?;
    let token: Arc<str> = credentials.token().into();
    let connections = Arc::new(Connections::new(LIMITS));
    tokio::pin!(shutdown);
    let mut pending = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = pending.join_next() => continue,
            accepted = async { (connections.place().await, listener.accept().await) } => accepted,
        };
        match accepted {
            (place, Ok((stream, peer))) => {
                // Nagle's algorithm against delayed acknowledgements costs 40 ms per watch event.
                if let Err(error) = stream.set_nodelay(true) {
                    log::debug!(peer:% = peer, error:% = error; "TCP_NODELAY");
                }
                let service =
                    connections.stoppable(api.service(Identity { user: "admin".to_owned() }));
                let admitted = Arc::new(Notify::new());
                let service = Authenticated {
                    service,
                    token: Arc::clone(&token),
                    admitted: Arc::clone(&admitted),
                };
                let (acceptor, connections) = (acceptor.clone(), Arc::clone(&connections));
                pending.spawn(async move {
                    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            let admitted = async move { admitted.notified().await };
                            connections.serve(stream, service, place, admitted);
                        }
                        Ok(Err(error)) => {
                            log::debug!(peer:% = peer, error:% = error; "TLS handshake failed");
                        }
                        Err(_) => log::debug!(peer:% = peer; "TLS handshake took too long"),
                    }
                });
            }
            (_, Err(error)) => accept_failed(&error).await,
        }
    }
    pending.shutdown().await;
    if let Some(connections) = Arc::into_inner(connections) {
        connections.finish().await;
    }
    Ok(())
}

fn acceptor(credentials: &Credentials) -> Result<TlsAcceptor, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(credentials.certificate().as_bytes())
        .collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(credentials.key().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The API behind a bearer token.
#[derive(Clone)]
struct Authenticated {
    service: ApiService,
    token: Arc<str>,
    /// Told of each request that is let in.
    admitted: Arc<Notify>,
}

impl<B> tower::Service<Request<B>> for Authenticated
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let header =
            request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let shown = header.strip_prefix(b"Bearer ").unwrap_or_default();
        if bool::from(shown.ct_eq(self.token.as_bytes())) {
            self.admitted.notify_one();
            return self.service.call(request);
        }
        let mut response = refuse(&Status::unauthorized());
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Box::pin(std::future::ready(Ok(response)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CONNECTIONS, Limits};
    use super::*;
    use crate::Config;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    /// A test that waits longer than this has failed.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Bytes on their way between client and server.
    const PIPE: usize = 4096;
    const HELLO: &str = "GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer token\r\n\r\n";

    struct Served {
        api: Api,
        connections: Connections,
        _directory: tempfile::TempDir,
    }

    impl Served {
        fn new(admission: Duration, stalled: Duration) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let api = Api::open(Config::new(directory.path())).unwrap();
            let connections = Connections::new(Limits { admission, stalled });
            Self { api, connections, _directory: directory }
        }

        /// A connection whose handshake is done.
        async fn connect(&self) -> DuplexStream {
            let (client, server) = duplex(PIPE);
            let service = self.api.service(Identity { user: "test".to_owned() });
            let admitted = Arc::new(Notify::new());
            let service =
                Authenticated { service, token: "token".into(), admitted: Arc::clone(&admitted) };
            let place = self.connections.place().await;
            let admitted = async move { admitted.notified().await };
            self.connections.serve(server, service, place, admitted);
            client
        }

        /// Returns when every place is free.
        async fn emptied(&self) {
            let all = u32::try_from(CONNECTIONS).unwrap();
            let places = self.connections.places.acquire_many(all);
            drop(timeout(DEADLINE, places).await.expect("every place is given back").unwrap());
        }
    }

    #[tokio::test]
    async fn strangers_keep_no_places() {
        let served = Served::new(Duration::from_millis(50), DEADLINE);
        let mut strangers = Vec::new();
        for said in [
            "",
            "GET",
            "GET /version HTTP/1.1\r\nhost: x\r\n",
            "GET /version HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer other\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        ] {
            let mut stranger = served.connect().await;
            stranger.write_all(said.as_bytes()).await.unwrap();
            strangers.push(stranger);
        }
        served.emptied().await;
        drop(strangers);
    }

    #[tokio::test]
    async fn a_client_that_was_let_in_may_rest() {
        let admission = Duration::from_secs(1);
        let served = Served::new(admission, DEADLINE);
        let mut client = served.connect().await;
        for _ in 0..2 {
            client.write_all(HELLO.as_bytes()).await.unwrap();
            let mut answer = [0; 15];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
            // The rest of the answer.
            while timeout(admission * 2, client.read_u8()).await.is_ok_and(|byte| byte.is_ok()) {}
        }
    }

    /// A server with much to read, and a client that has asked for a watch of it.
    async fn watched(served: &Served) -> DuplexStream {
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
        let mut client = served.connect().await;
        let watch = HELLO.replace("/version", "/api/v1/configmaps?watch=true");
        client.write_all(watch.as_bytes()).await.unwrap();
        client
    }

    #[tokio::test]
    async fn a_client_that_never_reads_is_dropped() {
        let served = Served::new(DEADLINE, Duration::from_millis(50));
        let client = watched(&served).await;
        served.emptied().await;
        drop(client);
    }
}
