//! Rabbits that leave and return, and the end of a system storage.

use serde_json::json;

use super::{LOCK, ON_R, ON_S, SYSTEM, access, assert_ready, key, mounted, site, status};
use crate::plan::tests::R;

#[test]
fn no_rabbit_left_is_a_minor_error_that_a_returning_rabbit_ends() {
    let spec = json!({"includeRabbits": ["r"], "excludeDisabledRabbits": true});
    let disabled = json!({"spec": {"state": "Disabled"}});
    let site = site(&spec).edit(R, &disabled).settle().plans(&[]);
    assert_eq!(
        status(&site),
        "Minor: no rabbit is left for the storage: see spec.includeRabbits, spec.excludeRabbits, spec.excludeDisabledRabbits, and the rabbits of the SystemConfiguration"
    );
    let enabled = json!({"spec": {"state": "Enabled"}, "status": {"status": "Ready"}});
    assert_ready(site.then_wakes(&key(), R, &enabled));
}

#[test]
fn a_disabled_rabbit_is_left_as_it_is_and_is_planned_again_when_it_is_back() {
    let spec = mounted(json!({"excludeDisabledRabbits": true}));
    let site = assert_ready(site(&spec));
    let disabled = json!({"spec": {"state": "Disabled"}, "status": {"status": "Disabled"}});
    let site = assert_ready(site.then_wakes(&key(), R, &disabled));
    assert_eq!(access(&site, ON_R), [["r", "c1", "c2", "c3"]]);
    assert!(site.names("ClientMount").contains(&"c1/default-lock".to_owned()));
    let site = site.edit(LOCK, &json!({"spec": {"excludeComputes": ["c1", "d1"]}}));
    let site = assert_ready(site);
    assert_eq!(access(&site, ON_R), [["r", "c1", "c2", "c3"]], "r is left alone");
    assert_eq!(access(&site, ON_S), [["s"]]);
    let enabled = json!({"spec": {"state": "Enabled"}, "status": {"status": "Ready"}});
    let site = assert_ready(site.then_wakes(&key(), R, &enabled));
    assert_eq!(access(&site, ON_R), [["r", "c2", "c3"]]);
    for left_out in [
        json!({"status": {"status": "Degraded"}}),
        json!({"metadata": {"labels": {"dataworkflowservices.github.io/storage": null}}}),
    ] {
        let site = site.clone().edit(R, &left_out).dead("r");
        let plan = crate::plan::plan_key(&site.world(), &key(), site.now());
        assert_eq!(
            plan.changes,
            [],
            "{left_out}: the storage waits for no rabbit that is left out"
        );
    }
}

#[test]
fn a_new_rabbit_gets_the_storage_and_a_removed_rabbit_keeps_its_allocation() {
    let without_s = json!({"spec": {"storageNodes": [{"type": "Rabbit", "name": "r",
        "computesAccess": [{"name": "c1", "index": 0}]}]}});
    let with_s = json!({"spec": {"storageNodes": [
        {"type": "Rabbit", "name": "r", "computesAccess": [{"name": "c1", "index": 0}]},
        {"type": "Rabbit", "name": "s", "computesAccess": [{"name": "d1", "index": 1}]}]}});
    let site = assert_ready(site(&mounted(json!({}))).edit(SYSTEM, &without_s));
    assert_eq!(site.names("NnfNodeStorage"), ["r/default-lock-system-storage-0"]);
    let site = assert_ready(site.then_wakes(&key(), SYSTEM, &with_s));
    assert_eq!(access(&site, ON_S), [["s", "d1"]]);
    let site = assert_ready(site.then_wakes(&key(), SYSTEM, &without_s));
    assert_eq!(site.names("ClientMount"), ["c1/default-lock"]);
    assert_eq!(access(&site, ON_S), [["s"]], "the data stays, and no compute sees it");
}

#[test]
fn deletion_unmounts_withdraws_and_removes_everything_but_foreign_storage() {
    let site = assert_ready(site(&mounted(json!({})))).dead("c1").delete(LOCK).settle();
    assert_eq!(access(&site, ON_R), [["r", "c1"]], "c1 has not unmounted");
    assert_eq!(site.names("ClientMount"), ["c1/default-lock"]);
    let site = site.alive("c1").settle().plans(&[]);
    for kind in
        ["ClientMount", "NnfNodeStorage", "NnfNodeBlockStorage", "Servers", "NnfSystemStorage"]
    {
        assert!(site.names(kind).is_empty(), "{kind}: {:?}", site.names(kind));
    }
    assert!(!site.names("NnfStorageProfile").is_empty(), "the profile is its administrator's");
}

#[test]
fn objects_of_other_controllers_stay() {
    let servers = json!({"spec": {}, "metadata": {"labels": {
        "dataworkflowservices.github.io/owner.kind": "NnfSystemStorage",
        "dataworkflowservices.github.io/owner.uid": "nnfsystemstorage-lock"}}});
    let site = site(&json!({})).put("Servers default/lock", servers).settle().plans(&[]);
    let expected = "Major: Servers default/lock belongs to other storage, or another controller made it, and stays as it is: give this NnfSystemStorage another name";
    assert_eq!(status(&site), expected);
    let site = site.delete(LOCK).settle().plans(&[]);
    assert_eq!(site.names("NnfSystemStorage"), ["default/lock"], "the finalizer stays");
    let site = site.without("Servers default/lock").settle();
    assert!(site.names("NnfSystemStorage").is_empty());
}

#[test]
fn nothing_is_removed_while_the_object_cannot_be_read() {
    let site = assert_ready(site(&mounted(json!({}))));
    site.clone().unreadable(LOCK).plans(&[]);
    let hidden = site.clone().unreadable("ClientMount c1/default-lock");
    let hidden = hidden.edit(LOCK, &json!({"spec": {"excludeComputes": ["c1", "c2"]}})).settle();
    assert_eq!(access(&hidden, ON_R), [["r", "c3", "c1", "c2"]], "c1 may have mounted");
    assert!(status(&hidden).starts_with("Major: c1/default-lock cannot be read"));
    let deleted = hidden.delete(LOCK).settle();
    assert_eq!(deleted.names("NnfNodeStorage").len(), 2);
    let mut unserved = site;
    unserved.unlisted.insert("NnfSystemStorage");
    unserved.plans(&[]);
}
