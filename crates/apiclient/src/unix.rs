//! HTTP over a unix socket.

use std::path::Path;

use hyper::{Request, Uri};
use hyper_util::{
    client::legacy::Client as HttpClient,
    rt::{TokioExecutor, TokioIo},
};
use kube::{Client, client::Body};
use tokio::net::UnixStream;
use tower::{ServiceExt, service_fn};

/// Returns a client of the API at the socket, which keeps connections open for later requests.
pub(crate) fn client(path: &Path) -> Client {
    let path = path.to_owned();
    let connect = service_fn(move |_: Uri| {
        let path = path.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    });
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connect);
    Client::new(http.map_request(with_authority), "default")
}

/// Adds the authority that HTTP requires; the request goes to the socket, whatever the host is.
fn with_authority(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = format!("http://localhost{path}").parse() {
        *request.uri_mut() = uri;
    }
    request
}
