//! Connects to unix sockets of daemons on this host.

use std::path::Path;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::failure::Failure;

/// Opens a gRPC channel over a unix socket.
///
/// # Errors
/// If no daemon answers; `remedy` tells the user what to do then.
pub async fn channel_over_unix(path: &Path, remedy: &str) -> Result<Channel, Failure> {
    let stream = connect(path, remedy).await?;
    // Hands out the connection that was made above; a lost connection is not replaced.
    let mut stream = Some(TokioIo::new(stream));
    // The connector ignores this address: it has its socket.
    let endpoint = Endpoint::from_static("http://warren");
    let connector = service_fn(move |_: Uri| {
        let stream = stream.take();
        async move { stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    endpoint.connect_with_connector(connector).await.map_err(|error| {
        Failure::unreachable(format!("open a gRPC channel at {}", path.display()), &error, remedy)
    })
}

/// Checks that a daemon listens on the socket, for a plain error before the first request.
pub async fn probe(path: &Path, remedy: &str) -> Result<(), Failure> {
    connect(path, remedy).await.map(drop)
}

async fn connect(path: &Path, remedy: &str) -> Result<UnixStream, Failure> {
    UnixStream::connect(path).await.map_err(|error| {
        Failure::unreachable(format!("connect {}", path.display()), &error, remedy)
    })
}
