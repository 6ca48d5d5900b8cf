//! Pools of persistent management targets.

use serde_json::json;

use super::{LUSTRE, put_persistent, two_rabbits, with_profile};
use crate::site::Site;

fn pool() -> Site {
    let mut site = two_rabbits();
    with_profile(
        &mut site,
        &json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "pool:pool"}}),
    );
    site
}

fn status_and_message(site: &Site) -> (String, String) {
    (site.status_of("w").2, site.status_of("w").3)
}

#[test]
fn a_pool_without_a_usable_member_is_reported_with_the_reason() {
    let mut site = pool();
    site.propose("w", LUSTRE, &["c1"]);
    site.request_state_and_settle("w", "Setup");
    let (status, message) = status_and_message(&site);
    assert_eq!(status, "TransientCondition");
    assert!(message.contains("no persistent storage is in the pool pool"), "{message}");
    assert!(message.contains("standaloneMgtPoolName"), "{message}");
    put_persistent(&mut site, "p1", "s", "Creating");
    assert!(
        status_and_message(&site).1.contains("for example p1: its state is Creating"),
        "{:?}",
        status_and_message(&site)
    );
    site.edit("Storage", "default", "s", |object| object["spec"]["state"] = json!("Disabled"));
    site.edit("PersistentStorageInstance", "default", "p1", |object| {
        object["status"]["state"] = json!("Active");
    });
    site.settle();
    assert!(
        status_and_message(&site).1.contains("p1: s is disabled"),
        "{:?}",
        status_and_message(&site)
    );
    site.edit("Storage", "default", "s", |object| object["spec"]["state"] = json!("Enabled"));
    site.settle();
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    assert_eq!(site.name_and_address("w").1, "10.0.0.2@tcp");
    site.remove("w");
}

#[test]
fn a_file_system_keeps_its_pool_member_until_its_name_is_erased() {
    let mut site = pool();
    put_persistent(&mut site, "p1", "s", "Degraded");
    put_persistent(&mut site, "p2", "r", "Active");
    site.bring("w", &[LUSTRE.to_owned()], "Setup", &["c1"]);
    assert_eq!(site.name_and_address("w").1, "10.0.0.1@tcp", "p1 is degraded");
    let held =
        &site.get("PersistentStorageInstance", "default", "p2")["spec"]["consumerReferences"];
    assert_eq!(held[0]["name"], "w-0");
    site.edit("PersistentStorageInstance", "default", "p1", |object| {
        object["status"]["state"] = json!("Active");
    });
    site.edit("PersistentStorageInstance", "default", "p2", |object| {
        object["status"]["state"] = json!("Degraded");
    });
    for state in ["DataIn", "PreRun"] {
        site.request_state_and_settle("w", state);
    }
    let mount = &site.get("ClientMount", "c1", "default-w-0-computes")["spec"]["mounts"][0];
    assert_eq!(mount["device"]["lustre"]["mgsAddresses"], "10.0.0.1@tcp");
    // The rabbit does not answer, so the name is not erased and the member stays in use.
    site.dead = vec!["r".to_owned()];
    site.request_state_and_settle("w", "Teardown");
    assert!(!site.status_of("w").1);
    let held =
        &site.get("PersistentStorageInstance", "default", "p2")["spec"]["consumerReferences"];
    assert_eq!(held.as_array().unwrap().len(), 1);
    site.dead.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn the_member_with_the_fewest_names_is_chosen() {
    let mut site = pool();
    put_persistent(&mut site, "p1", "r", "Active");
    put_persistent(&mut site, "p2", "s", "Active");
    for name in ["a", "b"] {
        site.propose(name, LUSTRE, &["c1"]);
        site.request_state_and_settle(name, "Setup");
        assert!(site.is_ready(name, "Setup"), "{:?}", site.status_of(name));
    }
    assert_ne!(site.name_and_address("a").1, site.name_and_address("b").1);
    site.delete(&crate::site::at("Workflow", "default", "a"));
    site.remove("b");
}
