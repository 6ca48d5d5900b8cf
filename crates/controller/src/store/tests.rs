use api::NnfNodeBlockStorage;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::*;

fn object(name: &str, version: u32, generation: i64) -> NnfNodeBlockStorage {
    let mut object = NnfNodeBlockStorage::new(
        name,
        api::NnfNodeBlockStorageSpec { shared_allocation: false, allocations: Vec::new() },
    );
    let metadata = &mut object.metadata;
    metadata.namespace = Some("rabbit-1".to_owned());
    metadata.uid = Some(format!("uid-{name}"));
    metadata.resource_version = Some(version.to_string());
    metadata.generation = Some(generation);
    object
}

fn applied(name: &str, version: u32, generation: i64) -> Event<NnfNodeBlockStorage> {
    Event::Applied(Ok(object(name, version, generation)))
}

fn unreadable(metadata: ObjectMeta) -> Item<NnfNodeBlockStorage> {
    Err(Unreadable { metadata: Box::new(metadata), why: "no spec".to_owned() })
}

#[test]
fn the_watch_event_of_an_own_write_changes_nothing() {
    let mut store = Store::default();
    store.take(applied("a", 5, 1));
    let changes = store.apply_written(object("a", 9, 1));
    assert!(!changes[0].needs_reconcile());
    assert!(store.take(applied("a", 7, 1)).is_empty());
    assert!(store.take(applied("a", 9, 1)).is_empty());
    assert!(store.take(applied("a", 12, 2))[0].needs_reconcile());
}

#[test]
fn an_object_that_is_missing_in_a_complete_list_is_removed_from_the_store() {
    let mut store = Store::default();
    store.take(applied("a", 5, 1));
    store.take(applied("b", 6, 1));
    assert!(!store.is_complete() && store.iter().count() == 2);
    let gone = store.take(Event::Listed(vec![Ok(object("b", 6, 1))]));
    assert!(store.is_complete());
    assert_eq!(gone.len(), 1);
    assert!(gone[0].new.is_none() && gone[0].needs_reconcile());
    assert_eq!(store.iter().count(), 1);
}

#[test]
fn an_unreadable_object_keeps_its_last_state_until_it_is_deleted() {
    let mut store = Store::default();
    store.take(applied("a", 5, 1));
    let mut metadata = object("a", 6, 2).metadata;
    assert!(store.take(Event::Applied(unreadable(metadata.clone()))).is_empty());
    assert_eq!((store.unreadable().count(), store.iter().count()), (1, 1));
    metadata.resource_version = Some("7".into());
    metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert!(store.take(Event::Applied(unreadable(metadata.clone())))[0].needs_reconcile());
    assert!(store.take(Event::Deleted(unreadable(metadata)))[0].new.is_none());
    assert_eq!((store.unreadable().count(), store.iter().count()), (0, 0));
}

#[test]
fn an_object_stays_in_the_store_while_lists_deliver_it_as_unreadable() {
    let mut store = Store::default();
    store.take(applied("a", 5, 1));
    let listed = Event::Listed(vec![unreadable(object("a", 6, 2).metadata)]);
    assert!(store.take(listed).is_empty());
    assert_eq!((store.unreadable().count(), store.iter().count()), (1, 1));
    assert!(store.take(applied("a", 7, 3))[0].needs_reconcile());
    assert_eq!(store.unreadable().count(), 0);
}

#[test]
fn a_deleted_object_is_reported_with_its_last_finalizers() {
    let mut store = Store::default();
    let mut held = object("a", 5, 1);
    held.metadata.finalizers = Some(vec!["ours".to_owned()]);
    store.take(Event::Applied(Ok(held)));
    let gone = store.take(Event::Deleted(Ok(object("a", 6, 1))));
    let finalizers = gone[0].old.as_ref().unwrap().metadata.finalizers.as_deref();
    assert_eq!(finalizers, Some(&["ours".to_owned()][..]));
}

#[test]
fn the_answer_to_a_write_does_not_restore_a_deleted_object() {
    let mut store = Store::default();
    store.take(applied("a", 5, 1));
    store.take(Event::Deleted(Ok(object("a", 6, 1))));
    assert!(store.apply_written(object("a", 7, 1)).is_empty());
    assert_eq!(store.iter().count(), 0);
}

#[test]
fn resource_versions_compare_as_numbers() {
    assert!(precedes("9", "10"));
    assert!(!precedes("10", "10"));
    assert!(!precedes("x", "10"));
}
