//! Unix sockets of daemons of this host.

use std::path::Path;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::failure::Failure;

/// A gRPC channel over a unix socket.
///
/// # Errors
/// When nobody answers there; `remedy` says what to do then.
pub async fn channel_over_unix(path: &Path, remedy: &str) -> Result<Channel, Failure> {
    let stream = connect(path, remedy).await?;
    // The first connection is the one that was made; one that is lost is lost.
    let mut stream = Some(TokioIo::new(stream));
    // The address is not used: the connector has its socket.
    let endpoint = Endpoint::from_static("http://warren");
    let connector = service_fn(move |_: Uri| {
        let stream = stream.take();
        async move { stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    endpoint.connect_with_connector(connector).await.map_err(|error| {
        Failure::unreachable(format!("open a gRPC channel at {}", path.display()), &error, remedy)
    })
}

/// Finds out early and in plain words whether anybody listens.
pub async fn probe(path: &Path, remedy: &str) -> Result<(), Failure> {
    connect(path, remedy).await.map(drop)
}

async fn connect(path: &Path, remedy: &str) -> Result<UnixStream, Failure> {
    UnixStream::connect(path).await.map_err(|error| {
        Failure::unreachable(format!("connect {}", path.display()), &error, remedy)
    })
}
