//! HTTP for the kubelet's probes and for Prometheus: a few fixed pages, one request per connection.

use std::{convert::Infallible, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode, body::Bytes, header::CONTENT_TYPE, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, task::JoinSet};

use crate::signs::Signs;

/// Connections served at a time; whoever probes needs one.
const CONNECTIONS: usize = 16;
/// How long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause when the process has no file descriptors left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_secs(1);

/// What is served at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// `/healthz` and `/readyz`.
    Probes,
    /// `/metrics`.
    Metrics,
}

/// Serves pages for ever.
pub async fn serve(listener: TcpListener, pages: Pages, signs: Signs) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            continue;
        };
        let signs = signs.clone();
        let service = service_fn(move |request: Request<_>| {
            let answer = answer(pages, request.uri().path(), &signs);
            async { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // Whoever hangs up gets no answer, and needs none.
        connections.spawn(async { drop(connection.await) });
    }
}

fn answer(pages: Pages, path: &str, signs: &Signs) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let (status, kind, text) = match (pages, path.trim_end_matches('/')) {
        (Pages::Probes, "/healthz") => (StatusCode::OK, TEXT, "ok".to_owned()),
        (Pages::Probes, "/readyz") if signs.is_ready() => (StatusCode::OK, TEXT, "ok".to_owned()),
        (Pages::Probes, "/readyz") => (
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            "the API was not read to the end yet; the log says what is in the way".to_owned(),
        ),
        (Pages::Metrics, "/metrics") => (
            StatusCode::OK,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            signs.metrics(),
        ),
        _ => (StatusCode::NOT_FOUND, TEXT, "not found".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    #[test]
    fn pages() {
        let signs = Signs::default();
        let status = |pages, path: &str| answer(pages, path, &signs).status().as_u16();
        for (pages, path, expected) in [
            (Pages::Probes, "/healthz", 200),
            (Pages::Probes, "/healthz/", 200),
            (Pages::Probes, "/readyz", 503),
            (Pages::Probes, "/metrics", 404),
            (Pages::Probes, "/", 404),
            (Pages::Metrics, "/metrics", 200),
            (Pages::Metrics, "/healthz", 404),
        ] {
            assert_eq!(status(pages, path), expected, "{path}");
        }
        signs.set_ready();
        assert_eq!(status(Pages::Probes, "/readyz"), 200);
    }

    #[tokio::test]
    async fn a_probe_is_answered_and_hung_up_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Pages::Probes, Signs::default()));
        // As many as leave room for one, and none of them says anything.
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS - 1 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET /readyz HTTP/1.1\r\nHost: rabbit-1\r\n\r\n").await.unwrap();
        let mut told = String::new();
        probe.read_to_string(&mut told).await.unwrap();
        assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    }
}
