//! Computes that are replaced, missing, or named only after Setup: two nodes never mount one allocation unless the file
//! system allows it.

use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    job::{GIB, directive},
    site::{Site, at},
};

fn slot(site: &Site, compute: &str) -> Value {
    let mount = site.get("ClientMount", compute, "default-w-0-computes");
    mount["spec"]["mounts"][0]["device"]["deviceReference"]["data"].clone()
}

/// [`Site::make`] panics if an XFS is mounted on a second node.
#[test]
fn a_replacement_compute_does_not_get_an_allocation_that_may_be_mounted() {
    for kind in ["xfs", "gfs2", "raw"] {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "DataIn", &["c1"]);
        site.dead = vec!["c1".to_owned()];
        site.request_state("w", "PreRun");
        site.settle();
        site.fill_computes("w", &["c2"]);
        site.settle();
        assert!(!site.names("ClientMount").contains(&"c2/default-w-0-computes".to_owned()));
        let (_, ready, status, message) = site.status_of("w");
        assert_eq!((ready, &*status), (false, "Error"), "{kind}: {message}");
        assert!(message.contains("Too many clients for storage: c2 is served by r"), "{message}");
        assert!(message.contains("ClientMount c1/default-w-0-computes holds one"), "{message}");
        // Only the deletion of c1's mount proves that c1 has nothing mounted.
        site.dead.clear();
        site.settle();
        site.delete(&at("ClientMount", "c1", "default-w-0-computes"));
        site.settle();
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.status_of("w"));
        assert_eq!(slot(&site, "c2"), Value::Null, "{kind}");
        site.remove("w");
    }
}

#[test]
fn a_deleted_mount_is_created_again_for_the_same_allocation() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "PreRun", &["c1", "c2"]);
    site.fill_computes("w", &["c2"]);
    site.delete(&at("ClientMount", "c2", "default-w-0-computes"));
    site.settle();
    assert_eq!(slot(&site, "c2"), json!(1), "c1 has mounted the first allocation");
    site.remove("w");
}

/// Returns the compute that each directory of the rabbit's index tree links to.
fn links(site: &Site) -> Vec<String> {
    let tree = &site.get("ClientMount", "r", "default-w-0-servers")["spec"]["mounts"];
    let mounts = tree.as_array().unwrap().iter();
    mounts.map(|mount| mount["compute"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_index_tree_links_each_allocation_to_the_compute_that_has_it() {
    for kind in ["raw", "gfs2"] {
        let mut site = Site::new(3, 100 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "PreRun", &["c1", "c2"]);
        assert_eq!(links(&site), ["c1", "c2"], "{kind}");
        // c3 replaces c1.
        site.fill_computes("w", &["c3", "c2"]);
        site.settle();
        assert_eq!(links(&site), ["c1", "c2"], "{kind}: c1 may still have its allocation mounted");
        site.delete(&at("ClientMount", "c1", "default-w-0-computes"));
        site.settle();
        assert_eq!(links(&site), ["c3", "c2"], "{kind}");
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.status_of("w"));
        // c3 leaves the job. The link to c3 stays: a user may still want the data of c3.
        site.fill_computes("w", &["c2"]);
        site.settle();
        assert_eq!(links(&site), ["c3", "c2"], "{kind}");
        // c2, the only remaining compute, gets the first allocation, and the index tree has no second link to c2.
        for compute in ["c2", "c3"] {
            site.delete(&at("ClientMount", compute, "default-w-0-computes"));
        }
        site.settle();
        assert_eq!(links(&site), ["c2", ""], "{kind}");
        site.remove("w");
    }
}

#[test]
fn no_compute_gets_an_allocation_while_the_engine_cannot_read_a_clientmount() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "PreRun", &["c1"]);
    site.unreadable = vec![at("ClientMount", "c1", "default-w-0-computes")];
    site.fill_computes("w", &["c2"]);
    site.settle();
    assert!(!site.names("ClientMount").contains(&"c2/default-w-0-computes".to_owned()));
    site.unreadable.clear();
    site.remove("w");
}

#[test]
fn prerun_fails_until_the_object_computes_is_filled() {
    for kind in ["xfs", "gfs2", "raw"] {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "DataIn", &["c1"]);
        // A deleted Computes is created again, empty.
        site.delete(&at("Computes", "default", "w"));
        site.request_state("w", "PreRun");
        site.settle();
        let (_, ready, status, message) = site.status_of("w");
        assert_eq!((ready, &*status), (false, "Error"), "{kind}: {message}");
        assert!(message.contains("WLM error: Computes names no compute"), "{message}");
        site.fill_computes("w", &["c1"]);
        site.settle();
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.status_of("w"));
        assert!(site.names("ClientMount").contains(&"c1/default-w-0-computes".to_owned()));
        site.remove("w");
    }
}

#[test]
fn prerun_of_persistent_storage_fails_without_computes() {
    let mut site = Site::new(1, 100 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    site.bring("w", &["#DW persistentdw name=kept".to_owned()], "DataIn", &[]);
    site.request_state("w", "PreRun");
    site.settle();
    assert!(
        site.status_of("w").3.contains("Computes names no compute"),
        "{:?}",
        site.status_of("w")
    );
    site.delete(&at("Workflow", "default", "w"));
    site.settle();
    site.end("kept");
}

/// The watch of Computes or Servers may deliver later than the watch of the workflow, and workload managers end a job
/// at the first error.
#[test]
fn errors_for_the_workload_manager_are_not_reported_while_a_state_is_new() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "DataIn", &["c1"]);
    site.fill_computes("w", &[]);
    site.request_state("w", "PreRun");
    assert!(site.step(|length| (0..length).collect()), "the workflow enters the state");
    let begun = site.now() + SignedDuration::from_secs(1);
    site.edit("Workflow", "default", "w", |object| {
        object["status"]["desiredStateChange"] = json!(begun.to_string());
    });
    assert!(site.plan_all().is_empty() && site.replans_soon("w"));
    let mut early = site.clone();
    early.fill_computes("w", &["c1"]);
    early.settle();
    assert!(early.is_ready("w", "PreRun"), "{:?}", early.status_of("w"));
    site.pass_time(1);
    site.settle();
    assert_eq!(site.status_of("w").2, "Error", "{:?}", site.status_of("w"));
}
