//! A client with an ear for its answers: a watch that was begun is quiet until something changes, and so would not tell that
//! it works.

use http::Request;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// An answer of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Whether it was asked for a watch.
    pub watch: bool,
    /// HTTP's status code.
    pub status: u16,
}

/// The same client, of whose answers `hear` is told when they begin.
pub fn listening(client: Client, hear: impl Fn(Heard) + Clone + Send + Sync + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, hear) = (client.clone(), hear.clone());
        let query = request.uri().query().unwrap_or_default();
        let watch = query.split('&').any(|part| part == "watch=true");
        async move {
            let response = client.send(request).await?;
            hear(Heard { watch, status: response.status().as_u16() });
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, namespace)
}
