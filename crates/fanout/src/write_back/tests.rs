use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;
use kube::core::Status;
use proto::v1::to_node::Message;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::fanout::{Listing, NodeKind};
use crate::object::{ProfileObject, tests::mount};

/// Deadline of each wait: longer than any step of these tests, and shorter than [`REFUSED_DELAY`], so that a repetition
/// in time was not caused by that delay.
const SOON: Duration = Duration::from_secs(10);

/// An API that accepts finalizers on one compute's ClientMounts, or answers with the error code that the test has
/// set for a ClientMount.
#[derive(Clone, Debug, Default)]
struct FakeApi {
    /// Error codes by name of the ClientMount.
    codes: Arc<Mutex<BTreeMap<String, u16>>>,
    /// Number of requests by name of the ClientMount.
    requests: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl FakeApi {
    fn answer_with(&self, name: &str, code: Option<u16>) {
        let mut codes = self.codes.lock().unwrap();
        match code {
            Some(code) => codes.insert(name.to_owned(), code),
            None => codes.remove(name),
        };
    }

    fn requests(&self, name: &str) -> usize {
        self.requests.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    fn client(&self) -> Client {
        let api = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let response = api.answer(request.uri().path());
            async { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    fn answer(&self, path: &str) -> Response<Body> {
        let name = path.split('/').next_back().unwrap();
        *self.requests.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        let code = self.codes.lock().unwrap().get(name).copied();
        let body = match code {
            Some(code) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": name
                });
                status.to_string().into_bytes()
            }
            None => mount("n1", name, 1, 9).json,
        };
        Response::builder().status(code.unwrap_or(200)).body(Body::from(body)).unwrap()
    }
}

/// The session of a node whose ClientMounts do not carry the finalizer yet.
struct NodeSession {
    exchange: Arc<Exchange>,
    notify: Arc<tokio::sync::Notify>,
}

impl NodeSession {
    fn start(names: &[&str]) -> Self {
        let exchange = Arc::new(Exchange::default());
        let notify = exchange.open("n1", 1, NodeKind::Compute);
        let pinned = Key::new("default", "pinned");
        let profile = ProfileObject { key: pinned, resource_version: "1".into(), json: Vec::new() };
        exchange.replace_profiles(vec![profile]);
        let without_finalizer = names.iter().map(|name| {
            let mut object = mount("n1", name, 1, 5);
            object.finalizers.clear();
            object
        });
        exchange.replace_mounts(without_finalizer.collect());
        assert!(exchange.start_session(
            "n1",
            1,
            &Listing { version: "0".into(), objects: Vec::new() }
        ));
        Self { exchange, notify }
    }

    /// Returns the name of the next ClientMount that is sent to the node, or "synced" for the message that every
    /// ClientMount was sent.
    async fn next(&self) -> String {
        let next = async {
            loop {
                match self.exchange.next("n1", 1).unwrap() {
                    Some(Message::Desired(desired)) => return desired.name,
                    Some(Message::Synced(_)) => return "synced".to_owned(),
                    Some(other) => panic!("{other:?}"),
                    None => self.notify.notified().await,
                }
            }
        };
        timeout(SOON, next).await.expect("the session gets a message in time")
    }
}

#[tokio::test]
async fn a_failing_write_does_not_delay_the_writes_of_other_objects() {
    let api = FakeApi::default();
    let failing: Vec<String> = (0..WRITERS).map(|number| format!("a{number}")).collect();
    failing.iter().for_each(|name| api.answer_with(name, Some(500)));
    let names: Vec<&str> = failing.iter().map(String::as_str).chain(["well"]).collect();
    let session = NodeSession::start(&names);
    tokio::select! {
        () = write_back(api.client(), session.exchange.clone()) => {}
        next = session.next() => assert_eq!(next, "well"),
    }
}

async fn writer(api: &FakeApi, exchange: &Arc<Exchange>) -> Writer {
    let key = exchange.take_write().await;
    Writer::new(api.client(), exchange.clone(), key, Arc::new(Semaphore::new(1)))
}

/// Runs a writer until the API has received this many requests for the ClientMount `a`.
async fn until_requests(
    api: &FakeApi,
    times: usize,
    writing: &mut (impl Future<Output = ()> + Unpin),
) {
    let requested = async {
        while api.requests("a") < times {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = writing => panic!("the writer ended before the API accepted the write"),
        requested = timeout(SOON, requested) => requested.expect("the request is repeated"),
    }
}

#[tokio::test]
async fn a_refused_write_is_repeated_until_the_api_accepts_it() {
    for code in [404, 422] {
        let api = FakeApi::default();
        api.answer_with("a", Some(code));
        let session = NodeSession::start(&["a"]);
        assert!(session.exchange.next("n1", 1).unwrap().is_none(), "the finalizer comes first");
        let writer = Writer {
            refused_delay: Duration::from_millis(20),
            ..writer(&api, &session.exchange).await
        };
        let mut writing = Box::pin(writer.write());
        until_requests(&api, 2, &mut writing).await;
        if code == 422 {
            assert_eq!(
                session.next().await,
                "synced",
                "the message Synced does not wait for the finalizer"
            );
        }
        api.answer_with("a", None);
        timeout(SOON, writing).await.expect("the write is repeated until it works");
        assert_eq!(session.next().await, "a");
    }
}

#[tokio::test]
async fn a_refused_write_is_repeated_when_its_object_changes_and_dropped_when_it_is_gone() {
    let api = FakeApi::default();
    api.answer_with("a", Some(422));
    let session = NodeSession::start(&["a"]);
    assert!(session.exchange.next("n1", 1).unwrap().is_none(), "the finalizer comes first");
    let mut writing = Box::pin(writer(&api, &session.exchange).await.write());
    until_requests(&api, 1, &mut writing).await;
    let mut changed = mount("n1", "a", 2, 6);
    changed.finalizers.clear();
    session.exchange.apply_mount(changed);
    until_requests(&api, 2, &mut writing).await;
    session.exchange.remove_mount(&Key::new("n1", "a"), "uid-a");
    timeout(SOON, writing).await.expect("the object is gone");
    assert_eq!(api.requests("a"), 2);
}

#[test]
fn the_http_codes_404_409_and_422_have_failure_kinds_of_their_own() {
    for (code, kind) in [
        (404, Failure::NotFound),
        (409, Failure::Conflict),
        (422, Failure::Refused),
        (403, Failure::Retry),
        (429, Failure::Retry),
        (500, Failure::Retry),
    ] {
        let status = Status { code, ..Status::default() };
        assert_eq!(Failure::classify(&kube::Error::Api(Box::new(status))), kind, "{code}");
    }
}
