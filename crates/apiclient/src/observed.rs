//! A client that passes the status of each answer to an observer. A new watch sends nothing until an object changes, so
//! the status of its answer is the only sign that it works.

use http::Request;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// An answer of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// True if the request was for a watch.
    pub watch: bool,
    /// HTTP status code of the answer.
    pub status: u16,
}

/// Returns the client with `observe` added, which is called when an answer begins.
pub fn observed(
    client: Client,
    observe: impl Fn(Answer) + Clone + Send + Sync + 'static,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, observe) = (client.clone(), observe.clone());
        let query = request.uri().query().unwrap_or_default();
        let watch = query.split('&').any(|part| part == "watch=true");
        async move {
            let response = client.send(request).await?;
            observe(Answer { watch, status: response.status().as_u16() });
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, namespace)
}
