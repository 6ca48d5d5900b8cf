//! The API over HTTP: on a unix socket for local programs, on TCP with TLS for kubectl.

mod mutual_tls;
mod tls;
mod unix;

pub use mutual_tls::mutual_tls;
pub use tls::{TlsError, tls};
pub use unix::unix;

use crate::service::ApiService;
use daemon::accept::Limits;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;

/// Limits of each listener. A connection that makes no request is closed after a while. On TCP, so is a connection
/// whose requests all lack the token: otherwise clients without the token could occupy all connections.
const LIMITS: Limits = Limits {
    connections: 1024,
    pending: 256,
    first_request: Limits::FIRST_REQUEST,
    remedy: "let fewer clients keep connections to this API",
};
/// Largest number of unsent bytes of a connection; also the limit of each of its streams.
const UNSENT: usize = 64 << 10;
/// Time that running requests may take to finish on shutdown.
const GRACE: Duration = Duration::from_secs(5);

struct Connections {
    /// Longest time for which a client may leave sent bytes unread.
    stalled: Duration,
    graceful: GracefulShutdown,
    stop: watch::Sender<bool>,
}

impl Connections {
    fn new(stalled: Duration) -> Self {
        Self { stalled, graceful: GracefulShutdown::new(), stop: watch::channel(false).0 }
    }

    /// Starts a task that serves one connection, until the connection ends or the client stops reading.
    fn serve<I, S, B>(&self, io: I, service: S)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: tower::Service<http::Request<hyper::body::Incoming>, Response = http::Response<B>>
            + Clone
            + Send
            + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body<Data = hyper::body::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().max_buf_size(UNSENT);
        builder.http2().max_send_buf_size(UNSENT);
        let mut io = TimeoutStream::new(io);
        io.set_write_timeout(Some(self.stalled));
        let connection = builder
            .serve_connection(TokioIo::new(Box::pin(io)), TowerToHyperService::new(service))
            .into_owned();
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                log::debug!(error:% = error; "API connection broke off");
            }
        });
    }

    fn stoppable(&self, service: ApiService) -> ApiService {
        service.with_stop(self.stop.subscribe())
    }

    /// Ends the watches, then waits at most [`GRACE`] for other requests.
    async fn finish(self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(GRACE, self.graceful.shutdown()).await.is_err() {
            log::warn!("API connections were cut off at shutdown");
        }
    }
}
