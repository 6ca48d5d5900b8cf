//! File system names of several workflows, and the placement of their management targets.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    LUSTRE, lend_pool, put_external, put_persistent, two_rabbits, with_external, with_profile,
};
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

#[test]
fn a_second_management_target_for_a_rabbit_waits_until_the_first_is_removed() {
    let mut site = two_rabbits();
    for name in ["a", "b", "c"] {
        site.propose(name, LUSTRE, &["c1"]);
        site.request_state_and_settle(name, "Setup");
    }
    assert!(
        site.is_ready("a", "Setup") && site.is_ready("b", "Setup"),
        "{:?}",
        site.status_of("b")
    );
    assert_eq!(
        (site.name_and_address("a").1, site.name_and_address("b").1),
        ("10.0.0.1@tcp".to_owned(), "10.0.0.2@tcp".to_owned())
    );
    let (_, _, status, message) = site.status_of("c");
    assert_eq!(status, "DriverWait", "Flux ends a job after 10 s of a TransientCondition");
    assert!(message.contains("once the target of workflow default/a is removed"), "{message}");
    site.delete(&crate::site::at("Workflow", "default", "b"));
    site.settle();
    assert!(site.is_ready("c", "Setup"), "{:?}", site.status_of("c"));
    site.delete(&crate::site::at("Workflow", "default", "a"));
    site.remove("c");
}

#[test]
fn of_two_management_targets_for_one_rabbit_the_older_comes_first() {
    let mut site = two_rabbits();
    for name in ["a", "b"] {
        site.propose(name, LUSTRE, &["c1"]);
        site.fill_servers(name, &[("ost", &[("s", 1)]), ("mgtmdt", &[("r", 1)])]);
        site.request_state(name, "Setup");
    }
    site.settle_with(|length| (0..length.min(1)).collect());
    assert!(site.is_ready("a", "Setup"), "{:?}", site.status_of("a"));
    let (_, _, status, message) = site.status_of("b");
    assert_eq!(status, "DriverWait");
    let expected = "pending removal of the management target of workflow default/a from r";
    assert!(message.contains(expected), "{message}");
    site.delete(&crate::site::at("Workflow", "default", "a"));
    site.settle();
    assert!(site.is_ready("b", "Setup"), "{:?}", site.status_of("b"));
    site.remove("b");
}

#[test]
fn an_exclusive_mdt_is_placed_alone_and_refused_beside_other_targets() {
    let mut site = two_rabbits();
    with_profile(
        &mut site,
        &json!({"combinedMgtMdt": false, "mdtOptions": {"exclusive": true, "count": 1}}),
    );
    site.bring("w", &[LUSTRE.to_owned()], "Setup", &["c1"]);
    assert_eq!(
        site.targets("w"),
        ["r/default-w-0-mdt-0 mdt 0", "s/default-w-0-mgt-0 mgt 0", "s/default-w-0-ost-0 ost 0"]
    );
    site.remove("w");
    site.propose("w", LUSTRE, &["c1"]);
    site.fill_servers("w", &[("ost", &[("r", 1)]), ("mdt", &[("r", 1)]), ("mgt", &[("s", 1)])]);
    site.request_state_and_settle("w", "Setup");
    assert!(site.status_of("w").3.contains("beside mdt on r"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn an_external_mgs_without_exactly_one_nnflustremgt_is_reported() {
    let mut site = two_rabbits();
    with_profile(
        &mut site,
        &json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "10.9.9.9@tcp"}}),
    );
    site.propose("w", LUSTRE, &["c1"]);
    site.request_state_and_settle("w", "Setup");
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "TransientCondition");
    assert!(
        message.contains("no NnfLustreMGT resource found for MGS address 10.9.9.9@tcp"),
        "{message}"
    );
    put_external(&mut site, "10.9.9.9@tcp0");
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.remove("w");
    site.put(json!({
        "kind": "NnfLustreMGT", "metadata": {"name": "twice", "namespace": "nnf-system"},
        "spec": {"addresses": ["10.9.9.9@tcp"], "fsNameStart": "cccccccc"},
    }));
    site.propose("w", LUSTRE, &["c1"]);
    site.request_state_and_settle("w", "Setup");
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "Error");
    assert!(message.contains("multiple MGTs found"), "{message}");
    site.remove_mgt("nnf-system", "twice");
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.remove("w");
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

#[test]
fn a_name_that_another_file_system_has_is_given_back() {
    let mut site = with_external();
    lend_pool(&mut site);
    put_persistent(&mut site, "p1", "r", "Active");
    site.bring("a", &[LUSTRE.to_owned()], "Setup", &["c1"]);
    let taken = site.name_and_address("a").0;
    site.propose("b", &format!("{LUSTRE} profile=pooled"), &["d1"]);
    site.agents_sleep = true;
    site.request_state_and_settle("b", "Setup");
    // The target gives a name that another file system has. The engine could not foresee this name, because the
    // target's object did not show which name comes next.
    let holder = site.get("NnfLustreMGT", "r", "p1")["spec"]["claimList"][0].clone();
    assert!(holder.is_object(), "the engine requested a name");
    site.edit("NnfLustreMGT", "r", "p1", |object| {
        object["status"] = json!({"fsNameNext": "bbbbbbbz", "commandList": [],
            "claimList": [{"reference": holder, "fsname": taken}]});
    });
    site.agents_sleep = false;
    site.settle();
    assert!(site.is_ready("b", "Setup"), "{:?}", site.status_of("b"));
    assert_eq!(site.name_and_address("b").0, "bbbbbbbz");
    site.delete(&crate::site::at("Workflow", "default", "a"));
    site.remove("b");
}
