use std::time::Duration;

use super::*;
use crate::kinds::Kind;
use serde_json::{Value, json};

fn watch(select: Select, condition: Condition) -> Watched {
    let kind = Kind::for_test("ClientMount");
    Watched::new(Target { kind, namespace: Some("n1".to_owned()), select }, condition)
}

fn watch_by_name(condition: Condition) -> Watched {
    watch(Select::Name { name: "a".to_owned(), uid: None }, condition)
}

fn object(name: &str, uid: &str, status: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "metadata": {"namespace": "n1", "name": name, "uid": uid},
        "spec": {"desiredState": "mounted", "mounts": [{}]}, "status": status
    }))
    .unwrap()
}

fn mounted() -> Value {
    json!({"mounts": [{"state": "mounted", "ready": true}], "allReady": true})
}

fn list(watched: &mut Watched, objects: Vec<DynamicObject>) {
    let now = Instant::now();
    watched.apply_event(Event::Init, now);
    for object in objects {
        watched.apply_event(Event::InitApply(object), now);
    }
    watched.apply_event(Event::InitDone, now);
}

#[tokio::test]
async fn a_missing_object_counts_as_unmounted_but_not_as_mounted() {
    for (condition, met) in [
        (Condition::Mounted, false),
        (Condition::Ready, false),
        (Condition::Unmounted, true),
        (Condition::Deleted, true),
    ] {
        let mut watched = watch_by_name(condition);
        assert!(!watched.is_met(), "nothing is known before the list");
        list(&mut watched, Vec::new());
        assert_eq!(watched.is_met(), met, "{condition:?}");
    }
}

#[tokio::test]
async fn all_objects_of_a_selector_must_meet_the_condition() {
    let mut watched = watch(Select::Labels("a=b".to_owned()), Condition::Mounted);
    list(&mut watched, vec![object("a", "1", mounted()), object("b", "2", json!(null))]);
    assert!(!watched.is_met());
    assert_eq!(watched.unmet(), ["clientmount n1/b: in progress"]);
    let changes = watched.apply_event(Event::Apply(object("b", "2", mounted())), Instant::now());
    assert_eq!(changes, ["clientmount n1/b: done"]);
    assert!(watched.is_met());
    assert_eq!(watched.count(), 2);
}

#[tokio::test]
async fn the_time_of_a_fatal_error_is_that_of_its_first_observation() {
    let mut watched = watch_by_name(Condition::Mounted);
    list(&mut watched, Vec::new());
    let fatal = json!({"error": {"severity": "Fatal", "userMessage": "no profile"}});
    let first = Instant::now();
    watched.apply_event(Event::Apply(object("a", "1", fatal.clone())), first);
    watched.apply_event(Event::Apply(object("a", "1", fatal)), first + Duration::from_secs(1));
    let (since, failure) = watched.fatal().unwrap();
    assert_eq!(since, first);
    assert_eq!(failure.exit, Exit::NodeFault);
    assert_eq!(failure.text(), "clientmount n1/a: no profile");
    watched.apply_event(Event::Apply(object("a", "1", json!({}))), first);
    assert!(watched.fatal().is_none());
}

#[tokio::test]
async fn a_later_object_of_the_same_name_is_ignored_if_the_target_has_a_uid() {
    let mut watched =
        watch(Select::Name { name: "a".to_owned(), uid: Some("1".to_owned()) }, Condition::Deleted);
    list(&mut watched, vec![object("a", "1", json!({}))]);
    assert!(!watched.is_met());
    watched.apply_event(Event::Apply(object("a", "2", json!({}))), Instant::now());
    assert!(watched.is_met());
    assert_eq!(watched.count(), 1);
}
