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
use crate::fanout::{Audience, Listing};
use crate::object::{ProfileObject, tests::mount};

/// Longer than anything here takes, and much less than a minute.
const SOON: Duration = Duration::from_secs(10);

/// An API that takes the finalizers of one compute's ClientMounts, but for those that it was told to answer with a code.
#[derive(Clone, Debug, Default)]
struct FakeApi {
    codes: Arc<Mutex<BTreeMap<String, u16>>>,
    /// How often it was asked for each.
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl FakeApi {
    fn answer_with(&self, name: &str, code: Option<u16>) {
        let mut codes = self.codes.lock().unwrap();
        match code {
            Some(code) => codes.insert(name.to_owned(), code),
            None => codes.remove(name),
        };
    }

    fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or_default()
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
        *self.asked.lock().unwrap().entry(name.to_owned()).or_default() += 1;
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

/// What a node is told of ClientMounts that do not carry its finalizer yet.
struct Sent {
    exchange: Arc<Exchange>,
    notify: Arc<tokio::sync::Notify>,
}

impl Sent {
    fn of(names: &[&str]) -> Self {
        let exchange = Arc::new(Exchange::default());
        let notify = exchange.open("n1", 1, Audience::Compute);
        let pinned = Key::new("default", "pinned");
        let profile = ProfileObject { key: pinned, resource_version: "1".into(), json: Vec::new() };
        exchange.replace_profiles(vec![profile]);
        let unheld = names.iter().map(|name| {
            let mut object = mount("n1", name, 1, 5);
            object.finalizers.clear();
            object
        });
        exchange.replace_mounts(unheld.collect());
        assert!(exchange.start_session(
            "n1",
            1,
            &Listing { version: "0".into(), objects: Vec::new() }
        ));
        Self { exchange, notify }
    }

    /// The name of the ClientMount that it is told of next; "synced" when it was told of all.
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
        timeout(SOON, next).await.expect("a message comes")
    }
}

#[tokio::test]
async fn those_whose_writes_fail_hold_up_no_others() {
    let api = FakeApi::default();
    let failing: Vec<String> = (0..WRITERS).map(|number| format!("a{number}")).collect();
    failing.iter().for_each(|name| api.answer_with(name, Some(500)));
    let names: Vec<&str> = failing.iter().map(String::as_str).chain(["well"]).collect();
    let sent = Sent::of(&names);
    tokio::select! {
        () = write_back(api.client(), sent.exchange.clone()) => {}
        next = sent.next() => assert_eq!(next, "well"),
    }
}

async fn writer(api: &FakeApi, exchange: &Arc<Exchange>) -> Writer {
    let key = exchange.take_write().await;
    Writer::new(api.client(), exchange.clone(), key, Arc::new(Semaphore::new(1)))
}

/// Writes until the API was asked so often.
async fn ask(api: &FakeApi, times: usize, writing: &mut (impl Future<Output = ()> + Unpin)) {
    let asked = async {
        while api.asked("a") < times {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = writing => panic!("the pending is given up"),
        asked = timeout(SOON, asked) => asked.expect("it is asked again"),
    }
}

#[tokio::test]
async fn what_was_refused_for_a_while_ends_in_a_mount() {
    for code in [404, 422] {
        let api = FakeApi::default();
        api.answer_with("a", Some(code));
        let sent = Sent::of(&["a"]);
        assert!(sent.exchange.next("n1", 1).unwrap().is_none(), "it must be held first");
        let writer =
            Writer { rest: Duration::from_millis(20), ..writer(&api, &sent.exchange).await };
        let mut writing = Box::pin(writer.write());
        ask(&api, 2, &mut writing).await;
        if code == 422 {
            assert_eq!(sent.next().await, "synced", "the node does not wait for it");
        }
        api.answer_with("a", None);
        timeout(SOON, writing).await.expect("it is tried again until it works");
        assert_eq!(sent.next().await, "a");
    }
}

#[tokio::test]
async fn what_was_refused_is_tried_at_once_when_there_is_news_and_given_up_with_its_object() {
    let api = FakeApi::default();
    api.answer_with("a", Some(422));
    let sent = Sent::of(&["a"]);
    assert!(sent.exchange.next("n1", 1).unwrap().is_none(), "it must be held first");
    let mut writing = Box::pin(writer(&api, &sent.exchange).await.write());
    ask(&api, 1, &mut writing).await;
    let mut changed = mount("n1", "a", 2, 6);
    changed.finalizers.clear();
    sent.exchange.apply_mount(changed);
    ask(&api, 2, &mut writing).await;
    sent.exchange.remove_mount(&Key::new("n1", "a"), "uid-a");
    timeout(SOON, writing).await.expect("its end is news");
    assert_eq!(api.asked("a"), 2);
}

#[test]
fn each_status_code_has_its_verdict() {
    for (code, verdict) in [
        (404, Failure::NotFound),
        (409, Failure::Conflict),
        (422, Failure::Refused),
        (403, Failure::Retry),
        (429, Failure::Retry),
        (500, Failure::Retry),
    ] {
        let status = Status { code, ..Status::default() };
        assert_eq!(Failure::of(&kube::Error::Api(Box::new(status))), verdict, "{code}");
    }
}
