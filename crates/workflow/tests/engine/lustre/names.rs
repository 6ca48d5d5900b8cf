//! File system names of several workflows, and the placement of their management targets.

use std::collections::BTreeSet;

use serde_json::json;

use super::{LUSTRE, lend_pool, put_external, put_persistent, two_rabbits, with_profile};
use crate::{job::GIB, site::Site};

#[test]
fn two_file_systems_never_have_the_same_name() {
    for seed in 0..3 {
        let mut site = two_rabbits();
        put_external(&mut site, "10.9.9.9@tcp");
        with_profile(
            &mut site,
            &json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "10.9.9.9@tcp"}}),
        );
        let both = ["a", "b"];
        for name in both {
            site.propose(name, LUSTRE, &["c1", "d1"]);
            site.request_state(name, "Setup");
        }
        let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
        site.settle_with(|length| {
            let mut random = random.borrow_mut();
            let mut order: Vec<usize> = (0..length).collect();
            random.shuffle(&mut order);
            order.truncate(length.min(2));
            order
        });
        for name in both {
            assert!(site.is_ready(name, "Setup"), "{:?}", site.status_of(name));
        }
        assert_ne!(site.name_and_address("a"), site.name_and_address("b"));
        // A new workflow of the same name gets another file system.
        let old = site.name_and_address("a");
        site.delete(&crate::site::at("Workflow", "default", "a"));
        site.settle();
        site.propose("a", LUSTRE, &["c1"]);
        site.request_state_and_settle("a", "Setup");
        assert!(site.is_ready("a", "Setup"), "{:?}", site.status_of("a"));
        assert!(
            site.name_and_address("a") != old
                && site.name_and_address("a") != site.name_and_address("b")
        );
        site.delete(&crate::site::at("Workflow", "default", "b"));
        site.remove("a");
    }
}

/// Makes a management target give out names from `aaaaaaaa`, the first of all names.
fn counts_from_the_first(site: &mut Site, namespace: &str, name: &str) {
    site.edit("NnfLustreMGT", namespace, name, |object| {
        object["spec"]["fsNameStart"] = json!("aaaaaaaa");
        object["status"]["fsNameNext"] = json!("aaaaaaaa");
    });
}

#[test]
fn file_systems_have_different_names_on_all_management_targets() {
    let mut site = two_rabbits();
    site.add_rabbit("t", &["e1"].map(str::to_owned), 1000 * GIB);
    lend_pool(&mut site);
    put_persistent(&mut site, "p1", "r", "Active");
    put_persistent(&mut site, "p2", "s", "Active");
    put_external(&mut site, "10.9.9.9@tcp");
    counts_from_the_first(&mut site, "nnf-system", "outside");
    site.put(json!({
        "kind": "LustreFileSystem", "metadata": {"name": "scratch", "namespace": "nnf-system"},
        "spec": {"name": "aaaaaaac", "mgsNids": "10.8.8.8@tcp", "mountRoot": "/lus/scratch"},
    }));
    with_profile(
        &mut site,
        &json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "10.9.9.9@tcp"}}),
    );
    let pooled = format!("{LUSTRE} profile=pooled");
    for (name, line) in [("a", &*pooled), ("b", &pooled), ("c", LUSTRE), ("d", LUSTRE)] {
        site.propose(name, line, &["c1"]);
        site.request_state_and_settle(name, "Setup");
        assert!(site.is_ready(name, "Setup"), "{:?}", site.status_of(name));
    }
    with_profile(&mut site, &json!({"combinedMgtMdt": true, "mgtOptions": {"externalMgs": ""}}));
    site.propose("e", LUSTRE, &["e1"]);
    site.request_state_and_settle("e", "Setup");
    assert!(site.is_ready("e", "Setup"), "{:?}", site.status_of("e"));
    let all = ["a", "b", "c", "d", "e"].map(|name| site.name_and_address(name).0);
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
    assert_eq!(all[..4], ["aaaaaaaa", "aaaaaaab", "aaaaaaad", "aaaaaaae"]);
    for name in ["a", "b", "c", "d"] {
        site.delete(&crate::site::at("Workflow", "default", name));
        site.settle();
    }
    site.remove("e");
}
