//! `copy_in` and `copy_out`: paths and mounts of the movements, and failed and deleted movements.

mod mpi;

use api::names::movement;
use serde_json::{Value, json};
use workflow::change::Change;

use crate::{
    job::GIB,
    lustre,
    site::{At, Site, at},
};

impl Site {
    /// Sets the status of a movement, or removes the finalizer of a deleted movement, as a rabbit's agent does. Returns
    /// true if the movement changed.
    pub(crate) fn act_on_movement(&mut self, place: &At) -> bool {
        let Some(object) = self.objects.get(place) else { return false };
        if object["metadata"]["labels"][movement::MPI_RUN].is_string() {
            return false;
        }
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        let is_held =
            object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let verdict = self.errors.get("NnfDataMovement").cloned();
        let verdict = verdict.unwrap_or_else(|| json!({"state": "Finished", "status": "Success"}));
        if is_going == is_held && is_going {
            self.edit(&place.0, &place.1, &place.2, |object| {
                object["metadata"]["finalizers"] = json!([]);
            });
            self.collect();
            return true;
        }
        if is_going || object["status"] == verdict {
            return false;
        }
        self.edit(&place.0, &place.1, &place.2, |object| {
            object["metadata"]["finalizers"] = json!([movement::FINALIZER]);
            object["status"] = verdict;
        });
        true
    }

    /// Panics if a change unmounts storage on a rabbit with a running movement, or creates a movement before its
    /// storage is mounted.
    pub(crate) fn check_movements(&self, change: &Change, place: &At) {
        let is_mount = place.0 == "ClientMount" && place.2.ends_with("-servers");
        let unmounts = match change {
            Change::Delete(..) => true,
            Change::Patch(_, patch) => {
                serde_json::to_string(patch).unwrap().contains("\"unmounted\"")
            }
            _ => false,
        };
        let copies = |(at, object): (&At, &crate::stored::Stored)| {
            at.0 == "NnfDataMovement" && at.1 == place.1 && object["status"]["state"] != "Finished"
        };
        if is_mount && unmounts {
            assert!(
                !self.objects.iter().any(copies),
                "{change} unmounts storage on a rabbit while a movement runs there"
            );
        }
        if matches!(change, Change::Create(..)) && place.0 == "NnfDataMovement" {
            let is_mounted = |(at, object): (&At, &crate::stored::Stored)| {
                at.0 == "ClientMount"
                    && at.1 == place.1
                    && object["status"]["mounts"][0]["state"] == "mounted"
            };
            assert!(
                self.objects.iter().any(is_mounted),
                "{change} creates a movement before its storage is mounted"
            );
        }
    }

    fn with_lustre(computes: usize) -> Self {
        let mut site = Self::new(computes, 64 * GIB);
        site.add_global_lustre();
        site
    }

    /// Adds a default profile for copies, and the global Lustre /lus/global.
    pub(crate) fn add_global_lustre(&mut self) {
        self.put(json!({
            "kind": "NnfDataMovementProfile", "metadata": {"name": "default", "namespace": "nnf-system"},
            "data": {"default": true},
        }));
        self.put(json!({
            "kind": "LustreFileSystem", "metadata": {"name": "global", "namespace": "default"},
            "spec": {"name": "global", "mgsNids": "10.0.0.9@tcp", "mountRoot": "/lus/global"},
        }));
    }

    fn movement(&self, name: &str) -> &Value {
        self.get("NnfDataMovement", "r", name)
    }

    fn is_mounted_on_rabbit(&self) -> bool {
        let mount = &self.objects[&at("ClientMount", "r", "default-w-0-servers")];
        mount["status"]["mounts"][0]["state"] == "mounted"
    }
}

const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=scratch";
const GFS2: &str = "#DW jobdw type=gfs2 capacity=1GiB name=scratch";
const IN: &str = "#DW copy_in source=/lus/global/in destination=$DW_JOB_scratch/in";
const OUT: &str = "#DW copy_out source=$DW_JOB_scratch/out destination=/lus/global/results";

fn directives(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn go_to(site: &mut Site, state: &str) {
    site.request_state("w", state);
    site.settle();
    assert!(site.is_ready("w", state), "{state}: {:?}", site.status_of("w"));
}

#[test]
fn each_allocation_gets_a_movement_with_paths_on_its_rabbit_and_an_xfs_is_unmounted_in_between() {
    let mut site = Site::with_lustre(2);
    site.request_setup("w", &directives(&[XFS, IN, OUT]), &["c1", "c2"]);
    go_to(&mut site, "DataIn");
    let uid = site.workflow("w")["metadata"]["uid"].as_str().unwrap().to_owned();
    for index in 0..2 {
        let movement = site.movement(&format!("w-1-{index}"));
        let root = format!("/mnt/nnf/{uid}-0/node-{index}");
        assert_eq!(
            movement["spec"],
            json!({
                "source": {"path": "/lus/global/in", "storageReference":
                    {"kind": "LustreFileSystem", "name": "global", "namespace": "default", "fieldPath": "/lus/global"}},
                "destination": {"path": format!("{root}/in"), "storageReference":
                    {"kind": "Servers", "name": "w-0", "namespace": "default", "fieldPath": root}},
                "userId": 1001, "groupId": 1002, "cancel": false,
                "profileReference": {"kind": "NnfDataMovementProfile", "name": "w-1", "namespace": "default"},
            })
        );
        let labels = &movement["metadata"]["labels"];
        assert_eq!(labels["dm.cray.hpe.com/initiator"], "copy_in");
        assert_eq!(labels["nnf.cray.hpe.com/teardown_state"], "DataIn");
        assert_eq!(labels["nnf.cray.hpe.com/directive_index"], "1");
        assert!(labels[movement::INDEX_DIRECTORY].is_null());
    }
    assert!(site.is_mounted_on_rabbit());
    go_to(&mut site, "PreRun");
    assert!(!site.is_mounted_on_rabbit(), "the rabbit still mounts the XFS that computes mount");
    go_to(&mut site, "PostRun");
    go_to(&mut site, "DataOut");
    assert!(site.is_mounted_on_rabbit());
    let out = site.movement("w-2-1");
    assert_eq!(out["spec"]["source"]["path"], format!("/mnt/nnf/{uid}-0/node-1/out"));
    assert_eq!(out["spec"]["destination"]["path"], "/lus/global/results");
    assert_eq!(out["metadata"]["labels"][movement::INDEX_DIRECTORY], "r-1");
    go_to(&mut site, "Teardown");
    assert!(!site.objects.keys().any(|at| at.0 == "NnfDataMovement"));
}

#[test]
fn a_gfs2_stays_mounted_on_its_rabbit_after_copy_in() {
    let mut site = Site::with_lustre(2);
    site.request_setup("w", &directives(&[GFS2, IN]), &["c1", "c2"]);
    go_to(&mut site, "DataIn");
    go_to(&mut site, "PreRun");
    assert!(site.is_mounted_on_rabbit());
    for state in ["PostRun", "DataOut", "Teardown"] {
        go_to(&mut site, state);
    }
}

#[test]
fn a_failed_movement_fails_data_out_once_all_movements_have_ended_and_keeps_the_storage() {
    let mut site = Site::with_lustre(2);
    site.request_setup("w", &directives(&[XFS, OUT]), &["c1", "c2"]);
    for state in ["DataIn", "PreRun", "PostRun"] {
        go_to(&mut site, state);
    }
    let failed = json!({"state": "Finished", "status": "Failed", "message": "no space is left"});
    site.errors.insert("NnfDataMovement".to_owned(), failed);
    site.request_state("w", "DataOut");
    site.settle();
    let (_, ready, status, message) = site.status_of("w");
    assert!(!ready && status == "Error", "{status}: {message}");
    assert!(
        message.contains("copy_out on r: no space is left; number of other failed copies: 1"),
        "{message}"
    );
    assert!(site.objects.keys().any(|at| at.0 == "NnfNodeStorage"));
    go_to(&mut site, "Teardown");
}

#[test]
fn the_status_shows_whole_percents_of_running_copies_and_teardown_deletes_movements_before_storage()
{
    let mut site = Site::with_lustre(2);
    site.request_setup("w", &directives(&[XFS, IN]), &["c1", "c2"]);
    let running = json!({"state": "Running", "commandStatus": {"progress": 63}});
    site.errors.insert("NnfDataMovement".to_owned(), running);
    site.request_state("w", "DataIn");
    site.settle();
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(
        (status.as_str(), message.contains("copies on r: 63 %, 0 of 2 ended")),
        ("DriverWait", true),
        "{message}"
    );
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
}

#[test]
fn a_copy_from_a_path_outside_all_global_file_systems_is_refused() {
    let mut site = Site::with_lustre(1);
    site.create(
        "w",
        &directives(&[XFS, "#DW copy_in source=/lus/global2/in destination=$DW_JOB_scratch"]),
    );
    site.settle();
    let (.., message) = site.status_of("w");
    assert!(message.contains("/lus/global2/in") && message.contains("/lus/global"), "{message}");
}

const KEPT: &str = "#DW persistentdw name=kept";
const FROM_KEPT: &str = "#DW copy_in source=$DW_PERSISTENT_kept/in destination=$DW_JOB_scratch/in";
const TO_KEPT: &str = "#DW copy_in source=/lus/global/in destination=$DW_PERSISTENT_kept/in";
const OUT_OF_KEPT: &str = "#DW copy_out source=$DW_PERSISTENT_kept destination=/lus/global/results";

/// Returns the nodes that mount the storage of a workflow's directive.
fn nodes_with_mount(site: &Site, directive: &str) -> Vec<String> {
    let mounts = site.objects.iter().filter(|(at, object)| {
        at.0 == "ClientMount"
            && at.2.starts_with(&format!("default-{directive}-"))
            && object["status"]["mounts"][0]["state"] == "mounted"
    });
    mounts.map(|(at, _)| at.1.clone()).collect()
}

#[test]
fn persistent_storage_is_copied_in_and_out_and_is_mounted_on_its_rabbit_only_while_it_is_copied() {
    for kind in ["xfs", "gfs2"] {
        let mut site = Site::with_lustre(1);
        site.keep(kind, "kept", &["c1"]);
        site.request_setup("w", &directives(&[KEPT, TO_KEPT, OUT_OF_KEPT]), &["c1"]);
        go_to(&mut site, "DataIn");
        let uid = site.workflow("w")["metadata"]["uid"].as_str().unwrap().to_owned();
        let (into, root) = (site.movement("w-1-0"), format!("/mnt/nnf/{uid}-0/node-0"));
        assert_eq!(into["spec"]["destination"]["path"], format!("{root}/in"));
        assert_eq!(into["spec"]["destination"]["storageReference"]["name"], "kept");
        assert_eq!(nodes_with_mount(&site, "w-0"), Vec::<String>::new(), "{kind}");
        go_to(&mut site, "PreRun");
        assert!(nodes_with_mount(&site, "w-0").contains(&"c1".to_owned()));
        go_to(&mut site, "PostRun");
        go_to(&mut site, "DataOut");
        let out = site.movement("w-2-0");
        assert_eq!(out["spec"]["source"]["path"], root);
        assert_eq!(out["metadata"]["labels"][movement::INDEX_DIRECTORY], "r-0");
        go_to(&mut site, "Teardown");
        site.delete(&at("Workflow", "default", "w"));
        site.settle();
        site.end("kept");
    }
}

#[test]
fn a_persistent_lustre_is_copied_to_the_rabbits_of_any_storage() {
    for (kind, storage) in [("lustre", XFS), ("lustre", GFS2), ("xfs", XFS)] {
        let mut site = Site::with_lustre(2);
        site.keep(kind, "kept", &["c1", "c2"]);
        site.request_setup("w", &directives(&[storage, KEPT, FROM_KEPT]), &["c1", "c2"]);
        go_to(&mut site, "DataIn");
        let uid = site.workflow("w")["metadata"]["uid"].as_str().unwrap().to_owned();
        for index in 0..2 {
            let root = format!("/mnt/nnf/{uid}-1");
            let root = if kind == "lustre" { root } else { format!("{root}/node-{index}") };
            let movement = site.movement(&format!("w-2-{index}"));
            assert_eq!(movement["spec"]["source"]["path"], format!("{root}/in"));
        }
        for state in ["PreRun", "PostRun", "DataOut", "Teardown"] {
            go_to(&mut site, state);
        }
    }
}

#[test]
fn the_rabbits_of_a_lustre_divide_the_source_of_its_copies() {
    let mut site = lustre::two_rabbits();
    site.add_global_lustre();
    let source = "#DW copy_in source=/lus/global/in destination=$DW_JOB_lus/in";
    site.request_setup("w", &directives(&[lustre::LUSTRE, source]), &["c1", "d1"]);
    go_to(&mut site, "DataIn");
    for (rabbit, share) in [("r", "0-of-2"), ("s", "1-of-2")] {
        let movement = site.get("NnfDataMovement", rabbit, "w-1-0");
        assert_eq!(movement["metadata"]["labels"][movement::SHARE], share);
        assert!(movement["spec"]["destination"]["path"].as_str().unwrap().ends_with("/in"));
    }
    for state in ["PreRun", "PostRun", "DataOut", "Teardown"] {
        go_to(&mut site, state);
    }
}

#[test]
fn an_xfs_that_one_workflow_copies_is_given_to_the_next_workflow_after_the_copies() {
    let mut site = Site::with_lustre(1);
    site.keep("xfs", "kept", &["c1"]);
    let lines = directives(&[KEPT, TO_KEPT]);
    for name in ["w", "x"] {
        site.request_setup(name, &lines, &["c1"]);
    }
    let running = json!({"state": "Running", "commandStatus": {"progress": 1}});
    site.errors.insert("NnfDataMovement".to_owned(), running);
    site.request_state("w", "DataIn");
    site.settle();
    site.request_state("x", "DataIn");
    site.settle();
    let (_, _, status, message) = site.status_of("x");
    assert_eq!(status, "DriverWait", "{message}");
    assert!(message.contains("which workflow w has mounted"), "{message}");
    assert_eq!(nodes_with_mount(&site, "x-0"), Vec::<String>::new());
    site.errors.remove("NnfDataMovement");
    site.settle();
    for name in ["w", "x"] {
        assert!(site.is_ready(name, "DataIn"), "{:?}", site.status_of(name));
    }
    for (name, state) in [("x", "PreRun"), ("x", "PostRun"), ("w", "PreRun"), ("w", "PostRun")] {
        site.request_state(name, state);
        site.settle();
        assert!(site.is_ready(name, state), "{name} {state}: {:?}", site.status_of(name));
    }
}

/// Returns a site on which the workflow `w` copies to persistent storage.
fn site_with_running_copy() -> Site {
    let mut site = Site::with_lustre(1);
    site.keep("gfs2", "kept", &["c1"]);
    site.request_setup("w", &directives(&[KEPT, TO_KEPT]), &["c1"]);
    let running = json!({"state": "Running", "commandStatus": {"progress": 1}});
    site.errors.insert("NnfDataMovement".to_owned(), running);
    site.request_state("w", "DataIn");
    site.settle();
    site
}

#[test]
fn teardown_keeps_persistent_storage_mounted_until_its_running_copy_has_ended() {
    let mut site = site_with_running_copy();
    assert_eq!(nodes_with_mount(&site, "w-0"), ["r"]);
    // `check_movements` panics if a change unmounts the storage under the copy.
    go_to(&mut site, "Teardown");
    assert_eq!(site.names("ClientMount").len() + site.names("NnfDataMovement").len(), 0);
}

#[test]
fn a_profile_names_the_directories_of_results_after_computes_or_leaves_out_a_single_one() {
    for (directories, computes, expected) in [
        ("Rabbit", &["c1", "c2"][..], &[json!("r-0"), json!("r-1")][..]),
        ("Compute", &["c1", "c2"], &[json!("c1"), json!("c2")]),
        ("None", &["c1", "c2"], &[json!("r-0"), json!("r-1")]),
        ("None", &["c1"], &[Value::Null]),
    ] {
        let mut site = Site::with_lustre(2);
        site.edit("NnfDataMovementProfile", "nnf-system", "default", |profile| {
            profile["data"]["indexDirectories"] = json!(directories);
        });
        site.request_setup("w", &directives(&[XFS, OUT]), computes);
        for state in ["DataIn", "PreRun", "PostRun", "DataOut"] {
            go_to(&mut site, state);
        }
        for (index, expected) in expected.iter().enumerate() {
            let labels = &site.movement(&format!("w-1-{index}"))["metadata"]["labels"];
            assert_eq!(labels[movement::INDEX_DIRECTORY], *expected, "{directories}");
        }
    }
}

#[test]
fn a_running_copy_keeps_persistent_storage_mounted_when_its_global_lustre_disappears() {
    let mut site = site_with_running_copy();
    site.delete(&at("LustreFileSystem", "default", "global"));
    site.settle();
    assert_eq!(nodes_with_mount(&site, "w-0"), ["r"]);
}
