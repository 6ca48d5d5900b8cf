//! The state by itself: what the agent is told and what is written, event by event.

use std::convert::Infallible;

use api::{ClientMountStatus, NnfStorageProfile, client_mount::MountState, names::finalizer};
use controller::Item;
use http::{Request, Response};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::client::Body;
use tokio::sync::Barrier;
use tower::service_fn;

use super::{state::Write, *};
use agent::{
    received::{NoProfile, Report},
    testing::{compute_xfs, profile as pinned},
};

const NAME: &str = "a";

/// Of compute-1, held, with this resourceVersion.
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

fn unheld(mut object: ClientMount) -> ClientMount {
    object.metadata.finalizers = None;
    object
}

fn foreign(version: u64) -> ClientMount {
    let mut object = unheld(object(version));
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
    fn of(objects: Vec<ClientMount>) -> Self {
        let mut state = State::new("compute-1".parse().unwrap());
        state.take(listed(objects));
        Self(state)
    }

    /// An agent that was told of the object and reported that it is ready, and an API that took that.
    fn reported() -> Self {
        let mut state = Self::of(vec![object(5)]);
        state.read(Ok(pinned()));
        assert_eq!(state.sent(), ["desired a@5", "synced"]);
        assert!(state.report(5, status(true), false));
        let written = with_status(object(6), &status(true));
        state.write(&Write::Status(status(true)), written);
        assert!(state.sent().is_empty(), "own writes wake nobody");
        state
    }

    fn sent(&mut self) -> Vec<String> {
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
        self.sent()
    }

    fn todo(&mut self) -> Option<Todo> {
        self.0.todo(NAME)
    }

    fn read(&mut self, profile: Result<NnfStorageProfile, NoProfile>) {
        let todo = self.todo().unwrap();
        assert_eq!(todo.read, Some(("default".into(), "fluxjob-7001-0".into())));
        self.0.read(&todo, profile);
    }

    /// Checks what is to be written, and has the API answer with this object.
    fn write(&mut self, write: &Write, answer: ClientMount) {
        let todo = self.todo().unwrap();
        assert_eq!(todo.write.as_ref(), Some(write));
        self.0.wrote(&todo, Some(answer));
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

fn missing() -> Result<NnfStorageProfile, NoProfile> {
    Err(NoProfile::Missing("not there".into()))
}

fn unread() -> Result<NnfStorageProfile, NoProfile> {
    Err(NoProfile::Forbidden("forbidden".into()))
}

#[test]
fn the_agent_is_told_once_the_profile_was_read_and_again_when_it_appears() {
    let mut state = Fixture::of(vec![object(5)]);
    assert!(state.sent().is_empty(), "nothing before the profile");
    state.read(missing());
    assert_eq!(state.sent(), ["desired a@5", "synced"]);
    state.read(missing());
    assert!(state.sent().is_empty(), "the same answer is no news");
    state.read(Ok(pinned()));
    assert_eq!(state.sent(), ["desired a@5"]);
    assert_eq!(state.todo(), None);
    let mut changed = object(6);
    changed.metadata.generation = Some(2);
    assert!(
        state.take(applied(changed)).is_empty(),
        "the profile may have changed with the object"
    );
    state.read(Ok(pinned()));
    assert_eq!(state.sent(), ["desired a@6"]);
}

/// A job's mount waits for two answers of the API one after the other, and not for three.
#[test]
fn a_profile_is_read_while_the_finalizer_is_put_on() {
    let mut state = Fixture::of(vec![unheld(object(5))]);
    let todo = state.todo().unwrap();
    assert!(todo.write == Some(Write::Finalizer) && todo.read.is_some());
    state.0.read(&todo, Ok(pinned()));
    assert!(state.sent().is_empty(), "it may go before it is held");
    state.0.wrote(&todo, Some(object(6)));
    assert_eq!(state.sent(), ["desired a@6", "synced"]);
    assert_eq!(state.todo(), None);
    assert!(state.take(applied(object(6))).is_empty(), "the echo of the own write");
}

/// An API that answers neither request before it has both.
#[tokio::test(start_paused = true)]
async fn both_requests_of_a_pass_are_on_their_way_at_once() {
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
    let mut state = Fixture::of(vec![unheld(object(5))]);
    let passed = pass(Client::new(service, "default"), state.todo().unwrap()).await;
    assert!(matches!(passed.wrote, Some(Err(WriteError::Unknown { .. }))), "{passed:?}");
    assert!(matches!(passed.read, Some(Ok(Err(NoProfile::Missing(_))))), "{passed:?}");
}

#[test]
fn what_takes_no_finalizer_is_not_told_and_not_waited_for() {
    let mut state = Fixture::of(vec![unheld(object(5))]);
    let todo = state.todo().unwrap();
    state.0.write_refused(&todo);
    assert_eq!(state.sent(), ["synced"]);
    assert_eq!(state.todo().unwrap().write, Some(Write::Finalizer));
}

#[test]
fn what_is_meant_for_another_node_is_refused_and_never_told() {
    let mut state = Fixture::of(vec![foreign(5)]);
    assert_eq!(state.sent(), ["synced"]);
    let refuse = state.todo().unwrap();
    assert_eq!(refuse.read, None);
    let Some(Write::Status(refusal)) = refuse.write.clone() else { panic!("{refuse:?}") };
    let error = refusal.error.as_ref().unwrap().user_message.as_ref().unwrap();
    assert!(error.contains("spec.node is \"compute-2\""), "{error}");
    state.0.wrote(&refuse, Some(with_status(foreign(6), &refusal)));
    assert_eq!(state.todo(), None);
    state.take(applied(with_status(foreign(7), &status(true))));
    assert_eq!(state.todo().unwrap().write, refuse.write, "written over, and written again");
    state.take(applied(deleted(foreign(8))));
    assert_eq!(state.todo(), None);
}

#[test]
fn a_status_written_over_has_the_agent_look_again() {
    let mut state = Fixture::reported();
    assert!(state.take(applied(with_status(object(6), &status(true)))).is_empty());
    let mut annotated = with_status(object(7), &status(true));
    annotated.metadata.annotations = Some([("later".to_owned(), "1".to_owned())].into());
    assert!(state.take(applied(annotated)).is_empty(), "it says what the agent said");
    assert_eq!(state.take(applied(object(8))), ["desired a@8"]);
    assert!(state.take(applied(with_status(object(9), &status(false)))).is_empty(), "it looks");
    assert!(state.report(8, status(true), false));
    state.write(&Write::Status(status(true)), with_status(object(10), &status(true)));
    assert!(state.sent().is_empty());
    let relisted = state.take(listed(vec![with_status(object(12), &status(false))]));
    assert_eq!(relisted, ["desired a@12"], "the watch was away while it was written over");
}

#[test]
fn a_status_written_over_along_with_the_finalizers_is_seen_once_the_object_is_held_again() {
    let mut state = Fixture::reported();
    assert!(state.take(applied(unheld(with_status(object(7), &status(false))))).is_empty());
    state.write(&Write::Finalizer, with_status(object(8), &status(false)));
    assert_eq!(state.sent(), ["desired a@8"]);
}

#[test]
fn a_status_written_over_while_the_answer_to_our_write_was_on_its_way_is_seen() {
    let mut state = Fixture::reported();
    state.take(applied(with_status(object(8), &status(false))));
    assert!(state.report(8, status(true), false));
    let todo = state.todo().unwrap();
    state.take(applied(with_status(object(9), &status(true))));
    assert!(state.take(applied(with_status(object(10), &status(false)))).is_empty());
    state.0.wrote(&todo, Some(with_status(object(9), &status(true))));
    assert_eq!(state.sent(), ["desired a@10"]);
}

#[test]
fn a_server_that_stores_something_else_has_the_agent_look_once_and_not_for_ever() {
    let mut state = Fixture::of(vec![object(5)]);
    state.read(Ok(pinned()));
    state.sent();
    state.report(5, status(true), false);
    state.write(&Write::Status(status(true)), with_status(object(6), &status(false)));
    assert_eq!(state.sent(), ["desired a@6"]);
    state.report(6, status(true), false);
    state.write(&Write::Status(status(true)), with_status(object(6), &status(false)));
    assert!(state.sent().is_empty());
    assert_eq!(state.todo(), None);
}

#[test]
fn a_report_counts_for_the_version_that_the_agent_was_told() {
    let mut state = Fixture::reported();
    let mut asking = with_status(object(7), &status(true));
    asking.metadata.generation = Some(2);
    state.take(applied(asking));
    state.read(Ok(pinned()));
    assert_eq!(state.sent(), ["desired a@7"]);
    assert!(!state.report(5, status(false), false));
    assert_eq!(state.todo(), None);
    assert!(state.report(7, status(false), false));
    assert_eq!(state.todo().unwrap().write, Some(Write::Status(status(false))));
}

/// What the agent says of the version before is true of that one only.
#[test]
fn nothing_is_written_of_an_earlier_version_while_the_profile_is_read() {
    let mut changed = with_status(object(7), &status(false));
    changed.metadata.generation = Some(2);
    let mut state = Fixture::reported();
    state.take(applied(changed.clone()));
    assert!(!state.report(5, status(true), false));
    assert_eq!(state.todo().unwrap().write, None, "only the profile is read");

    // It was said just before the change.
    let mut state = Fixture::reported();
    assert!(state.report(5, status(false), false));
    state.take(applied(with_status(changed, &status(true))));
    assert_eq!(state.todo().unwrap().write, None);
}

#[test]
fn the_last_finalizer_goes_without_a_status_that_nobody_could_read() {
    for (other, writes) in [(None, 1), (Some("example.org/another"), 2)] {
        let mut state = Fixture::reported();
        let mut going = deleted(with_status(object(7), &status(true)));
        going.metadata.finalizers.as_mut().unwrap().extend(other.map(str::to_owned));
        state.take(applied(going.clone()));
        state.read(unread());
        assert_eq!(state.sent(), ["desired a@7"]);
        state.read(missing());
        assert_eq!(state.sent(), ["desired a@7"]);
        assert_eq!(state.todo(), None, "what went before its object does not come back");
        assert!(state.report(7, status(false), true));
        let mut version = 7;
        for _ in 1..writes {
            version += 1;
            going.metadata.resource_version = Some(version.to_string());
            state.write(&Write::Status(status(false)), with_status(going.clone(), &status(false)));
        }
        going.metadata.resource_version = Some((version + 1).to_string());
        going.metadata.finalizers = other.map(|name| vec![name.to_owned()]);
        state.write(&Write::Release, going.clone());
        assert_eq!(state.sent(), ["gone"]);
        assert!(state.take(Event::Deleted(Ok(going))).is_empty());
    }
}

#[test]
fn a_namesake_is_another_object() {
    let mut state = Fixture::reported();
    let mut other = object(9);
    other.metadata.uid = Some("11111111-1111-4111-8111-111111111111".into());
    assert_eq!(state.take(applied(other)), ["gone"]);
    state.read(Ok(pinned()));
    assert_eq!(state.sent(), ["desired a@9"]);
    assert!(!state.report(9, status(true), false), "of another uid");
    assert_eq!(state.take(listed(Vec::new())), ["gone"]);
}

/// Its mounts are not known: until they are, none counts as one that nobody wants.
#[test]
fn an_object_that_was_never_read_is_told_without_its_content() {
    let mut state = State::new("compute-1".parse().unwrap());
    state.take(Event::Listed(vec![unreadable(object(5))]));
    let mut state = Fixture(state);
    assert_eq!(state.sent(), ["desired a@5", "synced"]);
    assert_eq!(state.todo(), None);
    state.take(applied(object(6)));
    state.read(Ok(pinned()));
    assert_eq!(state.sent(), ["desired a@6"]);
    assert!(state.take(Event::Applied(unreadable(object(7)))).is_empty(), "it stays as it was");
    let mut other = Fixture::of(Vec::new());
    assert_eq!(other.sent(), ["synced"]);
    assert_eq!(other.take(Event::Applied(unreadable(object(5)))), ["desired a@5"]);
    assert_eq!(other.take(Event::Deleted(unreadable(object(5)))), ["gone"]);
}

#[test]
fn a_watch_that_the_kernel_guards_stays_open_for_about_an_hour() {
    for address in ["unix:///run/a.sock", "https://api:6443", "in-cluster"] {
        let config = watch_config(&address.parse().unwrap());
        assert!((3000..=4200).contains(&config.timeout.unwrap()), "{address}");
        assert!(!config.bookmarks);
    }
    assert_eq!(watch_config(&Address::Kubeconfig(None)).timeout, None);
}
