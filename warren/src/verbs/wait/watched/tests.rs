use std::time::Duration;

use super::*;
use crate::kinds::Kind;
use serde_json::{Value, json};

fn watched(select: Select, condition: Condition) -> Watched {
    let kind = Kind::for_test("ClientMount");
    Watched::new(Target { kind, namespace: Some("n1".to_owned()), select }, condition)
}

fn named(condition: Condition) -> Watched {
    watched(Select::Name { name: "a".to_owned(), uid: None }, condition)
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
    watched.take(Event::Init, now);
    for object in objects {
        watched.take(Event::InitApply(object), now);
    }
    watched.take(Event::InitDone, now);
}

#[tokio::test]
async fn what_does_not_exist_is_unmounted_but_not_mounted() {
    for (condition, met) in [
        (Condition::Mounted, false),
        (Condition::Ready, false),
        (Condition::Unmounted, true),
        (Condition::Deleted, true),
    ] {
        let mut watched = named(condition);
        assert!(!watched.is_met(), "nothing is known before the list");
        list(&mut watched, Vec::new());
        assert_eq!(watched.is_met(), met, "{condition:?}");
    }
}

#[tokio::test]
async fn all_objects_of_a_selector_must_get_there() {
    let mut watched = watched(Select::Labels("a=b".to_owned()), Condition::Mounted);
    list(&mut watched, vec![object("a", "1", mounted()), object("b", "2", json!(null))]);
    assert!(!watched.is_met());
    assert_eq!(watched.missing(), ["clientmount n1/b: in progress"]);
    let news = watched.take(Event::Apply(object("b", "2", mounted())), Instant::now());
    assert_eq!(news, ["clientmount n1/b: done"]);
    assert!(watched.is_met());
    assert_eq!(watched.count(), 2);
}

#[tokio::test]
async fn a_fatal_error_counts_from_when_it_was_first_seen() {
    let mut watched = named(Condition::Mounted);
    list(&mut watched, Vec::new());
    let fatal = json!({"error": {"severity": "Fatal", "userMessage": "no profile"}});
    let first = Instant::now();
    watched.take(Event::Apply(object("a", "1", fatal.clone())), first);
    watched.take(Event::Apply(object("a", "1", fatal)), first + Duration::from_secs(1));
    let (since, failure) = watched.fatal().unwrap();
    assert_eq!(since, first);
    assert_eq!(failure.exit, Exit::NodeFault);
    assert_eq!(failure.text(), "clientmount n1/a: no profile");
    watched.take(Event::Apply(object("a", "1", json!({}))), first);
    assert!(watched.fatal().is_none());
}

#[tokio::test]
async fn a_namesake_made_later_is_another_object() {
    let mut watched = watched(
        Select::Name { name: "a".to_owned(), uid: Some("1".to_owned()) },
        Condition::Deleted,
    );
    list(&mut watched, vec![object("a", "1", json!({}))]);
    assert!(!watched.is_met());
    watched.take(Event::Apply(object("a", "2", json!({}))), Instant::now());
    assert!(watched.is_met());
    assert_eq!(watched.count(), 1);
}
