use super::*;
use crate::object::tests::mount;

fn key() -> Key {
    Key::new("n1", "a")
}

fn ready(state: &str) -> Value {
    json!({"mounts": [{"state": state, "ready": true}], "allReady": true})
}

fn paths(write: &Write) -> Vec<&str> {
    write.operations.iter().filter_map(|operation| operation["path"].as_str()).collect()
}

#[test]
fn a_write_that_changes_nothing_is_dropped() {
    let mut writes = PendingWrites::default();
    let mut object = mount("n1", "a", 1, 5);
    object.status = Some(ready("mounted"));
    assert!(writes.add_finalizer(&object));
    assert!(!writes.report(&object, ready("mounted"), false));
    assert_eq!(writes.take(), Some(key()));
    assert_eq!(writes.next(&key(), Some(&object)), None);
    assert!(
        writes.add_finalizer(&object),
        "the writer is done, so a new request starts another writer"
    );
}

#[test]
fn of_two_reported_statuses_one_writer_writes_only_the_newest() {
    let mut writes = PendingWrites::default();
    let object = mount("n1", "a", 1, 5);
    assert!(writes.report(&object, ready("mounted"), false));
    assert!(!writes.report(&object, ready("unmounted"), false));
    assert_eq!(writes.take(), Some(key()));
    assert_eq!(writes.take(), None);
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert!(write.is_status());
    assert_eq!(write.operations[0]["value"], "5");
    assert_eq!(write.operations[1]["value"], ready("unmounted"));
}

#[test]
fn adding_the_finalizer_keeps_the_finalizers_of_other_clients() {
    let mut writes = PendingWrites::default();
    let mut object = mount("n1", "a", 1, 5);
    object.finalizers = Vec::new();
    writes.add_finalizer(&object);
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert!(!write.is_status());
    assert_eq!(paths(&write), ["/metadata/resourceVersion", "/metadata/finalizers"]);
    object.finalizers = vec!["other".to_owned()];
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert_eq!(paths(&write)[1], "/metadata/finalizers/-");
    object.version.deleting = true;
    assert_eq!(writes.next(&key(), Some(&object)), None, "a deleted object takes no new finalizer");
}

#[test]
fn a_release_removes_the_last_finalizer_without_writing_the_status() {
    let mut writes = PendingWrites::default();
    let mut object = mount("n1", "a", 1, 5);
    object.version.deleting = true;
    writes.report(&object, ready("unmounted"), true);
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert!(!write.is_status());
    assert_eq!(write.operations[1]["value"], json!([]));

    object.finalizers.push("other".to_owned());
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert!(write.is_status(), "another finalizer keeps the object");
    object.status = Some(ready("unmounted"));
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert_eq!(write.operations[1]["value"], json!(["other"]));
}

#[test]
fn the_finalizer_stays_if_a_node_releases_an_object_that_is_not_deleted() {
    let mut writes = PendingWrites::default();
    let mut object = mount("n1", "a", 1, 5);
    object.status = Some(ready("unmounted"));
    writes.report(&object, ready("unmounted"), true);
    assert_eq!(writes.next(&key(), Some(&object)), None);
}

#[test]
fn a_report_removes_the_old_error_and_keeps_unknown_fields() {
    let mut writes = PendingWrites::default();
    let mut object = mount("n1", "a", 1, 5);
    object.status = Some(json!({"mounts": [], "error": {"severity": "Major"}, "later": 3}));
    writes.report(&object, ready("mounted"), false);
    let write = writes.next(&key(), Some(&object)).unwrap();
    let mut expected = ready("mounted");
    expected["later"] = json!(3);
    assert_eq!(write.operations[1]["value"], expected);
}

#[test]
fn unknown_fields_of_mount_entries_stay_if_the_report_has_as_many_entries() {
    let mut writes = PendingWrites::default();
    let mut object = mount("n1", "a", 1, 5);
    let entry = json!({"state": "unmounted", "ready": true, "later": 3});
    for (entries, kept) in [(vec![entry.clone()], json!(3)), (vec![entry; 2], Value::Null)] {
        object.status = Some(json!({"mounts": entries, "allReady": true}));
        writes.report(&object, ready("mounted"), false);
        let write = writes.next(&key(), Some(&object)).unwrap();
        let mounts = &write.operations[1]["value"]["mounts"];
        assert_eq!((mounts[0]["state"].as_str(), &mounts[0]["later"]), (Some("mounted"), &kept));
        assert_eq!(mounts.as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_status_that_is_no_json_object_or_has_too_few_entries_is_invalid() {
    let object = mount("n1", "a", 1, 5);
    assert!(parse_status(&serde_json::to_vec(&ready("mounted")).unwrap(), &object).is_ok());
    assert!(matches!(parse_status(b"{", &object), Err(InvalidStatus::NotJson(_))));
    assert!(matches!(parse_status(b"[]", &object), Err(InvalidStatus::NotAnObject)));
    let text = parse_status(b"{\"mounts\":[]}", &object).unwrap_err().to_string();
    assert!(text.contains("0 entries") && text.contains("has 1"), "{text}");
}

#[test]
fn the_status_of_a_refused_object_has_a_fatal_error_and_an_entry_per_mount() {
    let object = mount("n1", "a", 1, 5);
    let status = refused_status(&object, "because");
    assert!(parse_status(&serde_json::to_vec(&status).unwrap(), &object).is_ok());
    assert_eq!(status["error"]["severity"], "Fatal");
    assert_eq!(status["mounts"][0]["state"], "mounted");
}

#[test]
fn a_write_that_the_server_stores_differently_is_not_repeated() {
    let mut writes = PendingWrites::default();
    let object = mount("n1", "a", 1, 5);
    let mut status = ready("mounted");
    status["pruned"] = json!(true);
    writes.report(&object, status, false);
    let write = writes.next(&key(), Some(&object)).unwrap();
    writes.write_accepted(&key(), &write);
    assert_eq!(writes.next(&key(), Some(&object)), None);
}

#[test]
fn a_status_reported_during_a_write_is_written_next() {
    let mut writes = PendingWrites::default();
    let object = mount("n1", "a", 1, 5);
    writes.report(&object, ready("mounted"), false);
    let write = writes.next(&key(), Some(&object)).unwrap();
    writes.report(&object, ready("unmounted"), false);
    writes.write_accepted(&key(), &write);
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert_eq!(write.operations[1]["value"]["mounts"][0]["state"], "unmounted");
}

#[test]
fn pending_writes_are_dropped_for_a_new_object_of_the_same_name() {
    let mut writes = PendingWrites::default();
    let object = mount("n1", "a", 1, 5);
    let mut second = mount("n1", "a", 1, 9);
    second.version.uid = "another".to_owned();
    writes.report(&object, ready("mounted"), false);
    let late = writes.next(&key(), Some(&object)).unwrap();
    assert_eq!(writes.next(&key(), Some(&second)), None);
    assert!(writes.report(&object, ready("mounted"), false));
    assert!(
        !writes.report(&second, ready("mounted"), false),
        "a writer already works on this name"
    );
    writes.write_accepted(&key(), &late);
    let write = writes.next(&key(), Some(&second)).unwrap();
    assert_eq!(
        write.operations[0]["value"], "9",
        "the status of the second object is still to be written: the accepted write was for the first object"
    );
}

/// Between a report and its write, the object's spec may have changed, and the node may have acted on the change: the
/// report is then outdated.
#[test]
fn a_status_is_written_only_to_its_own_generation() {
    let mut writes = PendingWrites::default();
    let object = mount("n1", "a", 1, 5);
    writes.report(&object, ready("unmounted"), false);
    assert_eq!(writes.next(&key(), Some(&mount("n1", "a", 2, 6))), None);
    writes.report(&object, ready("unmounted"), false);
    assert!(writes.next(&key(), Some(&mount("n1", "a", 1, 7))).is_some());
}
