//! The API over HTTP: on a unix socket for local programs, on TCP with TLS for kubectl.

mod tls;
mod unix;

pub use tls::{TlsError, tls};
pub use unix::unix;

use crate::body::STALLED;
use crate::service::ApiService;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;

/// Connections served at a time; more wait to be accepted.
const CONNECTIONS: usize = 1024;
/// What a connection may take its time for.
const LIMITS: Limits = Limits { admission: Duration::from_secs(10), stalled: STALLED };
/// Bytes that wait to be sent on a connection, or on a stream of one.
const UNSENT: usize = 64 << 10;
/// How long requests in flight may take to finish on shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// Pause when the process has no file descriptors left.
const EXHAUSTED: Duration = Duration::from_millis(200);

struct Limits {
    /// To bring a request that is let in. Without a limit whoever can connect could keep every place, with connections that
    /// say nothing, half a request, or nothing that is worth an answer.
    admission: Duration,
    /// To take something of what is sent to it.
    stalled: Duration,
}

/// What the accept loops share.
struct Connections {
    limits: Limits,
    places: Arc<Semaphore>,
    graceful: GracefulShutdown,
    stop: watch::Sender<bool>,
}

impl Connections {
    fn new(limits: Limits) -> Self {
        let stop = watch::channel(false).0;
        Self {
            limits,
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            graceful: GracefulShutdown::new(),
            stop,
        }
    }

    async fn place(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Serves one connection in a task of its own, until it ends, takes nothing of what is sent for long, or is not
    /// `admitted` in time.
    fn serve<I, S, B>(
        &self,
        io: I,
        service: S,
        place: OwnedSemaphorePermit,
        admitted: impl Future<Output = ()> + Send + 'static,
    ) where
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
        io.set_write_timeout(Some(self.limits.stalled));
        let connection = builder
            .serve_connection(TokioIo::new(Box::pin(io)), TowerToHyperService::new(service))
            .into_owned();
        let connection = self.graceful.watch(connection);
        let admission = self.limits.admission;
        tokio::spawn(async move {
            let stranger = async {
                if timeout(admission, admitted).await.is_ok() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        log::debug!(error:% = error; "API connection broke off");
                    }
                }
                () = stranger => log::debug!("API connection without a request that is let in closed"),
            }
            drop(place);
        });
    }

    fn stoppable(&self, service: ApiService) -> ApiService {
        service.stopped_by(self.stop.subscribe())
    }

    /// Ends the watches, and gives everything else a moment to finish.
    async fn finish(self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(GRACE, self.graceful.shutdown()).await.is_err() {
            log::warn!("API connections were cut off at shutdown");
        }
    }
}

/// Says what an accept error means, and waits when only time can help.
async fn accept_failed(error: &io::Error) {
    log::warn!(error:% = error; "an API connection could not be accepted");
    let exhausted = [nix::libc::EMFILE, nix::libc::ENFILE, nix::libc::ENOMEM, nix::libc::ENOBUFS];
    if error.raw_os_error().is_some_and(|code| exhausted.contains(&code)) {
        tokio::time::sleep(EXHAUSTED).await;
    }
}
