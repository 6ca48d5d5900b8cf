//! Connects to the unix sockets on which daemons of this host listen.

use std::path::Path;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::failure::Failure;

/// Opens a gRPC channel over a unix socket.
///
/// # Errors
/// If no daemon listens on the socket. `remedy` is the advice for the user in this case.
pub async fn channel_over_unix(path: &Path, remedy: &str) -> Result<Channel, Failure> {
    let stream = connect(path, remedy).await?;
    // The connector returns the connection that was made above. A second call returns an error, so tonic does not
    // replace a lost connection.
    let mut stream = Some(TokioIo::new(stream));
    // tonic requires an address, but the connector ignores it: the socket is connected already.
    let endpoint = Endpoint::from_static("http://warren");
    let connector = service_fn(move |_: Uri| {
        let stream = stream.take();
        async move { stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    endpoint.connect_with_connector(connector).await.map_err(|error| {
        Failure::unreachable(format!("open a gRPC channel at {}", path.display()), &error, remedy)
    })
}

/// Checks that a daemon listens on the socket. A caller does this before its first request, because the error of a
/// failed request is harder to read.
pub async fn probe(path: &Path, remedy: &str) -> Result<(), Failure> {
    connect(path, remedy).await.map(drop)
}

async fn connect(path: &Path, remedy: &str) -> Result<UnixStream, Failure> {
    UnixStream::connect(path).await.map_err(|error| {
        Failure::unreachable(format!("connect {}", path.display()), &error, remedy)
    })
}
