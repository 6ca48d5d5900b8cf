//! Placement by the engine, and reservations of capacity.

use serde_json::json;

use crate::{
    job::{GIB, directive},
    site::{Site, at},
};

#[test]
fn a_job_waits_for_capacity_that_another_job_holds() {
    // Each of a job's two computes takes 1 GiB and the padding: the rabbit has room for one job.
    let mut site = Site::new(2, 3 * GIB);
    for name in ["a", "b"] {
        site.create(name, &[directive("xfs", "scratch")]);
    }
    site.settle();
    for name in ["a", "b"] {
        site.fill_computes(name, &["c1", "c2"]);
        site.request_state(name, "Setup");
    }
    // The engine fills one Servers at a time; here the engine restarts after each change.
    site.settle_with(|length| (0..length.min(1)).collect());
    assert!(site.is_ready("a", "Setup"), "{:?}", site.status_of("a"));
    let (_, ready, status, message) = site.status_of("b");
    // Flux ends a job after 10 s of a TransientCondition.
    assert!(!ready && status == "DriverWait", "{status}");
    assert!(message.contains("pending capacity on r: "), "{message}");
    assert!(message.contains("the workflow continues when other jobs release theirs"), "{message}");
    site.hand_over_capacity("a", "b");
}

#[test]
fn a_waiting_workflow_is_not_written_when_the_free_capacity_changes() {
    let mut site = Site::new(2, 3 * GIB);
    site.bring("a", &[directive("xfs", "scratch")], "Setup", &["c1", "c2"]);
    site.request_setup("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    assert_eq!(site.status_of("b").2, "DriverWait");
    let before = site.workflow("b").clone();
    for bytes in 1..4 {
        site.edit("NnfNode", "r", "nnf-nlc", |object| {
            object["status"]["capacity"] = json!(3 * GIB - bytes);
        });
        site.settle();
    }
    assert_eq!(*site.workflow("b"), before, "the status must not change");
}

#[test]
fn a_request_beyond_a_rabbits_total_capacity_fails_at_once() {
    let mut site = Site::new(2, GIB);
    site.request_setup("w", &[directive("xfs", "scratch")], &["c1", "c2"]);
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "Error");
    assert!(message.contains("its drives have 1073741824 in all"), "{message}");
    site.remove("w");
}

/// Each directive alone would fit; both together would wait for ever, each for the bytes of the other.
#[test]
fn directives_that_together_exceed_a_rabbit_fail_before_anything_is_created() {
    for filled_by_wlm in [false, true] {
        let mut site = Site::new(1, 3 * GIB);
        let lines = ["one", "two", "three"].map(|name| directive("xfs", name));
        site.create("w", &lines);
        site.settle();
        site.fill_computes("w", &["c1"]);
        if filled_by_wlm {
            for index in 0..3 {
                site.edit("Servers", "default", &format!("w-{index}"), |object| {
                    object["spec"]["allocationSets"] = json!([{"label": "xfs", "allocationSize": GIB + 100 * (1 << 20),
                        "storage": [{"name": "r", "allocationCount": 1}]}]);
                });
            }
        }
        site.request_state("w", "Setup");
        site.settle();
        let (_, ready, status, message) = site.status_of("w");
        assert!(!ready && status == "Error", "{status} {message}");
        assert!(message.contains("the directives of this workflow ask for"), "{message}");
        assert!(site.names("NnfNodeBlockStorage").is_empty(), "nothing is allocated");
        site.remove("w");
    }
}

#[test]
fn setup_fails_until_servers_or_computes_is_filled() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &[directive("xfs", "scratch")]);
    site.settle();
    site.request_state("w", "Setup");
    site.settle();
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "Error");
    assert!(message.contains("fill Servers, or fill Computes"), "{message}");
    site.fill_computes("w", &["c9"]);
    site.settle();
    assert!(
        site.status_of("w").3.contains("c9, which no rabbit serves"),
        "{:?}",
        site.status_of("w")
    );
    site.fill_computes("w", &["c1"]);
    site.settle();
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn setup_waits_while_a_rabbit_is_disabled() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &[directive("xfs", "scratch")]);
    site.settle();
    site.fill_computes("w", &["c1"]);
    site.edit("Storage", "default", "r", |object| object["spec"]["state"] = json!("Disabled"));
    site.request_state("w", "Setup");
    site.settle();
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "TransientCondition");
    assert!(message.contains("r is disabled by an administrator"), "{message}");
    assert!(site.names("NnfNodeBlockStorage").is_empty());
    site.edit("Storage", "default", "r", |object| object["spec"]["state"] = json!("Enabled"));
    site.settle();
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn an_invalid_minimum_capacity_is_reported_until_the_breakdown_is_deleted() {
    for (line, label, bytes) in [
        (directive("xfs", "scratch"), "xfs", -5),
        ("#DW jobdw type=lustre capacity=20GB name=lus".to_owned(), "ost", 0),
    ] {
        let mut site = Site::new(2, 100 * GIB);
        site.create("w", &[line]);
        site.settle();
        site.edit("DirectiveBreakdown", "default", "w-0", |object| {
            object["status"]["storage"]["allocationSets"][0]["minimumCapacity"] = json!(bytes);
        });
        site.fill_computes("w", &["c1", "c2"]);
        site.request_state("w", "Setup");
        site.settle();
        let (_, _, status, message) = site.status_of("w");
        assert_eq!(status, "Error");
        let wanted =
            format!("minimumCapacity of {label} is {bytes}: delete the DirectiveBreakdown");
        assert!(message.contains(&wanted), "{message}");
        assert_eq!(site.get("Servers", "default", "w-0")["spec"]["allocationSets"], json!(null));
        site.delete(&at("DirectiveBreakdown", "default", "w-0"));
        site.settle();
        assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
        site.remove("w");
    }
}
