use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use futures::executor::block_on;
use futures::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::exchange::Scope;

fn object(name: &str) -> DynamicObject {
    DynamicObject::new(name, &resource::<ClientMount>())
}

#[test]
fn a_list_that_breaks_off_is_not_taken() {
    let events = stream::iter([
        Ok(Event::Init),
        Ok(Event::InitApply(object("a"))),
        Err(watcher::Error::NoResourceVersion),
        Ok(Event::Init),
        Ok(Event::InitApply(object("b"))),
        Ok(Event::InitApply(object("c"))),
        Ok(Event::InitDone),
        Ok(Event::Delete(object("b"))),
    ]);
    let changes: Vec<_> = block_on(whole(events).collect());
    let told: Vec<_> = changes
        .iter()
        .map(|change| match change {
            Ok(Change::Listed(objects)) => {
                objects.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join("+")
            }
            Ok(Change::Applied(object)) => format!("applied {}", object.name_any()),
            Ok(Change::Deleted(object)) => format!("deleted {}", object.name_any()),
            Err(_) => "failed".to_owned(),
        })
        .collect();
    assert_eq!(told, ["failed", "b+c", "deleted b"]);
}

/// An API that lists nothing, and lets nobody watch until it is told to.
#[derive(Clone, Debug, Default)]
struct FakeApi(Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
struct Asked {
    lists: usize,
    watches: usize,
    admits: bool,
    /// What was known to fail when a list was asked for, and when a watch was.
    failing: Vec<usize>,
}

type Bytes = <Body as http_body::Body>::Data;
type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// The answer to a watch that has begun, and nothing changes.
fn quiet() -> Answer {
    StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed_unsync()
}

impl FakeApi {
    fn client(&self, exchange: &Arc<Exchange>) -> Client {
        let (api, exchange) = (self.clone(), exchange.clone());
        let service = service_fn(move |request: Request<Body>| {
            let response = api.answer(&request, &exchange);
            async { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>, exchange: &Exchange) -> Response<Answer> {
        let mut asked = self.0.lock().unwrap();
        asked.failing.push(exchange.failing().len());
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, body) = match (is_watch, asked.admits) {
            (true, true) => return Response::new(quiet()),
            (true, false) => {
                let message = "user cannot watch";
                (
                    403,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message}),
                )
            }
            (false, _) => (
                200,
                json!({
                    "kind": "ClientMountList", "apiVersion": "dataworkflowservices.github.io/v1alpha7",
                    "metadata": {"resourceVersion": "20"}, "items": [],
                }),
            ),
        };
        *(if is_watch { &mut asked.watches } else { &mut asked.lists }) += 1;
        let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
        Response::builder().status(code).body(body).unwrap()
    }
}

/// A role with `list` and without `watch`: the whole machine would be listed every second.
#[tokio::test(start_paused = true)]
async fn lists_that_work_begin_no_backoff_anew_while_watches_are_refused() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (api, exchange) = (FakeApi::default(), Arc::new(Exchange::new(Scope::OneCompute)));
    let watching = client_mounts(
        api.client(&exchange),
        Some("n1"),
        watcher::Config::default(),
        exchange.clone(),
    );
    let mut watching = Box::pin(watching);
    assert!(tokio::time::timeout(HOUR, &mut watching).await.is_err());
    {
        let asked = api.0.lock().unwrap();
        assert!((100..300).contains(&asked.lists), "{} lists in an hour", asked.lists);
        assert!(asked.watches >= asked.lists - 1, "each list is followed by a watch");
        // Nothing is said to work in between: it would be said to fail again in the next moment.
        assert_eq!(asked.failing[..2], [0, 0]);
        assert!(asked.failing[2..].iter().all(|failing| *failing == 1), "{:?}", asked.failing);
    }
    assert!(exchange.failing()[0].1.contains("watch"), "{:?}", exchange.failing());
    assert!(!*exchange.ready().borrow());
    api.0.lock().unwrap().admits = true;
    assert!(tokio::time::timeout(HOUR, &mut watching).await.is_err());
    assert_eq!(exchange.failing(), [], "a watch that is quiet works");
    assert!(*exchange.ready().borrow());
}
