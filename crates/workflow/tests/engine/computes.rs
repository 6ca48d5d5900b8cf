//! Computes that change, are missing or come late: no allocation is ever mounted by two nodes that may not share it.

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

/// [`Site::make`] refuses a second mount of an XFS.
#[test]
fn a_compute_that_takes_anothers_place_in_prerun_does_not_get_its_allocation() {
    for kind in ["xfs", "gfs2", "raw"] {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "DataIn", &["c1"]);
        site.dead = vec!["c1".to_owned()];
        site.ask("w", "PreRun");
        site.settle();
        site.fill_computes("w", &["c2"]);
        site.settle();
        assert!(!site.names("ClientMount").contains(&"c2/default-w-0-computes".to_owned()));
        let (_, ready, status, message) = site.told("w");
        assert_eq!((ready, &*status), (false, "Error"), "{kind}: {message}");
        assert!(message.contains("Too many clients for storage: c2 is served by r"), "{message}");
        assert!(message.contains("ClientMount c1/default-w-0-computes has one"), "{message}");
        // Only the end of c1's mount tells that c1 has nothing of it mounted.
        site.dead.clear();
        site.settle();
        site.delete(&at("ClientMount", "c1", "default-w-0-computes"));
        site.settle();
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.told("w"));
        assert_eq!(slot(&site, "c2"), Value::Null, "{kind}");
        site.remove("w");
    }
}

#[test]
fn a_mount_that_somebody_deletes_comes_back_on_its_own_allocation() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "PreRun", &["c1", "c2"]);
    site.fill_computes("w", &["c2"]);
    site.delete(&at("ClientMount", "c2", "default-w-0-computes"));
    site.settle();
    assert_eq!(slot(&site, "c2"), json!(1), "c1 has the first mounted");
    site.remove("w");
}

/// Who has which directory of the rabbit's tree.
fn links(site: &Site) -> Vec<String> {
    let mounts = &site.get("ClientMount", "r", "default-w-0-servers")["spec"]["mounts"];
    let of = mounts.as_array().unwrap().iter();
    of.map(|one| one["compute"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_rabbits_tree_links_to_who_has_an_allocation_now() {
    for kind in ["raw", "gfs2"] {
        let mut site = Site::new(3, 100 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "PreRun", &["c1", "c2"]);
        assert_eq!(links(&site), ["c1", "c2"], "{kind}");
        // Another takes the place of one.
        site.fill_computes("w", &["c3", "c2"]);
        site.settle();
        assert_eq!(links(&site), ["c1", "c2"], "{kind}: it may still have it mounted");
        site.delete(&at("ClientMount", "c1", "default-w-0-computes"));
        site.settle();
        assert_eq!(links(&site), ["c3", "c2"], "{kind}");
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.told("w"));
        // One is lost: its data may be of use to somebody.
        site.fill_computes("w", &["c2"]);
        site.settle();
        assert_eq!(links(&site), ["c3", "c2"], "{kind}");
        // The only one that is left gets the first allocation: it has no second link.
        for compute in ["c2", "c3"] {
            site.delete(&at("ClientMount", compute, "default-w-0-computes"));
        }
        site.settle();
        assert_eq!(links(&site), ["c2", ""], "{kind}");
        site.remove("w");
    }
}

#[test]
fn nobody_gets_an_allocation_beside_a_mount_that_cannot_be_read() {
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
fn prerun_with_storage_for_computes_and_none_named_is_an_error_until_one_is() {
    for kind in ["xfs", "gfs2", "raw"] {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "DataIn", &["c1"]);
        // Whoever deletes it finds it made again, and empty.
        site.delete(&at("Computes", "default", "w"));
        site.ask("w", "PreRun");
        site.settle();
        let (_, ready, status, message) = site.told("w");
        assert_eq!((ready, &*status), (false, "Error"), "{kind}: {message}");
        assert!(message.contains("WLM error: Computes names no compute"), "{message}");
        site.fill_computes("w", &["c1"]);
        site.settle();
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.told("w"));
        assert!(site.names("ClientMount").contains(&"c1/default-w-0-computes".to_owned()));
        site.remove("w");
    }
}

#[test]
fn persistent_storage_for_computes_is_not_ready_for_none() {
    let mut site = Site::new(1, 100 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    site.bring("w", &["#DW persistentdw name=kept".to_owned()], "DataIn", &[]);
    site.ask("w", "PreRun");
    site.settle();
    assert!(site.told("w").3.contains("Computes names no compute"), "{:?}", site.told("w"));
    site.delete(&at("Workflow", "default", "w"));
    site.settle();
    site.end("kept");
}

/// The watch of Computes or Servers may be behind that of the workflow, and workload managers end a job at the first error.
#[test]
fn what_a_workload_manager_did_wrong_is_told_once_the_state_is_not_new() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "DataIn", &["c1"]);
    site.fill_computes("w", &[]);
    site.ask("w", "PreRun");
    assert!(site.step(|length| (0..length).collect()), "it enters the state");
    let begun = site.now() + SignedDuration::from_secs(1);
    site.edit("Workflow", "default", "w", |object| {
        object["status"]["desiredStateChange"] = json!(begun.to_string());
    });
    assert!(site.planned().is_empty() && site.looks_again("w"));
    let mut early = site.clone();
    early.fill_computes("w", &["c1"]);
    early.settle();
    assert!(early.is_ready("w", "PreRun"), "{:?}", early.told("w"));
    site.pass_time(1);
    site.settle();
    assert_eq!(site.told("w").2, "Error", "{:?}", site.told("w"));
}
