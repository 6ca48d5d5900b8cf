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
fn a_promise_counts_once_before_and_after_it_is_kept() {
    let (mut ledger, asking, other) = (Ledger::default(), place("me"), place("other"));
    let free = |ledger: &Ledger, node: &NnfNode| ledger.space("r", node, &asking).free;
    assert_eq!(free(&ledger, &node(100, 0)), 100);
    ledger.promise(&other, Some(&servers(10, 3)));
    assert_eq!(free(&ledger, &node(100, 0)), 70);
    let at = ("r".to_owned(), "b".to_owned());
    ledger.allocate(&at, Some(other.clone()), Some(&block(32)));
    assert_eq!(free(&ledger, &node(100, 0)), 68, "the rabbit has not told yet");
    assert_eq!(free(&ledger, &node(68, 32)), 68);
    ledger.allocate(&at, None, None);
    ledger.promise(&other, None);
    assert_eq!(free(&ledger, &node(68, 32)), 68, "the rabbit has not told yet");
    assert_eq!(free(&ledger, &node(100, 0)), 100);
}

#[test]
fn of_two_that_do_not_both_fit_the_older_comes_first() {
    let mut ledger = Ledger::default();
    let created = |at: &str| {
        let mut servers = servers(60, 1);
        let at = serde_json::from_value(json!(at)).unwrap();
        servers.metadata.creation_timestamp = Some(at);
        servers
    };
    let (older, younger, new) = (place("z"), place("a"), place("new"));
    ledger.promise(&older, Some(&created("2026-11-24T10:00:00Z")));
    ledger.promise(&younger, Some(&created("2026-11-24T10:00:01Z")));
    let free = |ledger: &Ledger, asking| ledger.space("r", &node(100, 0), asking).free;
    assert_eq!((free(&ledger, &older), free(&ledger, &younger)), (100, 40));
    assert_eq!(free(&ledger, &new), -20, "who has no Servers yet is behind both");
    let at = ("r".to_owned(), "b".to_owned());
    ledger.begin(at.clone(), younger.clone());
    assert_eq!(free(&ledger, &older), 40, "the API is asked for the younger one's");
    ledger.end(&at);
    assert_eq!(free(&ledger, &older), 100, "the API refused it");
    ledger.allocate(&at, Some(younger.clone()), Some(&block(0)));
    assert_eq!(free(&ledger, &older), 40, "the younger one's is being made");
}

#[test]
fn who_comes_after_a_promise_that_nobody_can_read_waits() {
    let mut ledger = Ledger::default();
    let created = |at: &str| serde_json::from_value::<Time>(json!(at)).unwrap();
    let (asking, unread) = (place("me"), place("unread"));
    let mut mine = servers(60, 1);
    mine.metadata.creation_timestamp = Some(created("2026-11-24T10:00:00Z"));
    let doubts = BTreeMap::from([(unread.clone(), Some(created("2026-11-24T10:00:01Z")))]);
    assert!(ledger.set_unreadable(doubts.clone()) && !ledger.set_unreadable(doubts));
    assert_eq!(ledger.blocking_unreadable(&asking), Some(&unread), "it promises nothing yet");
    assert_eq!(ledger.blocking_unreadable(&unread), None);
    ledger.promise(&asking, Some(&mine));
    assert_eq!(ledger.blocking_unreadable(&asking), None, "it is the older one");
    let at = ("r".to_owned(), "b".to_owned());
    ledger.begin(at.clone(), unread.clone());
    assert_eq!(ledger.blocking_unreadable(&asking), Some(&unread), "the API is asked for it");
    ledger.end(&at);
    ledger.allocate(&at, Some(unread.clone()), Some(&block(0)));
    assert_eq!(ledger.blocking_unreadable(&asking), Some(&unread), "it is being made");
    assert!(ledger.set_unreadable(BTreeMap::new()));
    assert_eq!(ledger.blocking_unreadable(&asking), None);
}

#[test]
fn what_others_allocated_is_not_ours_to_give() {
    let (mut ledger, asking) = (Ledger::default(), place("me"));
    let at = ("r".to_owned(), "b".to_owned());
    ledger.allocate(&at, None, Some(&block(20)));
    let space = ledger.space("r", &node(70, 30), &asking);
    assert_eq!(space, Space { total: 100, free: 70 });
}

#[test]
fn what_is_promised_to_whom_it_is_asked_for_is_free_for_it() {
    let (mut ledger, asking) = (Ledger::default(), place("me"));
    ledger.promise(&asking, Some(&servers(60, 1)));
    assert_eq!(ledger.space("r", &node(100, 0), &asking).free, 100);
    let at = ("r".to_owned(), "b".to_owned());
    ledger.allocate(&at, Some(asking.clone()), Some(&block(60)));
    assert_eq!(ledger.space("r", &node(40, 60), &asking).free, 100);
}
