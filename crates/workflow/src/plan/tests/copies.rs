//! Copies of data by `datamover`: paths and mounts of the movements, and failed, running and deleted movements.

use api::names::movement;
use serde_json::{Value, json};

use super::{GFS2, Objects, XFS, ends::mounted_on};

const IN: &str = "#DW copy_in source=/lus/global/in destination=$DW_JOB_scratch/in";
const OUT: &str = "#DW copy_out source=$DW_JOB_scratch/out destination=/lus/global/results";
const KEPT: &str = "#DW persistentdw name=kept";
const TO_KEPT: &str = "#DW copy_in source=/lus/global/in destination=$DW_PERSISTENT_kept/in";
const FROM_KEPT: &str = "#DW copy_in source=$DW_PERSISTENT_kept/in destination=$DW_JOB_scratch/in";
const OUT_OF_KEPT: &str = "#DW copy_out source=$DW_PERSISTENT_kept destination=/lus/global/results";
const GLOBAL: &str = "LustreFileSystem default/global";
const PROFILE: &str = "NnfDataMovementProfile nnf-system/default";

/// Returns a site with a global Lustre and a default profile for copies.
pub(super) fn with_global_lustre(site: Objects) -> Objects {
    let lustre =
        json!({"spec": {"name": "global", "mgsNids": "10.0.0.9@tcp", "mountRoot": "/lus/global"}});
    site.put(PROFILE, json!({"data": {"default": true}})).put(GLOBAL, lustre)
}

/// Returns workflow `w` at the beginning of a state.
fn at(lines: &[&str], state: &str) -> Objects {
    with_global_lustre(Objects::site()).propose(lines).computes(&["c1", "c2"]).reach(state)
}

/// The status of a movement that runs.
fn running(percent: i64) -> Value {
    json!({"status": {"state": "Running", "commandStatus": {"progress": percent}, "status": null}})
}

#[test]
fn storage_is_mounted_on_its_rabbit_and_each_allocation_gets_a_movement() {
    at(&[XFS, IN], "DataIn").plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-xfs-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-xfs-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "w: DataIn DriverWait: DW Directive 1: pending mount on r",
    ]).step().plans(&[
        "create NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/node-0/in",
        "create NnfDataMovement r/w-1-1: /lus/global/in to /mnt/nnf/w-0/node-1/in",
    ]).settle().completes();
    at(&[GFS2, IN], "DataIn").plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "w: DataIn DriverWait: DW Directive 1: pending mount on r",
    ]).step().plans(&[
        "create NnfDataMovement r/w-1-0: /lus/global/in to /mnt/nnf/w-0/node-0/in",
        "create NnfDataMovement r/w-1-1: /lus/global/in to /mnt/nnf/w-0/node-1/in",
    ]);
    at(&[XFS, OUT], "DataOut").plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-xfs-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-xfs-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "w: DataOut DriverWait: DW Directive 1: pending mount on r",
    ]).step().plans(&[
        "create NnfDataMovement r/w-1-0: /mnt/nnf/w-0/node-0/out to /lus/global/results",
        "create NnfDataMovement r/w-1-1: /mnt/nnf/w-0/node-1/out to /lus/global/results",
    ]);
}

#[test]
fn a_copy_from_a_path_outside_all_global_file_systems_is_refused() {
    let outside = IN.replace("/lus/global", "/lus/global2");
    with_global_lustre(Objects::site()).request("w", 1001, &[XFS, &outside]).reports("w: Proposal Error: DW Directive 1: User error: argument source=/lus/global2/in: no global Lustre is mounted there; write a path beneath /lus/global");
}

#[test]
fn a_movement_names_user_profile_and_storages() {
    let site = at(&[XFS, IN], "DataIn").settle();
    let object = site.get("NnfDataMovement r/w-1-1");
    let root = "/mnt/nnf/w-0/node-1";
    assert_eq!(
        object["spec"],
        json!({
            "source": {"path": "/lus/global/in", "storageReference":
                {"kind": "LustreFileSystem", "name": "global", "namespace": "default", "fieldPath": "/lus/global"}},
            "destination": {"path": format!("{root}/in"), "storageReference":
                {"kind": "Servers", "name": "w-0", "namespace": "default", "fieldPath": root}},
            "userId": 1001, "groupId": 1002, "cancel": false,
            "profileReference": {"kind": "NnfDataMovementProfile", "name": "w-1", "namespace": "default"},
        })
    );
    let labels = &object["metadata"]["labels"];
    assert_eq!(labels["dm.cray.hpe.com/initiator"], "copy_in");
    assert_eq!(labels["nnf.cray.hpe.com/teardown_state"], "DataIn");
    assert_eq!(labels["nnf.cray.hpe.com/directive_index"], "1");
    assert!(labels[movement::INDEX_DIRECTORY].is_null());
}

/// Only one node may mount an XFS at a time.
#[test]
fn an_xfs_is_unmounted_on_its_rabbit_before_computes_mount_it_and_a_gfs2_stays_mounted() {
    at(&[XFS, IN], "PreRun").plans(&[
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-xfs-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-xfs-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "w: PreRun DriverWait: DW Directive 0: pending unmount on r",
    ]);
    at(&[GFS2, IN], "PreRun").plans(&[
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c1 c2",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2",
    ]);
}

#[test]
fn results_go_to_directories_that_the_profile_names() {
    let names = |directories: &str, computes: &[&str]| {
        let profile = json!({"data": {"indexDirectories": directories}});
        let site = with_global_lustre(Objects::site()).edit(PROFILE, &profile).propose(&[XFS, OUT]);
        let site = site.computes(computes).reach("DataOut").settle();
        let label = |index: usize| {
            let object = site.get(&format!("NnfDataMovement r/w-1-{index}"));
            object["metadata"]["labels"][movement::INDEX_DIRECTORY].clone()
        };
        (0..computes.len()).map(label).collect::<Vec<_>>()
    };
    assert_eq!(names("Rabbit", &["c1", "c2"]), ["r-0", "r-1"]);
    assert_eq!(names("Compute", &["c1", "c2"]), ["c1", "c2"]);
    assert_eq!(names("None", &["c1", "c2"]), ["r-0", "r-1"]);
    assert_eq!(names("None", &["c1"]), [Value::Null]);
}

#[test]
fn a_failed_movement_fails_its_state_once_all_movements_have_ended_and_keeps_the_storage() {
    let failed =
        json!({"status": {"state": "Finished", "status": "Failed", "message": "no space is left"}});
    let site = at(&[XFS, OUT], "DataOut").step().step().edit("NnfDataMovement r/w-1-0", &failed);
    site.clone().edit("NnfDataMovement r/w-1-1", &running(1)).reports(
        "w: DataOut DriverWait: DW Directive 1: pending copies on r: 50 %, 1 of 2 ended, 1 failed",
    );
    let site = site.edit("NnfDataMovement r/w-1-1", &failed).plans(&[
        "w: DataOut Error: DW Directive 1: User error: copy_out on r: no space is left; number of other failed copies: 1",
    ]).settle();
    site.reach_by_force("Teardown").settle().completes();
}

#[test]
fn the_status_shows_whole_percents_and_teardown_deletes_movements_before_storage() {
    let site = at(&[XFS, IN], "DataIn").step().step();
    let site = site
        .edit_all("NnfDataMovement", &running(63))
        .plans(&["w: DataIn DriverWait: DW Directive 1: pending copies on r: 63 %, 0 of 2 ended"])
        .settle()
        .dead("r");
    site.reach_by_force("Teardown")
        .plans(&[
            "delete NnfDataMovement r/w-1-0",
            "delete NnfDataMovement r/w-1-1",
            "w: Teardown DriverWait: DW Directive 0: pending end of copies",
        ])
        .settle()
        .forget()
        .plans(&["w: Teardown DriverWait: DW Directive 0: pending end of copies"]);
}

#[test]
fn persistent_storage_is_mounted_on_its_rabbit_only_while_it_is_copied() {
    for kind in ["xfs", "gfs2"] {
        let site = with_global_lustre(Objects::site()).keep(kind, "kept", &["c1"]);
        let site = site.propose(&[KEPT, TO_KEPT, OUT_OF_KEPT]).computes(&["c1"]).reach("DataIn");
        let into = site.settle();
        assert_eq!(
            into.get("NnfDataMovement r/w-1-0")["spec"]["destination"]["path"],
            "/mnt/nnf/w-0/node-0/in"
        );
        assert!(mounted_on(&into).is_empty(), "{kind}: {:?}", mounted_on(&into));
        let out = into.reach("DataOut").settle();
        assert_eq!(
            out.get("NnfDataMovement r/w-2-0")["spec"]["source"]["path"],
            "/mnt/nnf/w-0/node-0"
        );
        out.reach("Teardown").settle().completes();
    }
}

#[test]
fn persistent_storage_is_copied_to_the_rabbits_of_any_storage() {
    let path = |kind: &str, line: &str| {
        let site = with_global_lustre(Objects::site()).keep(kind, "kept", &["c1", "c2"]);
        let site =
            site.propose(&[line, KEPT, FROM_KEPT]).computes(&["c1", "c2"]).reach("DataIn").settle();
        site.completes().get("NnfDataMovement r/w-2-1")["spec"]["source"]["path"].clone()
    };
    assert_eq!(path("lustre", XFS), "/mnt/nnf/w-1/in");
    assert_eq!(path("lustre", GFS2), "/mnt/nnf/w-1/in");
    assert_eq!(path("xfs", XFS), "/mnt/nnf/w-1/node-1/in");
}

#[test]
fn the_rabbits_of_a_lustre_divide_the_source_of_its_copies() {
    let lustre = "#DW jobdw type=lustre capacity=20GB name=scratch";
    let site = with_global_lustre(Objects::site()).propose(&[lustre, IN]).computes(&["c1", "d1"]);
    let site = site.reach("DataIn").settle();
    let share = |rabbit: &str| {
        let object = site.get(&format!("NnfDataMovement {rabbit}/w-1-0"));
        object["metadata"]["labels"][movement::SHARE].clone()
    };
    assert_eq!([share("r"), share("s")], ["0-of-2", "1-of-2"]);
}

/// Returns workflow `w` that copies to persistent storage.
fn copying(kind: &str) -> Objects {
    let site = with_global_lustre(Objects::site()).keep(kind, "kept", &["c1"]);
    let site = site.propose(&[KEPT, TO_KEPT]).computes(&["c1"]).reach("DataIn");
    site.step().step().edit_all("NnfDataMovement", &running(1)).settle()
}

#[test]
fn an_xfs_that_one_workflow_copies_is_given_to_the_next_workflow_after_the_copies() {
    let other = copying("xfs").request("x", 1001, &[KEPT, TO_KEPT]).settle();
    let other = other.edit("Computes default/x", &json!({"data": [{"name": "c1"}]}));
    other.bring("x", "DataIn").reports("x: DataIn DriverWait: DW Directive 1: pending persistent storage kept, which workflow w has mounted: one workflow at a time mounts an XFS");
}

#[test]
fn a_running_copy_keeps_persistent_storage_mounted_in_teardown_and_without_its_global_lustre() {
    let site = copying("gfs2");
    site.clone().without(GLOBAL).plans(&[
        "w: DataIn Error: DW Directive 1: User error: no LustreFileSystem has a mountRoot above /lus/global/in any more: ask the administrator to create it again",
    ]);
    site.dead("r")
        .reach_by_force("Teardown")
        .plans(&[
            "delete NnfDataMovement r/w-1-0",
            "w: Teardown DriverWait: DW Directive 0: pending removal on r",
        ])
        .settle()
        .forget()
        .plans(&["w: Teardown DriverWait: DW Directive 0: pending removal on r"]);
}
