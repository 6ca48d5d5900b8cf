use super::*;
use crate::fanout::{Lack, Listing};
use crate::object::tests::mount;

fn told(exchange: &Exchange) -> Vec<String> {
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

#[test]
fn one_compute_is_told_once_its_profile_was_read() {
    let exchange = Exchange::new(Scope::OneCompute);
    exchange.open("n1", 1, Audience::Compute);
    assert!(told(&exchange).is_empty(), "nothing before the list");
    exchange.replace_mounts(vec![mount("n1", "a", 1, 5)]);
    assert!(told(&exchange).is_empty(), "nothing before the profile");
    let key = Key::new("n1", "a");
    let (version, profile) = exchange.unanswered(&key).unwrap();
    assert_eq!(profile, Key::new("default", "pinned"));
    exchange.answer(&key, &version, Err(Lack::Missing("not there".to_owned())));
    assert_eq!(told(&exchange), ["not there", "Synced(Synced)"]);
    assert!(exchange.unanswered(&key).is_some(), "it may appear");
    let pinned = ProfileObject { key: profile, resource_version: "9".to_owned(), json: Vec::new() };
    exchange.answer(&key, &version, Ok(pinned));
    assert_eq!(told(&exchange), ["desired a"]);
    assert_eq!(exchange.unanswered(&key), None);
    exchange.apply_mount(mount("n1", "a", 2, 6));
    assert!(told(&exchange).is_empty(), "the profile may have changed with the object");
    assert!(exchange.unanswered(&key).is_some());
}

/// A job's mount waits for two answers of the API one after the other, and not for three.
#[test]
fn a_profile_is_read_while_the_finalizer_is_put_on() {
    let exchange = Exchange::new(Scope::OneCompute);
    exchange.open("n1", 1, Audience::Compute);
    let mut fresh = mount("n1", "a", 1, 5);
    fresh.finalizers.clear();
    let key = fresh.key.clone();
    exchange.replace_mounts(vec![fresh]);
    assert!(told(&exchange).is_empty());
    let write = exchange.next_write(&key).unwrap();
    assert!(write.is_hold());
    assert_eq!(exchange.lock().asks.waiting.pop_front(), Some(key.clone()));
    let (version, profile) = exchange.unanswered(&key).unwrap();
    let pinned = ProfileObject { key: profile, resource_version: "9".to_owned(), json: Vec::new() };
    exchange.answer(&key, &version, Ok(pinned));
    assert!(told(&exchange).is_empty(), "it may go before it is held");
    exchange.written(&key, &write);
    assert!(exchange.refresh_mount(mount("n1", "a", 1, 6)));
    assert_eq!(told(&exchange), ["desired a", "Synced(Synced)"]);
    assert_eq!(exchange.unanswered(&key), None, "it is read once");
}

#[test]
fn what_is_meant_for_another_node_is_refused_and_never_told() {
    let exchange = Exchange::new(Scope::OneCompute);
    exchange.open("n1", 1, Audience::Compute);
    let mut foreign = mount("n1", "a", 1, 5);
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    exchange.replace_mounts(vec![foreign]);
    assert_eq!(told(&exchange), ["Synced(Synced)"]);
    let write = exchange.next_write(&Key::new("n1", "a")).unwrap();
    assert!(write.is_status());
    assert_eq!(write.operations[1]["value"]["error"]["severity"], "Fatal");
}

#[test]
fn a_machine_refuses_only_once_it_knows_who_speaks_for_himself() {
    let exchange = Exchange::new(Scope::Machine);
    let mut foreign = mount("r1", "a", 1, 5);
    foreign.node = "n2".to_owned();
    foreign.finalizers.clear();
    let key = foreign.key.clone();
    exchange.replace_mounts(vec![foreign]);
    assert_eq!(exchange.next_write(&key), None);
    exchange.set_speaking(Some(BTreeSet::from(["r1".to_owned()])));
    assert_eq!(exchange.next_write(&key), None);
    exchange.set_speaking(Some(BTreeSet::new()));
    assert!(exchange.next_write(&key).is_some());
}

#[test]
fn a_node_is_let_in_only_while_the_watch_works_and_once_the_api_was_asked() {
    let exchange = Exchange::new(Scope::Machine);
    let (ready, job) = (exchange.ready(), || mount("n1", "a", 1, 5));
    exchange.open("n1", 1, Audience::Compute);
    exchange.replace_mounts(vec![job()]);
    assert!(!*ready.borrow() && exchange.newcomer("n1").is_none(), "profiles are not listed");
    exchange.replace_profiles(vec![ProfileObject {
        key: Key::new("default", "pinned"),
        resource_version: "1".to_owned(),
        json: Vec::new(),
    }]);
    assert!(*ready.borrow());
    let taken = || exchange.lock().newcomers.waiting.pop_front();
    assert_eq!(taken().as_deref(), Some("n1"));
    assert_eq!(exchange.newcomer("n1"), Some(1));
    exchange.watch_state("ClientMount", Some("away".to_owned()));
    exchange.open("n1", 2, Audience::Compute);
    let listing = Listing { version: "9".to_owned(), objects: vec![job()] };
    assert!(!*ready.borrow() && !exchange.admit("n1", 2, &listing));
    assert_eq!(exchange.newcomer("n1"), None);
    assert_eq!(exchange.next("n1", 2), Ok(None));
    exchange.watch_state("ClientMount", None);
    assert_eq!(taken().as_deref(), Some("n1"), "it is asked for again");
    assert!(exchange.admit("n1", 2, &listing));
    assert!(matches!(exchange.next("n1", 2), Ok(Some(v1::to_node::Message::Desired(_)))));
    assert_eq!(exchange.newcomer("n1"), None);
}

#[test]
fn a_failure_is_said_once_per_reason() {
    let exchange = Exchange::new(Scope::Machine);
    assert!(exchange.watch_state("ClientMount", Some("away".to_owned())));
    assert!(!exchange.watch_state("ClientMount", Some("away".to_owned())));
    assert!(exchange.watch_state("ClientMount", Some("forbidden".to_owned())));
    assert!(exchange.watch_state("ClientMount", None));
    assert!(!exchange.watch_state("ClientMount", None));
    assert!(exchange.complain("away") && !exchange.complain("away"));
    exchange.content();
    assert!(exchange.complain("away"));
}
