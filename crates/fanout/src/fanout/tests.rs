use super::*;
use crate::object::{Version, tests::mount};

const EPOCH: u64 = 7;

fn profile(resource_version: &str) -> ProfileObject {
    ProfileObject {
        key: Key::new("default", "pinned"),
        resource_version: resource_version.to_owned(),
        json: format!("profile {resource_version}").into_bytes(),
    }
}

fn fanout_with(objects: Vec<MountObject>) -> Fanout {
    let mut fanout = Fanout::default();
    fanout.replace_profiles(vec![profile("1")]);
    fanout.replace_mounts(objects);
    fanout
}

/// Opens and starts a session. The list with which it starts is empty, so the start does not wait for the watch.
fn connect(fanout: &mut Fanout, node: &str, epoch: u64) {
    fanout.open(node, epoch, NodeKind::Compute);
    assert!(fanout.start_session(node, epoch, &listing(0, Vec::new())));
}

fn listing(version: u64, objects: Vec<MountObject>) -> Listing {
    Listing { version: version.to_string(), objects }
}

fn missing_profile() -> NoProfile {
    NoProfile::Missing("missing".to_owned())
}

/// Returns all next steps for a node, as short texts.
fn drain(fanout: &mut Fanout, node: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        all.push(match fanout.next(node, EPOCH) {
            Next::Desired(desired) if desired.profile_missing.is_empty() => {
                format!(
                    "desired {}@{} {}",
                    desired.name,
                    desired.resource_version,
                    String::from_utf8(desired.profile).unwrap()
                )
            }
            Next::Desired(desired) => format!("desired {} without profile", desired.name),
            Next::Gone(gone) => format!("gone {} {}", gone.name, gone.uid),
            Next::Synced => "synced".to_owned(),
            Next::AddFinalizer(key) => format!("add finalizer {key}"),
            Next::RetractUnmounted(key) => format!("retract {key}"),
            Next::ReadProfile(key) => format!("read profile {key}"),
            Next::Ended => "ended".to_owned(),
            Next::Idle => return all,
        });
        if all.last().is_some_and(|last| last == "ended") {
            return all;
        }
    }
}

fn without_finalizer(mut object: MountObject) -> MountObject {
    object.finalizers.clear();
    object
}

fn deleting(mut object: MountObject) -> MountObject {
    object.version.deleting = true;
    object
}

#[test]
fn a_node_receives_its_own_objects_and_then_the_synced_message() {
    let mut fanout =
        fanout_with(vec![mount("n1", "a", 1, 5), mount("n2", "b", 1, 6), mount("n1", "c", 1, 7)]);
    connect(&mut fanout, "n1", EPOCH);
    assert_eq!(
        drain(&mut fanout, "n1"),
        ["desired a@5 profile 1", "desired c@7 profile 1", "synced"]
    );
    assert!(drain(&mut fanout, "n1").is_empty());
}

#[test]
fn nothing_is_sent_before_client_mounts_and_profiles_were_listed() {
    let mut fanout = Fanout::default();
    fanout.open("n1", EPOCH, NodeKind::Compute);
    let starts = |fanout: &mut Fanout| fanout.start_session("n1", EPOCH, &listing(0, Vec::new()));
    fanout.apply_mount(mount("n1", "a", 1, 5));
    assert!(!starts(&mut fanout) && drain(&mut fanout, "n1").is_empty());
    fanout.replace_mounts(vec![mount("n1", "a", 1, 5)]);
    assert!(!starts(&mut fanout) && drain(&mut fanout, "n1").is_empty());
    fanout.replace_profiles(vec![profile("1")]);
    assert!(starts(&mut fanout));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@5 profile 1", "synced"]);
}

#[test]
fn a_session_starts_once_the_watch_has_delivered_all_changes_up_to_its_list() {
    let before = mount("n1", "a", 1, 5);
    let mut fanout = fanout_with(vec![before.clone(), mount("n1", "ended", 1, 6)]);
    fanout.open("n1", EPOCH, NodeKind::Compute);
    assert_eq!(drain(&mut fanout, "n1"), [""; 0], "the API has not listed its objects");
    let (unmounted, created) = (mount("n1", "a", 2, 15), mount("n1", "created", 1, 16));
    let now = listing(20, vec![unmounted.clone(), created.clone()]);
    let starts = |fanout: &mut Fanout| {
        assert!(drain(fanout, "n1").is_empty());
        fanout.start_session("n1", EPOCH, &now)
    };
    assert!(!starts(&mut fanout));
    fanout.apply_mount(unmounted);
    assert!(!starts(&mut fanout));
    fanout.apply_mount(created);
    assert!(!starts(&mut fanout), "the watch still has an object that is not in the list");
    fanout.remove_mount(&Key::new("n1", "ended"), "uid-ended");
    assert!(starts(&mut fanout));
    assert_eq!(
        drain(&mut fanout, "n1"),
        ["desired a@15 profile 1", "desired created@16 profile 1", "synced"]
    );
}

#[test]
fn a_session_starts_at_once_if_the_watch_knows_the_listed_objects_or_newer_ones() {
    let mut later = mount("n1", "a", 2, 25);
    later.status = Some(serde_json::json!({"allReady": true}));
    let mut fanout = fanout_with(vec![later, mount("n1", "b", 1, 5), mount("n1", "new", 1, 26)]);
    fanout.open("n1", EPOCH, NodeKind::Compute);
    // Object b is older in the watch than in the list, but only its status differs.
    let then = listing(20, vec![mount("n1", "a", 1, 5), mount("n1", "b", 1, 19)]);
    assert!(fanout.start_session("n1", EPOCH, &then));
    assert_eq!(drain(&mut fanout, "n1").last().unwrap(), "synced");
}

#[test]
fn a_list_for_an_earlier_session_does_not_start_a_later_session() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5)]);
    fanout.open("n1", EPOCH, NodeKind::Compute);
    fanout.start_session("n1", EPOCH - 1, &listing(5, vec![mount("n1", "a", 1, 5)]));
    assert!(drain(&mut fanout, "n1").is_empty());
    assert_eq!(fanout.waiting_session("n1"), Some(EPOCH));
}

#[test]
fn an_object_created_and_deleted_before_the_session_started_is_not_sent() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5)]);
    fanout.open("n1", EPOCH, NodeKind::Compute);
    assert!(fanout.start_session("n1", EPOCH, &listing(20, vec![mount("n1", "a", 1, 5)])));
    drain(&mut fanout, "n1");
    fanout.apply_mount(mount("n1", "past", 1, 20));
    assert!(drain(&mut fanout, "n1").is_empty());
    fanout.apply_mount(mount("n1", "new", 1, 21));
    fanout.apply_mount(mount("n1", "a", 2, 22));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@22 profile 1", "desired new@21 profile 1"]);
    // After a restore from a backup, new objects have smaller resourceVersions than the list with which the session
    // started. They are sent nevertheless, because a complete list contains only objects that exist.
    let restored = [mount("n1", "a", 2, 22), mount("n1", "new", 1, 21), mount("n1", "b", 1, 9)];
    fanout.replace_mounts(restored.to_vec());
    assert_eq!(drain(&mut fanout, "n1"), ["desired b@9 profile 1"]);
}

#[test]
fn the_coordinators_own_writes_send_no_message() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5)]);
    connect(&mut fanout, "n1", EPOCH);
    drain(&mut fanout, "n1");
    let mut later = mount("n1", "a", 1, 8);
    later.status = Some(serde_json::json!({"allReady": true}));
    assert_eq!(fanout.apply_mount(later), Change::Status);
    assert!(drain(&mut fanout, "n1").is_empty());
}

#[test]
fn each_change_that_a_node_acts_on_is_sent_once_in_its_newest_version() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5)]);
    connect(&mut fanout, "n1", EPOCH);
    drain(&mut fanout, "n1");
    fanout.apply_mount(mount("n1", "a", 2, 6));
    fanout.apply_mount(mount("n1", "a", 3, 7));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@7 profile 1"]);
    let mut labelled = mount("n1", "a", 3, 8);
    labelled.version.labels.insert("x".to_owned(), "y".to_owned());
    fanout.apply_mount(labelled.clone());
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@8 profile 1"]);
    labelled.resource_version = "9".to_owned();
    fanout.apply_mount(deleting(labelled));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@9 profile 1"]);
}

#[test]
fn an_older_version_is_ignored() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 2, 9)]);
    assert_eq!(fanout.apply_mount(mount("n1", "a", 1, 5)), Change::Nothing);
    assert_eq!(fanout.mount(&Key::new("n1", "a")).unwrap().version.generation, 2);
}

#[test]
fn the_finalizer_is_added_before_the_object_is_sent_and_the_synced_message_waits_for_the_object() {
    let mut fanout = fanout_with(vec![without_finalizer(mount("n1", "a", 1, 5))]);
    connect(&mut fanout, "n1", EPOCH);
    assert_eq!(drain(&mut fanout, "n1"), ["add finalizer n1/a"]);
    fanout.apply_mount(mount("n1", "a", 1, 6));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@6 profile 1", "synced"]);
}

#[test]
fn the_synced_message_does_not_wait_for_a_deleted_object() {
    let mut fanout = fanout_with(vec![without_finalizer(mount("n1", "a", 1, 5))]);
    connect(&mut fanout, "n1", EPOCH);
    assert_eq!(drain(&mut fanout, "n1"), ["add finalizer n1/a"]);
    fanout.remove_mount(&Key::new("n1", "a"), "uid-a");
    assert_eq!(drain(&mut fanout, "n1"), ["synced"]);
}

#[test]
fn the_gone_message_is_sent_when_the_object_or_its_finalizer_is_gone() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5), mount("n1", "b", 1, 6)]);
    connect(&mut fanout, "n1", EPOCH);
    drain(&mut fanout, "n1");
    fanout.remove_mount(&Key::new("n1", "a"), "uid-a");
    fanout.apply_mount(deleting(without_finalizer(mount("n1", "b", 1, 7))));
    assert_eq!(drain(&mut fanout, "n1"), ["gone a uid-a", "gone b uid-b"]);
    fanout.remove_mount(&Key::new("n1", "b"), "uid-b");
    assert!(drain(&mut fanout, "n1").is_empty());
}

#[test]
fn before_a_new_object_of_the_same_name_is_sent_the_old_object_is_reported_gone() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5)]);
    connect(&mut fanout, "n1", EPOCH);
    drain(&mut fanout, "n1");
    let mut second = mount("n1", "a", 1, 9);
    second.version.uid = "second".to_owned();
    fanout.apply_mount(second);
    fanout.remove_mount(&Key::new("n1", "a"), "uid-a");
    assert_eq!(drain(&mut fanout, "n1"), ["gone a uid-a", "desired a@9 profile 1"]);
}

#[test]
fn after_a_new_list_the_changes_that_the_watch_missed_are_sent() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5), mount("n1", "b", 1, 6)]);
    connect(&mut fanout, "n1", EPOCH);
    drain(&mut fanout, "n1");
    fanout.replace_mounts(vec![mount("n1", "b", 2, 20), mount("n1", "c", 1, 21)]);
    assert_eq!(
        drain(&mut fanout, "n1"),
        ["gone a uid-a", "desired b@20 profile 1", "desired c@21 profile 1"]
    );
}

/// Returns a fanout with a mount whose profile the watch does not know yet.
fn without_profile() -> (Fanout, Key, Version) {
    let mut fanout = Fanout::default();
    fanout.replace_profiles(Vec::new());
    let object = mount("n1", "a", 1, 5);
    let (key, version) = (object.key.clone(), object.version.clone());
    fanout.replace_mounts(vec![object]);
    connect(&mut fanout, "n1", EPOCH);
    assert_eq!(drain(&mut fanout, "n1"), ["read profile n1/a"]);
    (fanout, key, version)
}

#[test]
fn an_object_is_sent_again_when_its_missing_profile_is_created_and_when_it_is_changed() {
    let (mut fanout, key, version) = without_profile();
    fanout.set_profile_read(&key, &version, Err(missing_profile()));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a without profile", "synced"]);
    assert_eq!(
        fanout.profile_to_read(&key),
        None,
        "the watch delivers the profile once it is created"
    );
    fanout.apply_profile(profile("8"));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@5 profile 8"]);
    fanout.apply_profile(profile("8"));
    assert!(drain(&mut fanout, "n1").is_empty());
    fanout.apply_profile(profile("9"));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@5 profile 9"]);
    fanout.remove_profile(&Key::new("default", "pinned"));
    assert_eq!(
        drain(&mut fanout, "n1"),
        ["read profile n1/a"],
        "the profile may have been created again"
    );
    fanout.set_profile_read(&key, &version, Err(missing_profile()));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a without profile"]);
}

#[test]
fn a_profile_that_the_watch_does_not_know_yet_is_sent_as_it_was_read() {
    let (mut fanout, key, version) = without_profile();
    assert_eq!(
        fanout.profile_to_read(&key),
        Some((version.clone(), Key::new("default", "pinned")))
    );
    fanout.set_profile_read(&key, &version, Ok(profile("8")));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@5 profile 8", "synced"]);
    fanout.replace_profiles(vec![profile("8")]);
    assert!(drain(&mut fanout, "n1").is_empty(), "the watch has the same version");
    assert_eq!(fanout.profile_to_read(&key), None);
}

#[test]
fn an_object_of_another_node_is_sent_to_no_node() {
    let mut foreign = without_finalizer(mount("n1", "a", 1, 5));
    foreign.node = "n2".to_owned();
    let text = refusal(&foreign).unwrap();
    assert!(text.contains("namespace n1") && text.contains("\"n2\""), "{text}");
    let mut fanout = fanout_with(vec![foreign.clone()]);
    connect(&mut fanout, "n1", EPOCH);
    assert_eq!(drain(&mut fanout, "n1"), ["synced"]);
    foreign.finalizers = mount("n1", "a", 1, 5).finalizers;
    assert_eq!(refusal(&foreign), None, "the node that added the finalizer must clean up");
}

#[test]
fn a_newer_session_ends_the_older_session() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5)]);
    connect(&mut fanout, "n1", EPOCH - 1);
    assert!(matches!(fanout.next("n1", EPOCH - 1), Next::Desired(_)));
    connect(&mut fanout, "n1", EPOCH);
    assert_eq!(fanout.next("n1", EPOCH - 1), Next::Ended);
    fanout.close("n1", EPOCH - 1);
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@5 profile 1", "synced"]);
    fanout.close_all();
    assert_eq!(fanout.next("n1", EPOCH), Next::Ended);
}

#[test]
fn a_report_on_an_earlier_version_or_another_uid_is_not_current() {
    let mut fanout = fanout_with(vec![mount("n1", "a", 1, 5)]);
    let key = Key::new("n1", "a");
    fanout.apply_mount(mount("n1", "a", 1, 8)); // only the status differs
    assert!(fanout.is_current(&key, "uid-a", "5"));
    assert!(!fanout.is_current(&key, "another", "5"));
    fanout.apply_mount(mount("n1", "a", 2, 9));
    assert!(!fanout.is_current(&key, "uid-a", "8"));
    assert!(fanout.is_current(&key, "uid-a", "9"));
    assert!(!fanout.is_current(&Key::new("n1", "z"), "uid-a", "9"));
}

#[test]
fn ten_thousand_objects_are_queued_for_their_own_nodes_only() {
    let objects =
        (0..10_000).map(|i| mount(&format!("n{}", i % 2500), &format!("m{i}"), 1, i + 1)).collect();
    let mut fanout = fanout_with(objects);
    connect(&mut fanout, "n3", EPOCH);
    connect(&mut fanout, "n4", EPOCH);
    assert_eq!(drain(&mut fanout, "n3").len(), 5);
    assert_eq!(fanout.queues["n4"].dirty.len(), 4);
    fanout.apply_mount(mount("n9", "m9", 2, 20_000));
    assert!(drain(&mut fanout, "n3").is_empty());
}

#[test]
fn a_rabbit_receives_nothing_but_the_end_of_its_session() {
    let mut fanout = fanout_with(vec![mount("rabbit-1", "a", 1, 5)]);
    fanout.open("rabbit-1", EPOCH, NodeKind::Rabbit);
    fanout.apply_mount(mount("rabbit-1", "a", 2, 6));
    assert!(drain(&mut fanout, "rabbit-1").is_empty());
    fanout.close_all();
    assert_eq!(fanout.next("rabbit-1", EPOCH), Next::Ended);
}

#[test]
fn the_synced_message_does_not_wait_for_an_object_whose_finalizer_the_api_refuses() {
    let mut fanout =
        fanout_with(vec![without_finalizer(mount("n1", "a", 1, 5)), mount("n1", "b", 1, 6)]);
    connect(&mut fanout, "n1", EPOCH);
    assert_eq!(drain(&mut fanout, "n1"), ["add finalizer n1/a", "desired b@6 profile 1"]);
    fanout.write_refused(&Key::new("n1", "a"));
    assert_eq!(drain(&mut fanout, "n1"), ["synced"]);
    fanout.apply_mount(without_finalizer(mount("n1", "a", 2, 7)));
    assert_eq!(
        drain(&mut fanout, "n1"),
        ["add finalizer n1/a"],
        "the change may make the write possible"
    );
}

#[test]
fn the_finalizer_is_added_before_the_profile_is_read() {
    let (mut fanout, _, _) = without_profile();
    fanout.apply_mount(without_finalizer(mount("n1", "b", 1, 6)));
    assert_eq!(drain(&mut fanout, "n1"), ["add finalizer n1/b"]);
    let with_finalizer = mount("n1", "b", 1, 7);
    let (key, version) = (with_finalizer.key.clone(), with_finalizer.version.clone());
    fanout.apply_mount(with_finalizer);
    assert_eq!(drain(&mut fanout, "n1"), ["read profile n1/b"]);
    fanout.set_profile_read(&key, &version, Err(missing_profile()));
    assert_eq!(drain(&mut fanout, "n1"), ["desired b without profile"]);
    fanout.set_profile_read(&key, &version, Err(missing_profile()));
    assert!(drain(&mut fanout, "n1").is_empty(), "the same answer changes nothing");
}

#[test]
fn a_forbidden_profile_is_reported_to_the_node_and_read_again() {
    let (mut fanout, key, version) = without_profile();
    for (read, unread) in
        [(Err(NoProfile::Forbidden("forbidden".to_owned())), true), (Err(missing_profile()), false)]
    {
        assert!(fanout.profile_to_read(&key).is_some());
        fanout.set_profile_read(&key, &version, read);
        let Next::Desired(desired) = fanout.next("n1", EPOCH) else {
            panic!("the object was not sent")
        };
        assert_eq!(desired.profile_unread, unread);
    }
    assert_eq!(
        fanout.profile_to_read(&key),
        None,
        "the watch delivers the profile once it is created"
    );
}

#[test]
fn a_read_for_an_earlier_version_is_dropped() {
    let (mut fanout, key, version) = without_profile();
    fanout.apply_mount(mount("n1", "a", 2, 6));
    fanout.set_profile_read(&key, &version, Ok(profile("3")));
    assert_eq!(drain(&mut fanout, "n1"), ["read profile n1/a"]);
    let (newer, _) = fanout.profile_to_read(&key).unwrap();
    fanout.set_profile_read(&key, &newer, Ok(profile("4")));
    assert_eq!(drain(&mut fanout, "n1"), ["desired a@6 profile 4", "synced"]);
}

#[test]
fn an_object_that_names_no_profile_is_sent_at_once() {
    let (mut fanout, _, _) = without_profile();
    let mut unlabelled = mount("n1", "b", 1, 6);
    unlabelled.version.labels.clear();
    fanout.apply_mount(unlabelled);
    assert_eq!(drain(&mut fanout, "n1"), ["desired b without profile"]);
}
