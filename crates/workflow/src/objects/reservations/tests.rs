use serde_json::{from_value, json};

use super::*;

fn place(name: &str) -> ObjectKey {
    ("default".to_owned(), name.to_owned())
}

fn node(free: i64, allocated: i64) -> NnfNode {
    from_value(json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNode",
        "metadata": {"name": "nnf-nlc", "namespace": "r"}, "spec": {"state": "Enable"},
        "status": {"capacity": free, "capacityAllocated": allocated},
    }))
    .unwrap()
}

fn servers(size: i64, count: i64) -> Servers {
    from_value(json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Servers",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"allocationSets": [{
                "label": "xfs", "allocationSize": size,
                "storage": [{"name": "r", "allocationCount": count}, {"name": "s", "allocationCount": 1}]}]},
        }))
        .unwrap()
}

fn block(bytes: i64) -> NnfNodeBlockStorage {
    from_value(json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeBlockStorage",
        "metadata": {"name": "b", "namespace": "r"}, "spec": {"sharedAllocation": true},
        "status": {"ready": true, "allocations": [{"capacityAllocated": bytes}]},
    }))
    .unwrap()
}

#[test]
fn a_reservation_counts_once_before_and_after_its_allocation() {
    let (mut reservations, asking, other) = (Reservations::default(), place("me"), place("other"));
    let free =
        |reservations: &Reservations, node: &NnfNode| reservations.space("r", node, &asking).free;
    assert_eq!(free(&reservations, &node(100, 0)), 100);
    reservations.reserve(&other, Some(&servers(10, 3)));
    assert_eq!(free(&reservations, &node(100, 0)), 70);
    let at = ("r".to_owned(), "b".to_owned());
    reservations.allocate(&at, Some(other.clone()), Some(&block(32)));
    assert_eq!(free(&reservations, &node(100, 0)), 68, "the rabbit has not reported yet");
    assert_eq!(free(&reservations, &node(68, 32)), 68);
    reservations.allocate(&at, None, None);
    reservations.reserve(&other, None);
    assert_eq!(free(&reservations, &node(68, 32)), 68, "the rabbit has not reported yet");
    assert_eq!(free(&reservations, &node(100, 0)), 100);
}

#[test]
fn of_two_reservations_that_do_not_both_fit_the_older_gets_the_bytes() {
    let mut reservations = Reservations::default();
    let created = |at: &str| {
        let mut servers = servers(60, 1);
        let at = serde_json::from_value(json!(at)).unwrap();
        servers.metadata.creation_timestamp = Some(at);
        servers
    };
    let (older, younger, new) = (place("z"), place("a"), place("new"));
    reservations.reserve(&older, Some(&created("2026-11-24T10:00:00Z")));
    reservations.reserve(&younger, Some(&created("2026-11-24T10:00:01Z")));
    let free =
        |reservations: &Reservations, asking| reservations.space("r", &node(100, 0), asking).free;
    assert_eq!((free(&reservations, &older), free(&reservations, &younger)), (100, 40));
    assert_eq!(free(&reservations, &new), -20, "a job without Servers comes after both");
    let at = ("r".to_owned(), "b".to_owned());
    reservations.begin_creation(at.clone(), younger.clone());
    assert_eq!(free(&reservations, &older), 40, "the creation for the younger Servers was sent");
    reservations.end_creation(&at);
    assert_eq!(free(&reservations, &older), 100, "the API refused the creation");
    reservations.allocate(&at, Some(younger.clone()), Some(&block(0)));
    assert_eq!(
        free(&reservations, &older),
        40,
        "the allocation of the younger Servers is being made"
    );
}

#[test]
fn a_servers_waits_for_an_older_unreadable_servers() {
    let mut reservations = Reservations::default();
    let created = |at: &str| serde_json::from_value::<Time>(json!(at)).unwrap();
    let (asking, unread) = (place("me"), place("unread"));
    let mut mine = servers(60, 1);
    mine.metadata.creation_timestamp = Some(created("2026-11-24T10:00:00Z"));
    let uncertain = BTreeMap::from([(unread.clone(), Some(created("2026-11-24T10:00:01Z")))]);
    assert!(
        reservations.set_unreadable(uncertain.clone()) && !reservations.set_unreadable(uncertain)
    );
    assert_eq!(
        reservations.blocking_unreadable(&asking),
        Some(&unread),
        "the asking Servers has no reservation"
    );
    assert_eq!(reservations.blocking_unreadable(&unread), None);
    reservations.reserve(&asking, Some(&mine));
    assert_eq!(reservations.blocking_unreadable(&asking), None, "the asking Servers is older");
    let at = ("r".to_owned(), "b".to_owned());
    reservations.begin_creation(at.clone(), unread.clone());
    assert_eq!(
        reservations.blocking_unreadable(&asking),
        Some(&unread),
        "the creation of storage for the unreadable Servers was sent"
    );
    reservations.end_creation(&at);
    reservations.allocate(&at, Some(unread.clone()), Some(&block(0)));
    assert_eq!(
        reservations.blocking_unreadable(&asking),
        Some(&unread),
        "an allocation for the unreadable Servers is being made"
    );
    assert!(reservations.set_unreadable(BTreeMap::new()));
    assert_eq!(reservations.blocking_unreadable(&asking), None);
}

#[test]
fn bytes_that_other_controllers_allocated_are_not_free() {
    let (mut reservations, asking) = (Reservations::default(), place("me"));
    let at = ("r".to_owned(), "b".to_owned());
    reservations.allocate(&at, None, Some(&block(20)));
    let space = reservations.space("r", &node(70, 30), &asking);
    assert_eq!(space, Space { total: 100, free: 70 });
}

#[test]
fn the_reservation_of_the_asking_servers_counts_as_free() {
    let (mut reservations, asking) = (Reservations::default(), place("me"));
    reservations.reserve(&asking, Some(&servers(60, 1)));
    assert_eq!(reservations.space("r", &node(100, 0), &asking).free, 100);
    let at = ("r".to_owned(), "b".to_owned());
    reservations.allocate(&at, Some(asking.clone()), Some(&block(60)));
    assert_eq!(reservations.space("r", &node(40, 60), &asking).free, 100);
}
