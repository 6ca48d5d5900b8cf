use super::*;
use crate::fanout::Listing;
use crate::object::tests::mount;

fn sent(exchange: &Exchange) -> Vec<String> {
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

/// One that serves n1, which has this object, by these profiles.
fn serving(object: MountObject, profiles: Vec<ProfileObject>) -> Exchange {
    let exchange = Exchange::default();
    exchange.set_nodes(computes());
    exchange.open("n1", 1, Audience::Compute);
    exchange.replace_profiles(profiles);
    assert!(sent(&exchange).is_empty(), "nothing before the list");
    exchange.replace_mounts(vec![object]);
    assert!(exchange.start_session(
        "n1",
        1,
        &Listing { version: "0".to_owned(), objects: Vec::new() }
    ));
    exchange
}

/// An exchange whose node was told of n1/a and has reported that it is mounted.
fn reported() -> Exchange {
    let exchange = serving(mount("n1", "a", 1, 5), vec![pinned()]);
    assert_eq!(sent(&exchange), ["desired a", "Synced(Synced)"]);
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

/// The writer's work on n1/a, whose answer is this object; what was known meanwhile is in `before`.
fn write(exchange: &Exchange, before: Vec<MountObject>, answer: MountObject) {
    let key = Key::new("n1", "a");
    let write = exchange.next_write(&key).expect("a status to write");
    before.into_iter().for_each(|object| exchange.apply_mount(object));
    exchange.written(&key, &write);
    assert!(exchange.refresh_mount(answer));
    assert_eq!(exchange.next_write(&key), None);
}

#[test]
fn own_writes_wake_nobody_and_a_status_written_over_has_the_node_asked_again() {
    let exchange = reported();
    write(&exchange, vec![with_status(6, &state("mounted"))], with_status(6, &state("mounted")));
    let mut more = state("mounted");
    more["later"] = serde_json::json!(1);
    exchange.apply_mount(with_status(7, &more));
    assert!(sent(&exchange).is_empty(), "it says what the node said");
    exchange.apply_mount(with_status(8, &state("other-hand")));
    assert_eq!(sent(&exchange), ["desired a"]);
    exchange.apply_mount(with_status(9, &state("other")));
    assert!(sent(&exchange).is_empty(), "it is asked already");
    report(&exchange, 8);
    write(&exchange, Vec::new(), with_status(10, &state("mounted")));
    assert!(sent(&exchange).is_empty());
    exchange.replace_mounts(vec![with_status(12, &state("other-hand"))]);
    assert_eq!(sent(&exchange), ["desired a"], "the watch was away while it was written over");
}

#[test]
fn a_status_written_over_along_with_the_finalizers_is_seen_once_the_node_holds_the_object_again() {
    let exchange = reported();
    write(&exchange, Vec::new(), with_status(6, &state("mounted")));
    let mut replaced = with_status(7, &state("other-hand"));
    replaced.finalizers.clear();
    exchange.apply_mount(replaced);
    assert!(sent(&exchange).is_empty(), "it must be held first");
    let hold = exchange.next_write(&Key::new("n1", "a")).unwrap();
    assert!(hold.adds_finalizer());
    exchange.written(&Key::new("n1", "a"), &hold);
    exchange.refresh_mount(with_status(8, &state("other-hand")));
    assert_eq!(sent(&exchange), ["desired a"]);
}

#[test]
fn a_status_written_over_while_the_answer_to_our_write_was_on_its_way_is_seen() {
    let exchange = reported();
    let meanwhile = vec![with_status(6, &state("mounted")), with_status(7, &state("other-hand"))];
    write(&exchange, meanwhile, with_status(6, &state("mounted")));
    assert_eq!(sent(&exchange), ["desired a"]);
}

#[test]
fn a_server_that_stores_something_else_has_the_node_asked_once_and_not_for_ever() {
    let exchange = reported();
    write(&exchange, Vec::new(), with_status(6, &state("pruned")));
    assert_eq!(sent(&exchange), ["desired a"]);
    report(&exchange, 6);
    write(&exchange, Vec::new(), with_status(6, &state("pruned")));
    assert!(sent(&exchange).is_empty());
}

#[test]
fn a_refusal_that_is_written_over_is_written_again() {
    let (key, mut foreign) = (Key::new("n1", "a"), mount("n1", "a", 1, 5));
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    let exchange = serving(foreign.clone(), vec![pinned()]);
    let write = exchange.next_write(&key).unwrap();
    exchange.written(&key, &write);
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

/// A job's mount waits for two answers of the API one after the other, and not for three.
#[test]
fn a_profile_is_read_while_the_finalizer_is_put_on() {
    let mut fresh = mount("n1", "a", 1, 5);
    fresh.finalizers.clear();
    let key = fresh.key.clone();
    let exchange = serving(fresh, Vec::new());
    assert!(sent(&exchange).is_empty());
    let write = exchange.next_write(&key).unwrap();
    assert!(write.adds_finalizer());
    assert_eq!(exchange.lock().pending_reads.waiting.pop_front(), Some(key.clone()));
    let (version, profile) = exchange.profile_to_read(&key).unwrap();
    assert_eq!(profile, Key::new("default", "pinned"));
    exchange.answer(&key, &version, Ok(pinned()));
    assert!(sent(&exchange).is_empty(), "it may go before it is held");
    exchange.written(&key, &write);
    assert!(exchange.refresh_mount(mount("n1", "a", 1, 6)));
    assert_eq!(sent(&exchange), ["desired a", "Synced(Synced)"]);
    assert_eq!(exchange.profile_to_read(&key), None, "it is read once");
}

#[test]
fn what_is_meant_for_another_node_is_refused_and_never_told() {
    let mut foreign = mount("n1", "a", 1, 5);
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    let exchange = serving(foreign, vec![pinned()]);
    assert_eq!(sent(&exchange), ["Synced(Synced)"]);
    let write = exchange.next_write(&Key::new("n1", "a")).unwrap();
    assert!(write.is_status());
    assert_eq!(write.operations[1]["value"]["error"]["severity"], "Fatal");
}

#[test]
fn a_machine_refuses_only_once_it_knows_who_speaks_for_himself() {
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
fn a_node_is_let_in_only_while_the_watch_works_and_once_the_api_was_asked() {
    let exchange = Exchange::default();
    let (ready, job) = (exchange.ready(), || mount("n1", "a", 1, 5));
    exchange.open("n1", 1, Audience::Compute);
    exchange.replace_mounts(vec![job()]);
    assert!(
        !*ready.borrow() && exchange.waiting_session("n1").is_none(),
        "profiles are not listed"
    );
    exchange.replace_profiles(vec![pinned()]);
    assert!(*ready.borrow());
    let taken = || exchange.lock().waiting_sessions.waiting.pop_front();
    assert_eq!(taken().as_deref(), Some("n1"));
    assert_eq!(exchange.waiting_session("n1"), Some(1));
    exchange.watch_failed("ClientMount", &Trouble::Away("away".to_owned()));
    exchange.open("n1", 2, Audience::Compute);
    let listing = Listing { version: "9".to_owned(), objects: vec![job()] };
    assert!(!*ready.borrow() && !exchange.start_session("n1", 2, &listing));
    assert_eq!(exchange.waiting_session("n1"), None);
    assert_eq!(exchange.next("n1", 2), Ok(None));
    exchange.watch_recovered("ClientMount");
    assert_eq!(taken().as_deref(), Some("n1"), "it is asked for again");
    assert!(exchange.start_session("n1", 2, &listing));
    assert!(matches!(exchange.next("n1", 2), Ok(Some(v1::to_node::Message::Desired(_)))));
    assert_eq!(exchange.waiting_session("n1"), None);
}

#[test]
fn a_complaint_is_logged_once_per_reason() {
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

/// Knows one object, and no session of its node.
fn alone(object: MountObject) -> Exchange {
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
fn a_deleted_object_goes_without_its_node_only_when_it_says_that_all_is_unmounted() {
    let done = state("unmounted");
    assert!(is_released(&alone(unmounting(5, true, &done))));
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
        ("mounted", unmounting(5, true, &state("mounted"))),
        ("failed", unmounting(5, true, &failed)),
        ("half", unmounting(5, true, &half)),
        ("an entry short", unmounting(5, true, &short)),
        ("not all", unmounting(5, true, &not_all)),
        (
            "asks to be mounted",
            MountObject { desired_state: "mounted".into(), ..unmounting(5, true, &done) },
        ),
        ("never reported", MountObject { status: None, ..unmounting(5, true, &done) }),
    ] {
        assert_eq!(alone(object).next_write(&Key::new("n1", "a")), None, "{what}");
    }
}

#[test]
fn a_node_that_is_there_lets_go_itself_and_one_that_leaves_is_spoken_for() {
    let exchange = serving(unmounting(5, false, &state("unmounted")), vec![pinned()]);
    exchange.apply_mount(unmounting(6, true, &state("unmounted")));
    assert_eq!(exchange.next_write(&Key::new("n1", "a")), None);
    exchange.close("n1", 1);
    assert!(is_released(&exchange));
}

#[test]
fn the_coordinator_lets_go_only_for_what_the_layout_calls_a_compute() {
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
fn the_word_that_all_is_unmounted_is_taken_back_before_a_node_mounts_again() {
    let mut again = with_status(5, &state("unmounted"));
    again.version.generation = 3;
    let exchange = serving(again.clone(), vec![pinned()]);
    assert!(sent(&exchange).is_empty(), "the word stands");
    let write = exchange.next_write(&again.key).unwrap();
    let taken_back =
        serde_json::json!({"mounts": [{"state": "mounted", "ready": false}], "allReady": false});
    assert_eq!(write.operations[1]["value"], taken_back);
    exchange.written(&again.key, &write);
    let stored =
        MountObject { status: Some(taken_back), resource_version: "6".to_owned(), ..again };
    assert!(exchange.refresh_mount(stored));
    assert_eq!(sent(&exchange), ["desired a", "Synced(Synced)"]);
}

#[test]
fn an_api_that_does_not_take_the_word_back_keeps_the_mount_from_the_node_and_the_node_from_nothing_else()
 {
    let exchange = serving(with_status(5, &state("unmounted")), vec![pinned()]);
    assert!(sent(&exchange).is_empty());
    let key = Key::new("n1", "a");
    let write = exchange.next_write(&key).unwrap();
    exchange.refused_write(&key, &write);
    assert_eq!(sent(&exchange), ["Synced(Synced)"]);
}

#[test]
fn a_node_that_waits_for_a_job_hears_what_is_stored() {
    let exchange = serving(mount("n1", "a", 1, 5), vec![pinned()]);
    let all = |_: &_| true;
    assert_eq!(exchange.job_mounts("n1", 1, all), None, "it was not told of everything");
    sent(&exchange);
    exchange.apply_mount(with_status(6, &state("mounted")));
    let mounts = exchange.job_mounts("n1", 1, all).unwrap();
    let status: serde_json::Value = serde_json::from_slice(&mounts[0].status).unwrap();
    assert_eq!((mounts[0].name.as_str(), mounts[0].held, status), ("a", true, state("mounted")));
    assert_eq!(exchange.job_mounts("n1", 1, |_: &_| false), Some(Vec::new()));
    assert_eq!(exchange.job_mounts("n1", 2, all), None, "another session");
}
