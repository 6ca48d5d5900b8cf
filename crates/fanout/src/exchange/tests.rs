use super::*;
use crate::fanout::Listing;
use crate::object::{ProfileObject, tests::mount};

fn sent_messages(exchange: &Exchange) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(Some(message)) = exchange.next("n1", 1) {
        all.push(match message {
            v1::to_node::Message::Desired(desired) if desired.profile_missing.is_empty() => {
                format!("desired {}", desired.name)
            }
            v1::to_node::Message::Desired(desired) => desired.profile_missing,
            other => format!("{other:?}"),
        });
    }
    all
}

fn pinned() -> ProfileObject {
    let key = Key::new("default", "pinned");
    ProfileObject { key, resource_version: "1".to_owned(), json: Vec::new() }
}

fn computes() -> Option<Nodes> {
    Some(Nodes { computes: BTreeSet::from(["n1".to_owned()]), ..Nodes::default() })
}

fn rabbits(name: &str) -> Option<Nodes> {
    Some(Nodes { rabbits: BTreeSet::from([name.to_owned()]), ..Nodes::default() })
}

/// Returns an exchange with these profiles, and a started session of node n1, which has this object.
fn exchange_with_session(object: MountObject, profiles: Vec<ProfileObject>) -> Exchange {
    let exchange = Exchange::default();
    exchange.set_nodes(computes());
    exchange.open("n1", 1, NodeKind::Compute);
    exchange.replace_profiles(profiles);
    assert!(sent_messages(&exchange).is_empty(), "no object is sent before the first list");
    exchange.replace_mounts(vec![object]);
    assert!(exchange.start_session(
        "n1",
        1,
        &Listing { version: "0".to_owned(), objects: Vec::new() }
    ));
    exchange
}

/// Returns an exchange that has sent n1/a to its node; the node has reported it mounted.
fn exchange_with_report() -> Exchange {
    let exchange = exchange_with_session(mount("n1", "a", 1, 5), vec![pinned()]);
    assert_eq!(sent_messages(&exchange), ["desired a", "Synced(Synced)"]);
    report(&exchange, 5);
    exchange
}

fn report(exchange: &Exchange, resource_version: u64) {
    let report = MountReport {
        namespace: "n1".to_owned(),
        name: "a".to_owned(),
        uid: "uid-a".to_owned(),
        observed_resource_version: resource_version.to_string(),
        status: serde_json::to_vec(&state("mounted")).unwrap(),
        released: false,
    };
    exchange.report(&report).unwrap();
}

fn state(state: &str) -> serde_json::Value {
    serde_json::json!({"mounts": [{"state": state, "ready": true}], "allReady": true})
}

fn with_status(resource_version: u64, status: &serde_json::Value) -> MountObject {
    let mut object = mount("n1", "a", 1, resource_version);
    object.status = Some(status.clone());
    object
}

/// Carries out the pending write to n1/a: the watch delivers `before`, then the API answers with `answer`.
fn write(exchange: &Exchange, before: Vec<MountObject>, answer: MountObject) {
    let key = Key::new("n1", "a");
    let write = exchange.next_write(&key).expect("a status to write");
    before.into_iter().for_each(|object| exchange.apply_mount(object));
    exchange.write_accepted(&key, &write);
    assert!(exchange.refresh_mount(answer));
    assert_eq!(exchange.next_write(&key), None);
}

#[test]
fn an_object_is_sent_again_after_another_client_but_not_the_coordinator_wrote_its_status() {
    let exchange = exchange_with_report();
    write(&exchange, vec![with_status(6, &state("mounted"))], with_status(6, &state("mounted")));
    let mut more = state("mounted");
    more["later"] = serde_json::json!(1);
    exchange.apply_mount(with_status(7, &more));
    assert!(sent_messages(&exchange).is_empty(), "the status is as the node reported it");
    exchange.apply_mount(with_status(8, &state("other-hand")));
    assert_eq!(sent_messages(&exchange), ["desired a"]);
    exchange.apply_mount(with_status(9, &state("other")));
    assert!(sent_messages(&exchange).is_empty(), "the object is sent already");
    report(&exchange, 8);
    write(&exchange, Vec::new(), with_status(10, &state("mounted")));
    assert!(sent_messages(&exchange).is_empty());
    exchange.replace_mounts(vec![with_status(12, &state("other-hand"))]);
    assert_eq!(
        sent_messages(&exchange),
        ["desired a"],
        "the status was overwritten while the watch was not connected"
    );
}

#[test]
fn an_object_whose_status_and_finalizers_were_overwritten_gets_its_finalizer_and_is_sent_again() {
    let exchange = exchange_with_report();
    write(&exchange, Vec::new(), with_status(6, &state("mounted")));
    let mut replaced = with_status(7, &state("other-hand"));
    replaced.finalizers.clear();
    exchange.apply_mount(replaced);
    assert!(
        sent_messages(&exchange).is_empty(),
        "the finalizer is added before the object is sent"
    );
    let finalizer = exchange.next_write(&Key::new("n1", "a")).unwrap();
    assert!(finalizer.adds_finalizer());
    exchange.write_accepted(&Key::new("n1", "a"), &finalizer);
    exchange.refresh_mount(with_status(8, &state("other-hand")));
    assert_eq!(sent_messages(&exchange), ["desired a"]);
}

#[test]
fn an_object_whose_status_was_overwritten_before_the_answer_to_a_write_is_sent_again() {
    let exchange = exchange_with_report();
    let meanwhile = vec![with_status(6, &state("mounted")), with_status(7, &state("other-hand"))];
    write(&exchange, meanwhile, with_status(6, &state("mounted")));
    assert_eq!(sent_messages(&exchange), ["desired a"]);
}

#[test]
fn if_the_server_stores_a_status_differently_the_object_is_sent_again_only_once() {
    let exchange = exchange_with_report();
    write(&exchange, Vec::new(), with_status(6, &state("pruned")));
    assert_eq!(sent_messages(&exchange), ["desired a"]);
    report(&exchange, 6);
    write(&exchange, Vec::new(), with_status(6, &state("pruned")));
    assert!(sent_messages(&exchange).is_empty());
}

#[test]
fn a_refusal_in_a_status_is_written_again_after_another_client_overwrote_it() {
    let (key, mut foreign) = (Key::new("n1", "a"), mount("n1", "a", 1, 5));
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    let exchange = exchange_with_session(foreign.clone(), vec![pinned()]);
    let write = exchange.next_write(&key).unwrap();
    exchange.write_accepted(&key, &write);
    foreign.status = Some(write.operations[1]["value"].clone());
    foreign.resource_version = "6".to_owned();
    exchange.refresh_mount(foreign.clone());
    assert_eq!(exchange.next_write(&key), None);
    foreign.status = Some(state("mounted"));
    foreign.resource_version = "7".to_owned();
    exchange.apply_mount(foreign);
    let again = exchange.next_write(&key).unwrap();
    assert_eq!(again.operations[1], write.operations[1]);
}

#[test]
fn a_refusal_that_was_overwritten_before_the_api_answered_its_write_is_written_again() {
    let (key, mut foreign) = (Key::new("n1", "a"), mount("n1", "a", 1, 5));
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    let exchange = exchange_with_session(foreign.clone(), vec![pinned()]);
    let write = exchange.next_write(&key).unwrap();
    let with = |resource_version: u64, status: &serde_json::Value| {
        let mut object = foreign.clone();
        (object.status, object.resource_version) =
            (Some(status.clone()), resource_version.to_string());
        object
    };
    let refusal = &write.operations[1]["value"];
    exchange.apply_mount(with(6, refusal));
    exchange.apply_mount(with(7, &state("mounted")));
    exchange.write_accepted(&key, &write);
    assert!(exchange.refresh_mount(with(6, refusal)));
    let again = exchange.next_write(&key).expect("another client has overwritten it");
    assert_eq!(again.operations[1], write.operations[1]);
}

/// The coordinator sends both requests at once, so that a job's mount waits only for the slower one.
#[test]
fn a_profile_is_read_while_the_finalizer_is_added() {
    let mut fresh = mount("n1", "a", 1, 5);
    fresh.finalizers.clear();
    let key = fresh.key.clone();
    let exchange = exchange_with_session(fresh, Vec::new());
    assert!(sent_messages(&exchange).is_empty());
    let write = exchange.next_write(&key).unwrap();
    assert!(write.adds_finalizer());
    assert_eq!(exchange.lock().pending_reads.take(), Some(key.clone()));
    let (version, profile) = exchange.profile_to_read(&key).unwrap();
    assert_eq!(profile, Key::new("default", "pinned"));
    exchange.set_profile_read(&key, &version, Ok(pinned()));
    assert!(
        sent_messages(&exchange).is_empty(),
        "the object may be deleted before it has the finalizer"
    );
    exchange.write_accepted(&key, &write);
    assert!(exchange.refresh_mount(mount("n1", "a", 1, 6)));
    assert_eq!(sent_messages(&exchange), ["desired a", "Synced(Synced)"]);
    assert_eq!(exchange.profile_to_read(&key), None, "the profile is read once");
}

#[test]
fn a_mount_of_another_node_is_refused_and_never_sent() {
    let mut foreign = mount("n1", "a", 1, 5);
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    let exchange = exchange_with_session(foreign, vec![pinned()]);
    assert_eq!(sent_messages(&exchange), ["Synced(Synced)"]);
    let write = exchange.next_write(&Key::new("n1", "a")).unwrap();
    assert!(write.is_status());
    assert_eq!(write.operations[1]["value"]["error"]["severity"], "Fatal");
}

#[test]
fn an_invalid_object_gets_a_refusal_only_once_its_node_is_known_to_be_no_rabbit() {
    let exchange = Exchange::default();
    let mut foreign = mount("r1", "a", 1, 5);
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    let key = foreign.key.clone();
    exchange.replace_mounts(vec![foreign]);
    assert_eq!(exchange.next_write(&key), None);
    exchange.set_nodes(rabbits("r1"));
    assert_eq!(exchange.next_write(&key), None);
    exchange.set_nodes(Some(Nodes::default()));
    assert!(exchange.next_write(&key).is_some());
}

#[test]
fn a_session_starts_only_after_all_lists_and_while_the_watch_works() {
    let exchange = Exchange::default();
    let (ready, job) = (exchange.ready(), || mount("n1", "a", 1, 5));
    exchange.open("n1", 1, NodeKind::Compute);
    exchange.replace_mounts(vec![job()]);
    assert!(
        !*ready.borrow() && exchange.waiting_session("n1").is_none(),
        "profiles are not listed"
    );
    exchange.replace_profiles(vec![pinned()]);
    assert!(*ready.borrow());
    let taken = || exchange.lock().waiting_sessions.take();
    assert_eq!(taken().as_deref(), Some("n1"));
    assert_eq!(exchange.waiting_session("n1"), Some(1));
    exchange.watch_failed("ClientMount", &Trouble::Away("away".to_owned()));
    exchange.open("n1", 2, NodeKind::Compute);
    let listing = Listing { version: "9".to_owned(), objects: vec![job()] };
    assert!(!*ready.borrow() && !exchange.start_session("n1", 2, &listing));
    assert_eq!(exchange.waiting_session("n1"), None);
    assert_eq!(exchange.next("n1", 2), Ok(None));
    exchange.watch_recovered("ClientMount");
    assert_eq!(taken().as_deref(), Some("n1"), "the session is queued again");
    assert!(exchange.start_session("n1", 2, &listing));
    assert!(matches!(exchange.next("n1", 2), Ok(Some(v1::to_node::Message::Desired(_)))));
    assert_eq!(exchange.waiting_session("n1"), None);
}

#[test]
fn a_failure_is_logged_once_per_reason() {
    let exchange = Exchange::default();
    assert!(exchange.is_new_problem("away") && !exchange.is_new_problem("away"));
    exchange.request_succeeded();
    assert!(exchange.is_new_problem("away"));
}

fn unmounting(version: u64, is_deleted: bool, status: &serde_json::Value) -> MountObject {
    let mut object = with_status(version, status);
    object.desired_state = "unmounted".to_owned();
    object.version.deleting = is_deleted;
    object
}

/// Returns an exchange with one object whose node has no session.
fn exchange_without_agent(object: MountObject) -> Exchange {
    let exchange = Exchange::default();
    exchange.set_nodes(computes());
    exchange.replace_mounts(vec![object]);
    exchange
}

fn is_released(exchange: &Exchange) -> bool {
    let write = exchange.next_write(&Key::new("n1", "a"));
    write.is_some_and(|write| {
        let last = write.operations.last().unwrap();
        last["path"] == "/metadata/finalizers" && last["value"] == serde_json::json!([])
    })
}

#[test]
fn a_disconnected_nodes_finalizer_is_removed_only_when_the_status_says_unmounted() {
    let done = state("unmounted");
    assert!(is_released(&exchange_without_agent(unmounting(5, true, &done))));
    let mut failed = done.clone();
    failed["error"] =
        serde_json::json!({"debugMessage": "d", "type": "Internal", "severity": "Major"});
    let mut half = done.clone();
    half["mounts"][0]["ready"] = false.into();
    let mut short = done.clone();
    short["mounts"] = serde_json::json!([]);
    let mut not_all = done.clone();
    not_all["allReady"] = false.into();
    for (what, object) in [
        ("not deleted", unmounting(5, false, &done)),
        ("the status says mounted", unmounting(5, true, &state("mounted"))),
        ("the status has an error", unmounting(5, true, &failed)),
        ("one mount is not ready", unmounting(5, true, &half)),
        ("an entry is missing", unmounting(5, true, &short)),
        ("allReady is false", unmounting(5, true, &not_all)),
        (
            "the desired state is mounted",
            MountObject { desired_state: "mounted".into(), ..unmounting(5, true, &done) },
        ),
        ("never reported", MountObject { status: None, ..unmounting(5, true, &done) }),
    ] {
        assert_eq!(exchange_without_agent(object).next_write(&Key::new("n1", "a")), None, "{what}");
    }
}

#[test]
fn the_coordinator_removes_a_finalizer_only_after_the_node_has_disconnected() {
    let exchange = exchange_with_session(unmounting(5, false, &state("unmounted")), vec![pinned()]);
    exchange.apply_mount(unmounting(6, true, &state("unmounted")));
    assert_eq!(exchange.next_write(&Key::new("n1", "a")), None);
    exchange.close("n1", 1);
    assert!(is_released(&exchange));
}

#[test]
fn finalizers_are_removed_only_for_nodes_that_the_system_configuration_calls_computes() {
    let exchange = Exchange::default();
    exchange.replace_mounts(vec![unmounting(5, true, &state("unmounted"))]);
    assert!(!is_released(&exchange));
    for nodes in [None, rabbits("n1"), rabbits("n2"), Some(Nodes::default())] {
        exchange.set_nodes(nodes.clone());
        assert!(!is_released(&exchange), "{nodes:?}");
    }
    exchange.set_nodes(computes());
    assert!(is_released(&exchange));
}

#[test]
fn an_unmounted_status_is_retracted_before_a_node_mounts_again() {
    let mut again = with_status(5, &state("unmounted"));
    again.version.generation = 3;
    let exchange = exchange_with_session(again.clone(), vec![pinned()]);
    assert!(sent_messages(&exchange).is_empty(), "the status still says unmounted");
    let write = exchange.next_write(&again.key).unwrap();
    let retracted =
        serde_json::json!({"mounts": [{"state": "mounted", "ready": false}], "allReady": false});
    assert_eq!(write.operations[1]["value"], retracted);
    exchange.write_accepted(&again.key, &write);
    let stored = MountObject { status: Some(retracted), resource_version: "6".to_owned(), ..again };
    assert!(exchange.refresh_mount(stored));
    assert_eq!(sent_messages(&exchange), ["desired a", "Synced(Synced)"]);
}

#[test]
fn an_object_whose_retraction_the_api_refuses_is_not_sent_and_does_not_delay_the_synced_message() {
    let exchange = exchange_with_session(with_status(5, &state("unmounted")), vec![pinned()]);
    assert!(sent_messages(&exchange).is_empty());
    let key = Key::new("n1", "a");
    let write = exchange.next_write(&key).unwrap();
    exchange.write_refused(&key, &write);
    assert_eq!(sent_messages(&exchange), ["Synced(Synced)"]);
}

#[test]
fn a_node_gets_the_stored_statuses_of_a_job_only_after_it_was_sent_all_objects_of_the_node() {
    let exchange = exchange_with_session(mount("n1", "a", 1, 5), vec![pinned()]);
    let all = |_: &_| true;
    assert_eq!(exchange.job_mounts("n1", 1, all), None, "the object of the node was not sent yet");
    sent_messages(&exchange);
    exchange.apply_mount(with_status(6, &state("mounted")));
    let mounts = exchange.job_mounts("n1", 1, all).unwrap();
    let status: serde_json::Value = serde_json::from_slice(&mounts[0].status).unwrap();
    assert_eq!((mounts[0].name.as_str(), mounts[0].held, status), ("a", true, state("mounted")));
    assert_eq!(exchange.job_mounts("n1", 1, |_: &_| false), Some(Vec::new()));
    assert_eq!(exchange.job_mounts("n1", 2, all), None, "another session");
}
