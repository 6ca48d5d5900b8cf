//! Objects that cannot be read when the engine starts: they exist, and the engine must conclude nothing from them.

use serde_json::json;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at},
};

fn workflow(name: &str) -> crate::site::At {
    at("Workflow", "default", name)
}

#[test]
fn an_unreadable_workflow_keeps_all_of_its_objects() {
    let lines = [directive("raw", "one"), directive("xfs", "two")];
    for state in STATES {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &lines, state, &["c1", "c2"]);
        let before = site.objects.clone();
        site.unreadable = vec![workflow("w")];
        site.settle();
        assert!(site.objects == before, "{state}: something was changed");
        // If the workflow is corrected, it continues. If the workflow is removed by force instead, nothing of it is
        // left.
        let mut corrected = site.clone();
        corrected.unreadable.clear();
        corrected.settle();
        corrected.remove("w");
        site.edit("Workflow", "default", "w", |object| {
            object["metadata"]["finalizers"] = json!([]);
        });
        site.delete(&workflow("w"));
        site.settle();
        site.assert_clean();
    }
}

#[test]
fn an_unreadable_workflow_stays_a_consumer_of_its_persistent_storage() {
    for state in ["Setup", "PreRun", "PostRun"] {
        let mut site = Site::new(1, 100 * GIB);
        site.keep("raw", "kept", &["c1"]);
        site.bring("use", &["#DW persistentdw name=kept".to_owned()], state, &["c1"]);
        let before = site.objects.clone();
        site.unreadable = vec![workflow("use")];
        site.settle();
        assert!(site.objects == before, "{state}: something was changed");
        // Another workflow cannot destroy the storage while the unreadable workflow is a consumer.
        site.create("end", &["#DW destroy_persistent name=kept".to_owned()]);
        site.settle();
        site.request_state("end", "Teardown");
        site.settle();
        assert!(site.status_of("end").3.contains("use-0"), "{state}: {:?}", site.status_of("end"));
        // The consumer entry is removed together with its workflow.
        site.edit("Workflow", "default", "use", |object| {
            object["metadata"]["finalizers"] = json!([]);
        });
        site.delete(&workflow("use"));
        site.settle();
        assert!(site.is_ready("end", "Teardown"), "{state}: {:?}", site.status_of("end"));
        site.remove("end");
    }
}

/// Returns a site with room for one job. Its engine stopped after it had filled the Servers of workflow `a`, and that
/// Servers has since become unreadable.
fn with_unreadable_reservation() -> Site {
    // Each of a job's two computes takes 1 GiB and the padding.
    let mut site = Site::new(2, 3 * GIB);
    site.create("a", &[directive("xfs", "scratch")]);
    site.settle();
    site.fill_computes("a", &["c1", "c2"]);
    site.request_state("a", "Setup");
    while site.get("Servers", "default", "a-0")["spec"]["allocationSets"].is_null() {
        assert!(site.step(|length| (0..length.min(1)).collect()), "{:?}", site.status_of("a"));
    }
    assert!(site.names("NnfNodeBlockStorage").is_empty());
    site.unreadable = vec![at("Servers", "default", "a-0")];
    site
}

#[test]
fn unreadable_servers_block_younger_placements() {
    let mut site = with_unreadable_reservation();
    site.request_setup("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    for name in ["a", "b"] {
        let (_, ready, status, message) = site.status_of(name);
        assert!(!ready && status == "TransientCondition", "{name}: {status} {message}");
        assert!(message.contains("Servers default/a-0 cannot be read"), "{name}: {message}");
    }
    assert!(site.names("NnfNodeBlockStorage").is_empty());
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("a", "Setup"), "{:?}", site.status_of("a"));
    assert!(site.status_of("b").3.contains("pending capacity on r"), "{:?}", site.status_of("b"));
    site.hand_over_capacity("a", "b");
}

#[test]
fn unreadable_servers_block_nothing_in_teardown_or_after_setup() {
    let mut site = with_unreadable_reservation();
    site.request_setup("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    site.request_state("a", "Teardown");
    site.settle();
    assert!(site.is_ready("b", "Setup"), "{:?}", site.status_of("b"));

    let mut site = Site::new(2, 6 * GIB);
    site.bring("a", &[directive("xfs", "scratch")], "PreRun", &["c1", "c2"]);
    site.unreadable = vec![at("Servers", "default", "a-0")];
    site.request_setup("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    assert!(site.is_ready("b", "Setup"), "{:?}", site.status_of("b"));
}

#[test]
fn create_persistent_waits_while_its_servers_cannot_be_read() {
    let mut site = Site::new(2, 100 * GIB);
    site.create("make", &["#DW create_persistent type=xfs capacity=1GiB name=kept".to_owned()]);
    site.settle();
    site.unreadable = vec![at("Servers", "default", "kept")];
    site.fill_computes("make", &["c1"]);
    site.request_state("make", "Setup");
    site.settle();
    let (_, _, status, message) = site.status_of("make");
    assert_eq!(status, "TransientCondition");
    assert!(message.contains("Servers default/kept cannot be read"), "{message}");
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("make", "Setup"), "{:?}", site.status_of("make"));
    site.unreadable = vec![at("Servers", "default", "kept")];
    site.request_setup("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    assert!(site.is_ready("b", "Setup"), "its storage is complete: {:?}", site.status_of("b"));
}

#[test]
fn prerun_reports_unreadable_servers_not_missing_ones() {
    let mut site = Site::new(2, 100 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    site.bring("own", &[directive("xfs", "scratch")], "DataIn", &["c1"]);
    site.bring("use", &["#DW persistentdw name=kept".to_owned()], "DataIn", &["c1"]);
    site.unreadable = vec![at("Servers", "default", "own-0"), at("Servers", "default", "kept")];
    for (name, servers) in [("own", "own-0"), ("use", "kept")] {
        site.request_state(name, "PreRun");
        site.settle();
        let (_, ready, status, message) = site.status_of(name);
        assert!(!ready && status == "TransientCondition", "{name}: {status} {message}");
        assert!(
            message.contains(&format!("Servers default/{servers} cannot be read")),
            "{message}"
        );
    }
    let kept = site.get("PersistentStorageInstance", "default", "kept");
    assert!(
        kept["status"]["error"]["debugMessage"].to_string().contains("cannot be read"),
        "{kept}"
    );
    site.unreadable.clear();
    site.settle();
    for name in ["own", "use"] {
        assert!(site.is_ready(name, "PreRun"), "{name}: {:?}", site.status_of(name));
    }
}
