//! HTTP over a unix socket.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use hyper::{Request, Uri};
use hyper_util::{
    client::legacy::Client as HttpClient,
    rt::{TokioExecutor, TokioIo},
};
use kube::{Client, client::Body};
use tokio::net::UnixStream;
use tower::{Service, ServiceExt};

/// A client of the API at the socket, which keeps connections and uses them again.
pub(crate) fn client(path: &Path) -> Client {
    let http: HttpClient<_, Body> =
        HttpClient::builder(TokioExecutor::new()).build(Connector(path.into()));
    Client::new(http.map_request(with_authority), "default")
}

/// Adds the authority that HTTP requires; requests go to the socket whatever the host is.
fn with_authority(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = format!("http://localhost{path}").parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// Connects to one socket, whatever the address.
#[derive(Debug, Clone)]
struct Connector(PathBuf);

impl Service<Uri> for Connector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_query_survive() {
        let request = Request::get("/api/v1/namespaces?limit=1").body(Body::empty()).unwrap();
        let uri = with_authority(request).uri().to_string();
        assert_eq!(uri, "http://localhost/api/v1/namespaces?limit=1");
    }
}
