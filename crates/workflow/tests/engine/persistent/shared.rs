//! Users and owners of persistent storage, and several workflows that use it at once.

use serde_json::json;

use super::{COMPUTES, create, destroy, uses};
use crate::{
    job::GIB,
    site::{Site, at},
};

#[test]
fn a_taken_name_is_refused_and_the_message_names_the_owner() {
    let mut site = Site::new(1, 100 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    let before = site.instance("kept").clone();
    site.create_by(2002, "again", &create("raw", "kept"));
    site.settle();
    let (state, _, status, message) = site.status_of("again");
    assert_eq!((&*state, &*status), ("Proposal", "Error"));
    assert!(message.contains("kept exists and belongs to user 1001"), "{message}");
    site.request_state("again", "Teardown");
    site.settle();
    assert!(site.is_ready("again", "Teardown"), "{:?}", site.status_of("again"));
    site.delete(&at("Workflow", "default", "again"));
    site.settle();
    assert_eq!(*site.instance("kept"), before);
    site.end("kept");
}

#[test]
fn a_name_that_a_foreign_servers_has_is_refused() {
    let mut site = Site::new(1, 100 * GIB);
    site.put(json!({
        "kind": "Servers", "metadata": {"name": "scratch", "namespace": "default"}, "spec": {},
    }));
    site.create("maker", &create("xfs", "scratch"));
    site.settle();
    assert!(
        site.status_of("maker").3.contains("the name is taken by Servers default/scratch"),
        "{:?}",
        site.status_of("maker")
    );
    site.delete(&at("Servers", "default", "scratch"));
    site.remove("maker");
}

#[test]
fn exactly_one_of_two_workflows_that_take_a_name_at_once_gets_it() {
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut site = Site::new(1, 100 * GIB);
        for name in ["a", "b"] {
            site.create_by(if name == "a" { 1001 } else { 2002 }, name, &create("xfs", "kept"));
        }
        let random = std::cell::RefCell::new(&mut random);
        site.settle_with(|length| {
            let mut order: Vec<usize> = (0..length).collect();
            random.borrow_mut().shuffle(&mut order);
            order.truncate(length.clamp(1, 2).min(length));
            order
        });
        let (mut winner, mut loser) = ("a", "b");
        if site.is_ready("b", "Proposal") {
            std::mem::swap(&mut winner, &mut loser);
        }
        assert!(site.is_ready(winner, "Proposal"), "{:?}", site.status_of(winner));
        let status = site.status_of(loser);
        assert!(
            status.2 == "Error"
                && status.3.contains(&format!("is being made by workflow {winner}")),
            "{status:?}"
        );
        // The deletion of the loser removes nothing that belongs to the winner.
        site.delete(&at("Workflow", "default", loser));
        site.settle();
        site.fill_computes(winner, &["c1"]);
        site.go(winner, "Teardown");
        assert!(site.is_ready(winner, "Teardown"), "{:?}", site.status_of(winner));
        assert_eq!(site.instance("kept")["status"]["state"], "Active");
    }
}

#[test]
fn other_users_may_use_persistent_storage_only_with_ignore_uid() {
    let mut site = Site::new(1, 100 * GIB);
    site.keep("raw", "kept", &["c1"]);
    site.create_by(2002, "theirs", &uses("kept"));
    site.settle();
    let (_, _, status, message) = site.status_of("theirs");
    assert!(status == "Error" && message.contains("1001") && message.contains("2002"), "{message}");
    site.edit("PersistentStorageInstance", "default", "kept", |object| {
        object["metadata"]["annotations"] =
            json!({"dataworkflowservices.github.io/ignore-uid": "True"});
    });
    site.settle();
    assert!(
        site.is_ready("theirs", "Proposal"),
        "the workflow continues after an error: {:?}",
        site.status_of("theirs")
    );
    site.fill_computes("theirs", &["c1"]);
    site.go("theirs", "PreRun");
    assert!(site.is_ready("theirs", "PreRun"), "{:?}", site.status_of("theirs"));
    // A user who may use the storage may not destroy it.
    site.create_by(2002, "end", &destroy("kept"));
    site.settle();
    let (state, _, status, message) = site.status_of("end");
    assert_eq!((&*state, &*status), ("Proposal", "Error"));
    assert!(message.contains("its owner may destroy it"), "{message}");
    site.request_state("end", "Teardown");
    site.settle();
    assert!(site.is_ready("end", "Teardown"), "{:?}", site.status_of("end"));
    assert_eq!(site.instance("kept")["spec"]["state"], "Active");
    for name in ["theirs", "end"] {
        site.delete(&at("Workflow", "default", name));
    }
    site.settle();
    site.end("kept");
}

#[test]
fn destroying_storage_in_use_is_refused_and_the_message_names_its_users() {
    let mut site = Site::new(2, 100 * GIB);
    site.keep("raw", "kept", &["c1", "c2"]);
    site.bring("one", &uses("kept"), "PreRun", &["c1"]);
    site.bring("two", &uses("kept"), "Setup", &["c2"]);
    assert_eq!(site.consumers("kept"), ["one-0", "two-0"]);
    site.create("end", &destroy("kept"));
    site.settle();
    site.go("end", "Teardown");
    let (_, ready, status, message) = site.status_of("end");
    assert!(!ready && status == "Error");
    assert!(message.contains("kept is used by one-0, two-0"), "{message}");
    // Deleting the workflow withdraws its request to destroy the storage.
    site.delete(&at("Workflow", "default", "end"));
    site.settle();
    site.go("one", "Teardown");
    site.go("two", "Teardown");
    assert!(site.is_ready("one", "Teardown") && site.is_ready("two", "Teardown"));
    assert_eq!(site.instance("kept")["spec"]["state"], "Active");
    for name in ["one", "two"] {
        site.delete(&at("Workflow", "default", name));
    }
    site.settle();
    site.end("kept");
}

#[test]
fn no_workflow_becomes_a_consumer_during_destruction() {
    let mut site = Site::new(1, 100 * GIB);
    site.keep("raw", "kept", &["c1"]);
    site.create("late", &uses("kept"));
    site.settle();
    site.fill_computes("late", &["c1"]);
    site.bring("end", &destroy("kept"), "DataOut", &[]);
    site.agents_sleep = true;
    site.request_state("end", "Teardown");
    site.settle();
    assert_eq!(site.instance("kept")["spec"]["state"], "Destroying");
    assert_eq!(site.instance("kept")["status"]["state"], "Destroying");
    site.request_state("late", "Setup");
    site.settle();
    assert!(
        site.status_of("late").3.contains("is being destroyed"),
        "{:?}",
        site.status_of("late")
    );
    site.agents_sleep = false;
    site.settle();
    assert!(site.is_ready("end", "Teardown"), "{:?}", site.status_of("end"));
    assert!(
        site.status_of("late").3.contains("does not exist any more"),
        "{:?}",
        site.status_of("late")
    );
    site.delete(&at("Workflow", "default", "late"));
    site.remove("end");
}

#[test]
fn deleted_persistent_storage_stays_until_its_last_consumer_ends() {
    let mut site = Site::new(1, 100 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    site.bring("use", &uses("kept"), "PreRun", &["c1"]);
    site.delete(&at("PersistentStorageInstance", "default", "kept"));
    site.settle();
    assert!(site.is_ready("use", "PreRun"));
    assert_eq!(site.names("NnfNodeStorage").len(), 1);
    site.go("use", "Teardown");
    assert!(site.is_ready("use", "Teardown"), "{:?}", site.status_of("use"));
    site.remove("use");
}

#[test]
fn degraded_persistent_storage_can_still_be_mounted() {
    for kind in ["xfs", "lustre"] {
        let mut site = Site::new(1, 100 * GIB);
        site.keep(kind, "kept", &["c1"]);
        site.health = "Degraded";
        site.settle();
        assert_eq!(site.instance("kept")["status"]["state"], "Degraded", "{kind}");
        site.bring("use", &uses("kept"), "Teardown", &["c1"]);
        site.health = "Healthy";
        site.settle();
        assert_eq!(site.instance("kept")["status"]["state"], "Active", "{kind}");
        site.delete(&at("Workflow", "default", "use"));
        site.settle();
        site.end("kept");
    }
}

#[test]
fn several_workflows_mount_gfs2_or_raw_at_once() {
    for kind in ["raw", "gfs2"] {
        let mut site = Site::new(3, 100 * GIB);
        site.keep(kind, "kept", &COMPUTES);
        site.bring("one", &uses("kept"), "PreRun", &["c1", "c2"]);
        site.bring("two", &uses("kept"), "PreRun", &["c2", "c3"]);
        assert_eq!(site.names("ClientMount").len(), 2 + 2 + 2, "{kind}");
        let access = |site: &Site| {
            site.get("NnfNodeBlockStorage", "r", &format!("default-kept-{kind}-0"))["spec"]
                .to_string()
        };
        // When one workflow unmounts, the other keeps its access.
        site.go("one", "PostRun");
        assert!(site.is_ready("one", "PostRun"), "{kind}: {:?}", site.status_of("one"));
        assert!(!access(&site).contains("c1") && access(&site).contains("c2"), "{}", access(&site));
        site.go("one", "Teardown");
        assert!(site.is_ready("two", "PreRun") && site.consumers("kept") == ["two-0"]);
        site.go("two", "Teardown");
        assert!(site.is_ready("two", "Teardown"), "{kind}: {:?}", site.status_of("two"));
        for name in ["one", "two"] {
            site.delete(&at("Workflow", "default", name));
        }
        site.settle();
        site.end("kept");
    }
}

#[test]
fn one_workflow_at_a_time_mounts_a_persistent_xfs() {
    let mut site = Site::new(2, 100 * GIB);
    site.keep("xfs", "kept", &["c1", "c2"]);
    site.bring("one", &uses("kept"), "PreRun", &["c1"]);
    site.bring("two", &uses("kept"), "DataIn", &["c2"]);
    site.request_state("two", "PreRun");
    site.settle();
    let (_, ready, _, message) = site.status_of("two");
    assert!(!ready && message.contains("which workflow one has mounted"), "{message}");
    site.go("one", "PostRun");
    assert!(site.is_ready("two", "PreRun"), "{:?}", site.status_of("two"));
    site.go("two", "Teardown");
    for name in ["one", "two"] {
        site.delete(&at("Workflow", "default", name));
    }
    site.settle();
    site.end("kept");
}

#[test]
fn two_workflows_that_need_the_same_two_xfs_never_deadlock() {
    for seed in 0..6 {
        let mut site = Site::new(2, 100 * GIB);
        site.keep("xfs", "first", &["c1"]);
        site.keep("xfs", "other", &["c1"]);
        let lines = |names: [&str; 2]| names.map(|name| uses(name).remove(0)).to_vec();
        site.bring("one", &lines(["first", "other"]), "DataIn", &["c1"]);
        site.bring("two", &lines(["other", "first"]), "DataIn", &["c2"]);
        let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
        site.request_state("one", "PreRun");
        site.request_state("two", "PreRun");
        site.settle_with(|length| {
            let mut order: Vec<usize> = (0..length).collect();
            random.borrow_mut().shuffle(&mut order);
            order.truncate(length.min(1));
            order
        });
        let (mut quick, mut late) = ("one", "two");
        if !site.is_ready(quick, "PreRun") {
            std::mem::swap(&mut quick, &mut late);
        }
        assert!(
            site.is_ready(quick, "PreRun"),
            "{:?} {:?}",
            site.status_of("one"),
            site.status_of("two")
        );
        site.go(quick, "Teardown");
        assert!(site.is_ready(late, "PreRun"), "{seed}: {:?}", site.status_of(late));
    }
}

#[test]
fn a_workflow_removed_by_force_is_no_consumer_any_more() {
    let mut site = Site::new(2, 100 * GIB);
    site.keep("xfs", "kept", &["c1", "c2"]);
    site.bring("use", &uses("kept"), "PreRun", &["c1", "c2"]);
    site.edit("Workflow", "default", "use", |object| object["metadata"]["finalizers"] = json!([]));
    site.delete(&at("Workflow", "default", "use"));
    site.settle();
    assert_eq!(site.consumers("kept"), Vec::<&str>::new());
    assert_eq!(site.names("ClientMount"), Vec::<String>::new());
    assert_eq!(site.names("NnfNodeStorage").len(), 1);
    site.end("kept");
}
