use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use proto::v1::to_node::Message;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::exchange::Scope;
use crate::fanout::Audience;
use crate::object::{ProfileObject, tests::mount};

/// Longer than anything here takes, and much less than a minute.
const SOON: Duration = Duration::from_secs(10);

/// An API that takes the finalizers of one compute's ClientMounts, but for those that it was told to answer with a code.
#[derive(Clone, Debug, Default)]
struct FakeApi {
    codes: Arc<Mutex<BTreeMap<String, u16>>>,
}

impl FakeApi {
    fn answer_with(&self, name: &str, code: u16) {
        self.codes.lock().unwrap().insert(name.to_owned(), code);
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
struct Told {
    exchange: Arc<Exchange>,
    bell: Arc<tokio::sync::Notify>,
}

impl Told {
    fn of(names: &[&str]) -> Self {
        let exchange = Arc::new(Exchange::new(Scope::Machine));
        let bell = exchange.open("n1", 1, Audience::Compute);
        let pinned = Key::new("default", "pinned");
        let profile = ProfileObject { key: pinned, resource_version: "1".into(), json: Vec::new() };
        exchange.replace_profiles(vec![profile]);
        let unheld = names.iter().map(|name| {
            let mut object = mount("n1", name, 1, 5);
            object.finalizers.clear();
            object
        });
        exchange.replace_mounts(unheld.collect());
        Self { exchange, bell }
    }

    /// The name of the ClientMount that it is told of next; "synced" when it was told of all.
    async fn next(&self) -> String {
        let next = async {
            loop {
                match self.exchange.next("n1", 1).unwrap() {
                    Some(Message::Desired(desired)) => return desired.name,
                    Some(Message::Synced(_)) => return "synced".to_owned(),
                    Some(other) => panic!("{other:?}"),
                    None => self.bell.notified().await,
                }
            }
        };
        timeout(SOON, next).await.expect("it is told of something")
    }
}

#[tokio::test]
async fn those_whose_writes_fail_hold_up_no_others() {
    let api = FakeApi::default();
    let failing: Vec<String> = (0..WRITERS).map(|number| format!("a{number}")).collect();
    failing.iter().for_each(|name| api.answer_with(name, 500));
    let names: Vec<&str> = failing.iter().map(String::as_str).chain(["well"]).collect();
    let told = Told::of(&names);
    tokio::select! {
        () = write_back(api.client(), told.exchange.clone()) => {}
        next = told.next() => assert_eq!(next, "well"),
    }
}

#[test]
fn each_status_code_has_its_verdict() {
    for (code, verdict) in [
        (404, Verdict::Vanished),
        (409, Verdict::MovedOn),
        (422, Verdict::Refused),
        (403, Verdict::Retry),
        (429, Verdict::Retry),
        (500, Verdict::Retry),
    ] {
        let status = Status { code, ..Status::default() };
        assert_eq!(Verdict::of(&kube::Error::Api(Box::new(status))), verdict, "{code}");
    }
}
