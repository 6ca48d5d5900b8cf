//! An HTTP server for probes, Prometheus and webhooks: small pages, one request per connection.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming as RequestBody;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::accept::{Caller, Incoming, Limits};

/// Longest time for a request to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest duration of a connection: a client that does not read its answer must not keep its slot.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
const LIMITS: Limits = Limits {
    connections: 32,
    pending: 16,
    first_request: REQUEST_TIMEOUT,
    remedy: "let fewer clients request probes and metrics at a time",
};

/// Serves the pages of `router` for ever.
pub async fn serve(listener: TcpListener, router: Router) -> Infallible {
    let mut incoming = Incoming::new(listener, LIMITS);
    loop {
        let connection = incoming.next().await;
        let (caller, router) = (connection.caller(), router.clone());
        tokio::spawn(timeout(CONNECTION_TIMEOUT, answer(connection, caller, router)));
    }
}

/// Serves the pages of `router` over TLS, for ever.
pub async fn serve_tls(listener: TcpListener, acceptor: TlsAcceptor, router: Router) -> Infallible {
    let mut incoming = Incoming::new(listener, LIMITS);
    loop {
        let connection = incoming.next().await;
        let (caller, router, acceptor) = (connection.caller(), router.clone(), acceptor.clone());
        tokio::spawn(timeout(CONNECTION_TIMEOUT, async move {
            match acceptor.accept(connection).await {
                Ok(connection) => answer(connection, caller, router).await,
                Err(error) => log::debug!(error:%; "TLS handshake"),
            }
        }));
    }
}

/// Answers one request, unless the client disconnects.
async fn answer<S>(connection: S, caller: Caller, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request: Request<RequestBody>| {
        caller.record_request();
        router.clone().oneshot(request.map(Body::new))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(connection), service);
    drop(served.await);
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_probe_is_answered_although_idle_connections_exceed_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Router::new().route("/healthz", get("fine"))));
        let mut silent = Vec::new();
        for _ in 0..2 * LIMITS.connections {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET /healthz HTTP/1.1\r\nHost: rabbit-1\r\n\r\n").await.unwrap();
        let mut response = String::new();
        probe.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("fine"), "{response}");
    }
}
