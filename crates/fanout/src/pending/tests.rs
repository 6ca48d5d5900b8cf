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
fn a_fulfilled_wish_is_no_write() {
    let mut writes = Writes::default();
    let mut object = mount("n1", "a", 1, 5);
    object.status = Some(ready("mounted"));
    assert!(writes.add_finalizer(&object));
    assert!(!writes.report(&object, ready("mounted"), false));
    assert_eq!(writes.take(), Some(key()));
    assert_eq!(writes.next(&key(), Some(&object)), None);
    assert!(writes.add_finalizer(&object), "the writer is done, so a new pending starts one");
}

#[test]
fn newest_status_wins_and_one_writer_works() {
    let mut writes = Writes::default();
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
fn hold_keeps_other_finalizers() {
    let mut writes = Writes::default();
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
fn release_takes_the_finalizer_and_skips_a_status_nobody_could_read() {
    let mut writes = Writes::default();
    let mut object = mount("n1", "a", 1, 5);
    object.version.deleting = true;
    writes.report(&object, ready("unmounted"), true);
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert!(!write.is_status());
    assert_eq!(write.operations[1]["value"], json!([]));

    object.finalizers.push("other".to_owned());
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert!(write.is_status(), "someone else keeps the object");
    object.status = Some(ready("unmounted"));
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert_eq!(write.operations[1]["value"], json!(["other"]));
}

#[test]
fn released_before_deletion_keeps_the_finalizer() {
    let mut writes = Writes::default();
    let mut object = mount("n1", "a", 1, 5);
    object.status = Some(ready("unmounted"));
    writes.report(&object, ready("unmounted"), true);
    assert_eq!(writes.next(&key(), Some(&object)), None);
}

#[test]
fn error_is_cleared_and_unknown_fields_stay() {
    let mut writes = Writes::default();
    let mut object = mount("n1", "a", 1, 5);
    object.status = Some(json!({"mounts": [], "error": {"severity": "Major"}, "later": 3}));
    writes.report(&object, ready("mounted"), false);
    let write = writes.next(&key(), Some(&object)).unwrap();
    let mut expected = ready("mounted");
    expected["later"] = json!(3);
    assert_eq!(write.operations[1]["value"], expected);
}

#[test]
fn unknown_fields_of_an_entry_stay_unless_entries_do_not_match() {
    let mut writes = Writes::default();
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
fn unfit_reports_are_told_apart() {
    let object = mount("n1", "a", 1, 5);
    assert!(fit(&serde_json::to_vec(&ready("mounted")).unwrap(), &object).is_ok());
    assert!(matches!(fit(b"{", &object), Err(UnfitStatus::NotJson(_))));
    assert!(matches!(fit(b"[]", &object), Err(UnfitStatus::NotAnObject)));
    let text = fit(b"{\"mounts\":[]}", &object).unwrap_err().to_string();
    assert!(text.contains("0 entries") && text.contains("has 1"), "{text}");
}

#[test]
fn refused_status_fits_its_object() {
    let object = mount("n1", "a", 1, 5);
    let status = refused(&object, "because");
    assert!(fit(&serde_json::to_vec(&status).unwrap(), &object).is_ok());
    assert_eq!(status["error"]["severity"], "Fatal");
    assert_eq!(status["mounts"][0]["state"], "mounted");
}

#[test]
fn a_write_the_server_stores_otherwise_is_not_repeated() {
    let mut writes = Writes::default();
    let object = mount("n1", "a", 1, 5);
    let mut status = ready("mounted");
    status["pruned"] = json!(true);
    writes.report(&object, status, false);
    let write = writes.next(&key(), Some(&object)).unwrap();
    writes.written(&key(), &write);
    assert_eq!(writes.next(&key(), Some(&object)), None);
}

#[test]
fn a_status_wished_during_a_write_is_written_next() {
    let mut writes = Writes::default();
    let object = mount("n1", "a", 1, 5);
    writes.report(&object, ready("mounted"), false);
    let write = writes.next(&key(), Some(&object)).unwrap();
    writes.report(&object, ready("unmounted"), false);
    writes.written(&key(), &write);
    let write = writes.next(&key(), Some(&object)).unwrap();
    assert_eq!(write.operations[1]["value"]["mounts"][0]["state"], "unmounted");
}

#[test]
fn what_was_wished_for_an_object_is_not_written_to_its_namesake() {
    let mut writes = Writes::default();
    let object = mount("n1", "a", 1, 5);
    let mut namesake = mount("n1", "a", 1, 9);
    namesake.version.uid = "another".to_owned();
    writes.report(&object, ready("mounted"), false);
    let late = writes.next(&key(), Some(&object)).unwrap();
    assert_eq!(writes.next(&key(), Some(&namesake)), None);
    assert!(writes.report(&object, ready("mounted"), false));
    assert!(!writes.report(&namesake, ready("mounted"), false), "its writer works already");
    writes.written(&key(), &late);
    let write = writes.next(&key(), Some(&namesake)).unwrap();
    assert_eq!(write.operations[0]["value"], "9", "it was not its status that was written");
}

/// Between a report and its write the object may have asked for something else, and its node may have done it.
#[test]
fn a_status_is_written_to_the_generation_that_it_is_about_and_to_no_other() {
    let mut writes = Writes::default();
    let object = mount("n1", "a", 1, 5);
    writes.report(&object, ready("unmounted"), false);
    assert_eq!(writes.next(&key(), Some(&mount("n1", "a", 2, 6))), None);
    writes.report(&object, ready("unmounted"), false);
    assert!(writes.next(&key(), Some(&mount("n1", "a", 1, 7))).is_some());
}
