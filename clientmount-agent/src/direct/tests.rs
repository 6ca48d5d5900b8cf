//! Tests `State` without an agent and without an API. Each test passes events of the watch, reports of the agent and
//! answers of the API to `State`, and checks what `State` sends to the agent and to the API.

use std::convert::Infallible;

use api::{
    ClientMountStatus, NnfStorageProfile, NoProfile, client_mount::MountState, names::finalizer,
};
use controller::Item;
use http::{Request, Response};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::client::Body;
use tokio::sync::Barrier;
use tower::service_fn;

use super::{state::Write, *};
use agent::{
    received::Report,
    testing::{compute_xfs, profile as pinned},
};

const NAME: &str = "a";

/// A ClientMount of compute-1 with the finalizer and this resourceVersion.
fn object(version: u64) -> ClientMount {
    let mut object = compute_xfs();
    object.status = None;
    let metadata = &mut object.metadata;
    metadata.name = Some(NAME.into());
    metadata.generation = Some(1);
    metadata.resource_version = Some(version.to_string());
    metadata.finalizers = Some(vec![finalizer::CLIENT_MOUNT.into()]);
    object
}

fn without_finalizer(mut object: ClientMount) -> ClientMount {
    object.metadata.finalizers = None;
    object
}

fn foreign(version: u64) -> ClientMount {
    let mut object = without_finalizer(object(version));
    object.spec.node = "compute-2".into();
    object
}

fn deleted(mut object: ClientMount) -> ClientMount {
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    object.metadata.generation = Some(2);
    object
}

fn with_status(mut object: ClientMount, status: &ClientMountStatus) -> ClientMount {
    object.status = Some(status.clone());
    object
}

fn status(ready: bool) -> ClientMountStatus {
    let mounts =
        vec![api::client_mount::ClientMountInfoStatus { state: MountState::Mounted, ready }];
    ClientMountStatus { mounts, all_ready: ready, error: None }
}

fn applied(object: ClientMount) -> Event<ClientMount> {
    Event::Applied(Ok(object))
}

fn listed(objects: Vec<ClientMount>) -> Event<ClientMount> {
    Event::Listed(objects.into_iter().map(Ok).collect())
}

fn unreadable(object: ClientMount) -> Item<ClientMount> {
    let metadata = Box::new(object.metadata);
    Err(controller::Unreadable { metadata, why: "no spec".into() })
}

struct Fixture(State);

impl Fixture {
    fn with_objects(objects: Vec<ClientMount>) -> Self {
        let mut state = State::new("compute-1".parse().unwrap());
        state.take(listed(objects));
        Self(state)
    }

    /// Returns the `State` after the agent has received the object and reported it as ready, and the API has stored
    /// the report.
    fn with_report() -> Self {
        let mut state = Self::with_objects(vec![object(5)]);
        state.read(Ok(pinned()));
        assert_eq!(state.take_sent(), ["desired a@5", "synced"]);
        assert!(state.report(5, status(true), false));
        let written = with_status(object(6), &status(true));
        state.write(&Write::Status(status(true)), written);
        assert!(state.take_sent().is_empty(), "the agent's own writes cause no event");
        state
    }

    fn take_sent(&mut self) -> Vec<String> {
        let event = |event| match event {
            LinkEvent::Desired(received) => {
                let site = agent::testing::site(&compute_xfs(), agent::site::Side::Compute);
                let outcome = agent::reconcile::Outcome::absent(received.count);
                let report = received.report(&site, &outcome);
                format!("desired {}@{}", received.name, report.resource_version)
            }
            LinkEvent::Gone(_) => "gone".to_owned(),
            LinkEvent::Synced => "synced".to_owned(),
            other => format!("{other:?}"),
        };
        self.0.events().into_iter().map(event).collect()
    }

    fn take(&mut self, event: Event<ClientMount>) -> Vec<String> {
        self.0.take(event);
        self.take_sent()
    }

    fn requests(&mut self) -> Option<ApiRequests> {
        self.0.requests(NAME)
    }

    fn read(&mut self, profile: Result<NnfStorageProfile, NoProfile>) {
        let requests = self.requests().unwrap();
        assert_eq!(requests.read, Some(("default".into(), "fluxjob-7001-0".into())));
        self.0.set_profile(&requests, profile);
    }

    /// Checks the next write, and lets the API answer with this object.
    fn write(&mut self, write: &Write, answer: ClientMount) {
        let requests = self.requests().unwrap();
        assert_eq!(requests.write.as_ref(), Some(write));
        self.0.record_write(&requests, Some(answer));
    }

    fn report(&mut self, version: u64, status: ClientMountStatus, released: bool) -> bool {
        self.0.report(Report {
            namespace: "compute-1".into(),
            name: NAME.into(),
            uid: agent::testing::UID.into(),
            resource_version: version.to_string(),
            status,
            released,
        })
    }
}

fn missing_profile() -> Result<NnfStorageProfile, NoProfile> {
    Err(NoProfile::Missing("not there".into()))
}

fn unreadable_profile() -> Result<NnfStorageProfile, NoProfile> {
    Err(NoProfile::Forbidden("forbidden".into()))
}

#[test]
fn the_agent_receives_an_object_once_its_profile_was_read_and_again_once_the_profile_appears() {
    let mut state = Fixture::with_objects(vec![object(5)]);
    assert!(state.take_sent().is_empty(), "the object is not sent before its profile was read");
    state.read(missing_profile());
    assert_eq!(state.take_sent(), ["desired a@5", "synced"]);
    state.read(missing_profile());
    assert!(state.take_sent().is_empty(), "the same answer changes nothing");
    state.read(Ok(pinned()));
    assert_eq!(state.take_sent(), ["desired a@5"]);
    assert_eq!(state.requests(), None);
    let mut changed = object(6);
    changed.metadata.generation = Some(2);
    assert!(
        state.take(applied(changed)).is_empty(),
        "the profile may have changed with the object"
    );
    state.read(Ok(pinned()));
    assert_eq!(state.take_sent(), ["desired a@6"]);
}

/// Adding the finalizer and reading the profile take the time of only one request to the API.
#[test]
fn a_profile_is_read_while_the_finalizer_is_added() {
    let mut state = Fixture::with_objects(vec![without_finalizer(object(5))]);
    let requests = state.requests().unwrap();
    assert!(requests.write == Some(Write::AddFinalizer) && requests.read.is_some());
    state.0.set_profile(&requests, Ok(pinned()));
    assert!(state.take_sent().is_empty(), "the object may be deleted before it has the finalizer");
    state.0.record_write(&requests, Some(object(6)));
    assert_eq!(state.take_sent(), ["desired a@6", "synced"]);
    assert_eq!(state.requests(), None);
    assert!(state.take(applied(object(6))).is_empty(), "the watch event of the agent's own write");
}

/// The API of this test answers neither request before it has received both.
#[tokio::test(start_paused = true)]
async fn a_pass_sends_its_write_and_its_read_at_the_same_time() {
    let both = Arc::new(Barrier::new(2));
    let service = service_fn(move |_: Request<Body>| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            let unknown = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"none","code":404}"#;
            let answer =
                Response::builder().status(404).body(Body::from(unknown.as_bytes().to_vec()));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    let mut state = Fixture::with_objects(vec![without_finalizer(object(5))]);
    let passed = pass(Client::new(service, "default"), state.requests().unwrap()).await;
    assert!(matches!(passed.written, Some(Err(WriteError::Unknown { .. }))), "{passed:?}");
    assert!(matches!(passed.profile, Some(Ok(Err(NoProfile::Missing(_))))), "{passed:?}");
}

#[test]
fn an_object_whose_finalizer_the_api_refuses_is_not_sent_and_synced_does_not_wait_for_it() {
    let mut state = Fixture::with_objects(vec![without_finalizer(object(5))]);
    let requests = state.requests().unwrap();
    state.0.write_refused(&requests);
    assert_eq!(state.take_sent(), ["synced"]);
    assert_eq!(state.requests().unwrap().write, Some(Write::AddFinalizer));
}

#[test]
fn an_object_whose_spec_names_another_node_is_refused_and_never_sent() {
    let mut state = Fixture::with_objects(vec![foreign(5)]);
    assert_eq!(state.take_sent(), ["synced"]);
    let refuse = state.requests().unwrap();
    assert_eq!(refuse.read, None);
    let Some(Write::Status(refusal)) = refuse.write.clone() else { panic!("{refuse:?}") };
    let error = refusal.error.as_ref().unwrap().user_message.as_ref().unwrap();
    assert!(error.contains("spec.node is \"compute-2\""), "{error}");
    state.0.record_write(&refuse, Some(with_status(foreign(6), &refusal)));
    assert_eq!(state.requests(), None);
    state.take(applied(with_status(foreign(7), &status(true))));
    assert_eq!(
        state.requests().unwrap().write,
        refuse.write,
        "the overwritten refusal is written again"
    );
    state.take(applied(deleted(foreign(8))));
    assert_eq!(state.requests(), None);
}

#[test]
fn an_object_whose_status_another_client_overwrote_is_sent_to_the_agent_again() {
    let mut state = Fixture::with_report();
    assert!(state.take(applied(with_status(object(6), &status(true)))).is_empty());
    let mut annotated = with_status(object(7), &status(true));
    annotated.metadata.annotations = Some([("later".to_owned(), "1".to_owned())].into());
    assert!(state.take(applied(annotated)).is_empty(), "the status is as the agent reported it");
    assert_eq!(state.take(applied(object(8))), ["desired a@8"]);
    assert!(
        state.take(applied(with_status(object(9), &status(false)))).is_empty(),
        "the agent has not reported on the object that was sent again"
    );
    assert!(state.report(8, status(true), false));
    state.write(&Write::Status(status(true)), with_status(object(10), &status(true)));
    assert!(state.take_sent().is_empty());
    let relisted = state.take(listed(vec![with_status(object(12), &status(false))]));
    assert_eq!(relisted, ["desired a@12"], "the status was overwritten while the watch was away");
}

#[test]
fn an_object_whose_status_and_finalizers_were_overwritten_gets_its_finalizer_and_is_sent_again() {
    let mut state = Fixture::with_report();
    assert!(
        state.take(applied(without_finalizer(with_status(object(7), &status(false))))).is_empty()
    );
    state.write(&Write::AddFinalizer, with_status(object(8), &status(false)));
    assert_eq!(state.take_sent(), ["desired a@8"]);
}

#[test]
fn an_object_whose_status_was_overwritten_before_our_write_was_answered_is_sent_again() {
    let mut state = Fixture::with_report();
    state.take(applied(with_status(object(8), &status(false))));
    assert!(state.report(8, status(true), false));
    let requests = state.requests().unwrap();
    state.take(applied(with_status(object(9), &status(true))));
    assert!(state.take(applied(with_status(object(10), &status(false)))).is_empty());
    state.0.record_write(&requests, Some(with_status(object(9), &status(true))));
    assert_eq!(state.take_sent(), ["desired a@10"]);
}

#[test]
fn an_object_whose_status_the_api_stores_differently_than_written_is_sent_again_only_once() {
    let mut state = Fixture::with_objects(vec![object(5)]);
    state.read(Ok(pinned()));
    state.take_sent();
    state.report(5, status(true), false);
    state.write(&Write::Status(status(true)), with_status(object(6), &status(false)));
    assert_eq!(state.take_sent(), ["desired a@6"]);
    state.report(6, status(true), false);
    state.write(&Write::Status(status(true)), with_status(object(6), &status(false)));
    assert!(state.take_sent().is_empty());
    assert_eq!(state.requests(), None);
}

#[test]
fn a_report_is_accepted_only_for_the_version_that_the_agent_received_last() {
    let mut state = Fixture::with_report();
    let mut changed = with_status(object(7), &status(true));
    changed.metadata.generation = Some(2);
    state.take(applied(changed));
    state.read(Ok(pinned()));
    assert_eq!(state.take_sent(), ["desired a@7"]);
    assert!(!state.report(5, status(false), false));
    assert_eq!(state.requests(), None);
    assert!(state.report(7, status(false), false));
    assert_eq!(state.requests().unwrap().write, Some(Write::Status(status(false))));
}

/// The report describes the mounts of the earlier version. In the status of the new version it would be wrong.
#[test]
fn a_report_on_an_earlier_version_is_not_written_while_the_profile_is_read() {
    let mut changed = with_status(object(7), &status(false));
    changed.metadata.generation = Some(2);
    let mut state = Fixture::with_report();
    state.take(applied(changed.clone()));
    assert!(!state.report(5, status(true), false));
    assert_eq!(state.requests().unwrap().write, None, "only the profile is read");

    // In this part the report comes before the change, but is not written yet.
    let mut state = Fixture::with_report();
    assert!(state.report(5, status(false), false));
    state.take(applied(with_status(changed, &status(true))));
    assert_eq!(state.requests().unwrap().write, None);
}

#[test]
fn the_last_finalizer_is_removed_without_writing_a_status() {
    for (other, writes) in [(None, 1), (Some("example.org/another"), 2)] {
        let mut state = Fixture::with_report();
        let mut deleting = deleted(with_status(object(7), &status(true)));
        deleting.metadata.finalizers.as_mut().unwrap().extend(other.map(str::to_owned));
        state.take(applied(deleting.clone()));
        state.read(unreadable_profile());
        assert_eq!(state.take_sent(), ["desired a@7"]);
        state.read(missing_profile());
        assert_eq!(state.take_sent(), ["desired a@7"]);
        assert_eq!(
            state.requests(),
            None,
            "the missing profile of a deleted object is not read again"
        );
        assert!(state.report(7, status(false), true));
        let mut version = 7;
        for _ in 1..writes {
            version += 1;
            deleting.metadata.resource_version = Some(version.to_string());
            state.write(
                &Write::Status(status(false)),
                with_status(deleting.clone(), &status(false)),
            );
        }
        deleting.metadata.resource_version = Some((version + 1).to_string());
        deleting.metadata.finalizers = other.map(|name| vec![name.to_owned()]);
        state.write(&Write::RemoveFinalizer, deleting.clone());
        assert_eq!(state.take_sent(), ["gone"]);
        assert!(state.take(Event::Deleted(Ok(deleting))).is_empty());
    }
}

#[test]
fn an_object_of_the_same_name_with_another_uid_is_another_object() {
    let mut state = Fixture::with_report();
    let mut other = object(9);
    other.metadata.uid = Some("11111111-1111-4111-8111-111111111111".into());
    assert_eq!(state.take(applied(other)), ["gone"]);
    state.read(Ok(pinned()));
    assert_eq!(state.take_sent(), ["desired a@9"]);
    assert!(!state.report(9, status(true), false), "the report has another uid");
    assert_eq!(state.take(listed(Vec::new())), ["gone"]);
}

/// The agent must learn that the object exists, because it may have mounts: until its mounts are known, the agent
/// removes no mount as unwanted.
#[test]
fn an_object_that_was_never_readable_is_sent_without_its_content() {
    let mut state = State::new("compute-1".parse().unwrap());
    state.take(Event::Listed(vec![unreadable(object(5))]));
    let mut state = Fixture(state);
    assert_eq!(state.take_sent(), ["desired a@5", "synced"]);
    assert_eq!(state.requests(), None);
    state.take(applied(object(6)));
    state.read(Ok(pinned()));
    assert_eq!(state.take_sent(), ["desired a@6"]);
    assert!(
        state.take(Event::Applied(unreadable(object(7)))).is_empty(),
        "the agent keeps the version that it has"
    );
    let mut other = Fixture::with_objects(Vec::new());
    assert_eq!(other.take_sent(), ["synced"]);
    assert_eq!(other.take(Event::Applied(unreadable(object(5)))), ["desired a@5"]);
    assert_eq!(other.take(Event::Deleted(unreadable(object(5)))), ["gone"]);
}

#[test]
fn a_watch_with_tcp_keepalive_stays_open_for_about_an_hour() {
    for address in ["unix:///run/a.sock", "https://api:6443", "in-cluster"] {
        let config = watch_config(&address.parse().unwrap());
        assert!((3000..=4200).contains(&config.timeout.unwrap()), "{address}");
        assert!(!config.bookmarks);
    }
    assert_eq!(watch_config(&Address::Kubeconfig(None)).timeout, None);
}
