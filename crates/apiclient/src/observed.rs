//! A client that passes the HTTP status of each answer to an observer. The answer to a watch request has no content
//! until an object changes, so its HTTP status is the only sign that the watch works.

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

/// Returns a client that sends its requests through `client`, and calls `observe` when the headers of an answer arrive.
pub fn observe_answers(
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
