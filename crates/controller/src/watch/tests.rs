use std::{convert::Infallible, sync::Mutex, time::Duration};

use api::ClientMount;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn watched() -> Watched {
    Watched {
        resource: ApiResource::erase::<ClientMount>(&()),
        namespace: Some("n1".to_owned()),
        config: Config::default(),
    }
}

type Bytes = <Body as http_body::Body>::Data;
type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// An API that lists the given objects, and refuses watches until the test allows them.
#[derive(Clone, Debug, Default)]
struct FakeApi(Arc<Mutex<ApiState>>);

#[derive(Debug, Default)]
struct ApiState {
    lists: usize,
    watches: usize,
    admits: bool,
    /// True while the API does not serve the kind.
    is_unserved: bool,
    items: Vec<Value>,
}

impl FakeApi {
    fn client(&self) -> Client {
        let api = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let response = api.answer(&request);
            async { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> Response<Answer> {
        let mut state = self.0.lock().unwrap();
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, body) = match (is_watch, state.admits) {
            _ if state.is_unserved => (
                404,
                json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": "the server could not find the requested resource",
                }),
            ),
            (true, true) => return Response::new(silent()),
            (true, false) => (
                403,
                json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                    "reason": "Forbidden", "message": "user cannot watch",
                }),
            ),
            (false, _) => (
                200,
                json!({
                    "kind": "ClientMountList", "apiVersion": "dataworkflowservices.github.io/v1alpha7",
                    "metadata": {"resourceVersion": "20"}, "items": state.items,
                }),
            ),
        };
        *(if is_watch { &mut state.watches } else { &mut state.lists }) += 1;
        let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
        Response::builder().status(code).body(body).unwrap()
    }
}

/// Returns the answer to a watch request, without any events.
fn silent() -> Answer {
    StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed_unsync()
}

/// The program's role grants `list`, but not `watch`. If each list restarted the backoff, the program would list
/// all objects every second.
#[tokio::test(start_paused = true)]
async fn a_list_that_succeeds_does_not_restart_the_backoff_while_watches_are_refused() {
    let api = FakeApi::default();
    let mut events = watch(api.client(), watched()).boxed();
    let end = tokio::time::Instant::now() + HOUR;
    let mut received = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout_at(end, events.next()).await {
        received.push(event);
    }
    {
        let state = api.0.lock().unwrap();
        assert!((100..300).contains(&state.lists), "{} lists in an hour", state.lists);
        assert!(state.watches >= state.lists - 1, "each list is followed by a watch");
    }
    // No event reports that the watch works, because the API has accepted no watch request.
    assert!(!received.iter().any(|event| matches!(event, Event::Working)));
    let refused = |event: &Event| matches!(event, Event::Failing(trouble) if trouble.text().contains("watch"));
    assert!(received.iter().any(refused));
    api.0.lock().unwrap().admits = true;
    let mut works = events.filter(|event| std::future::ready(matches!(event, Event::Working)));
    let works = tokio::time::timeout(HOUR, works.next()).await;
    assert!(works.is_ok(), "an accepted watch counts as working, although no object changes");
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_unreadable_object_still_delivers_the_readable_ones() {
    let api = FakeApi::default();
    let object = |name: &str, spec: Value| {
        json!({
            "kind": "ClientMount", "apiVersion": "dataworkflowservices.github.io/v1alpha7",
            "metadata": {"name": name, "namespace": "n1"}, "spec": spec,
        })
    };
    let sound = json!({"node": "n1", "desiredState": "mounted", "mounts": []});
    api.0.lock().unwrap().items = vec![object("a", json!({"node": 7})), object("b", sound)];
    let mut events = watch(api.client(), watched()).boxed();
    let Event::Listed(items) = events.next().await.unwrap().into_kind::<ClientMount>() else {
        panic!("a list comes first")
    };
    let unreadable = items[0].as_ref().unwrap_err();
    assert_eq!(unreadable.metadata.name.as_deref(), Some("a"));
    assert!(unreadable.why.contains("invalid type"), "{}", unreadable.why);
    assert_eq!(items[1].as_ref().unwrap().metadata.name.as_deref(), Some("b"));
}

#[tokio::test]
async fn objects_of_a_list_that_broke_off_are_not_delivered() {
    let mut watch = Watch::new(FakeApi::default().client(), watched());
    let object = |name| DynamicObject::new(name, &watched().resource);
    let events: Vec<_> = [
        watcher::Event::Init,
        watcher::Event::InitApply(object("a")),
        watcher::Event::Init,
        watcher::Event::InitApply(object("b")),
        watcher::Event::InitDone,
    ]
    .into_iter()
    .filter_map(|event| watch.collect_list(event))
    .collect();
    let [Event::Listed(items)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].as_ref().unwrap().metadata.name.as_deref(), Some("b"));
}

/// The kind belongs to another project, whose CRD is installed while the watch runs.
#[tokio::test(start_paused = true)]
async fn updates_if_served_delivers_empty_lists_until_the_api_serves_the_kind() {
    let api = FakeApi::default();
    *api.0.lock().unwrap() = ApiState {
        admits: true,
        is_unserved: true,
        items: vec![json!({"metadata": {"name": "a", "namespace": "n1"}})],
        ..ApiState::default()
    };
    let health = WatchHealth::default();
    let take = |counts: &mut Vec<usize>, event: Event<ClientMount>| -> Vec<()> {
        if let Event::Listed(items) = event {
            counts.push(items.len());
        }
        Vec::new()
    };
    let mut updates = crate::updates_if_served(&api.client(), &health, None, take);
    let mut counts = Vec::new();
    for _ in 0..3 {
        updates.next().await.unwrap().apply(&mut counts);
    }
    assert_eq!((&*counts, health.broken()), (&[0, 0, 0][..], Vec::new()), "the watch tries again");
    api.0.lock().unwrap().is_unserved = false;
    while counts.last() == Some(&0) {
        updates.next().await.unwrap().apply(&mut counts);
    }
    assert_eq!(counts, [0, 0, 0, 1]);
}
