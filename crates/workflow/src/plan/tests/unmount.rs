//! PostRun and Teardown: unmounts, the withdrawal of access, and the removal of storage.

use api::names::annotation;
use serde_json::json;

use super::{GFS2, Objects, RAW, W, XFS, at, failure};

const BLOCK: &str = "NnfNodeBlockStorage r/default-w-0-xfs-0";
const C2: &str = "ClientMount c2/default-w-0-computes";
const C2_IS_DOWN: &str = "SystemStatus default/default";

#[test]
fn postrun_unmounts_and_then_withdraws_access() {
    at("PostRun", XFS).plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-xfs-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-xfs-0[1] at /mnt/nnf/w-0",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2",
    ]);
    at("PostRun", GFS2).plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, r",
    ]);
    at("PostRun", RAW).plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-raw-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-raw-0[1] at /mnt/nnf/w-0",
        "change ClientMount r/default-w-0-servers: unmounted r/default-w-0-raw-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-raw-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, r",
    ]);
}

#[test]
fn a_silent_compute_keeps_its_access_until_evidence_shows_that_it_is_down() {
    let down = json!({"data": {"nodes": {"c2": "Disabled"}}});
    let silent = at("PreRun", XFS).settle().dead("c2").reach("PostRun").settle();
    silent.clone().put(C2_IS_DOWN, down.clone()).plans(&[
        "change NnfNodeBlockStorage r/default-w-0-xfs-0: 1107296256 for r, 1107296256 for r",
        "w: PostRun DriverWait: DW Directive 0: pending withdrawal of computes' access on r",
    ]);
    let silent =
        silent.forget().plans(&["w: PostRun DriverWait: DW Directive 0: pending unmount on c2"]);
    silent.put(C2_IS_DOWN, down).settle().completes().reach("Teardown").settle().completes();
}

#[test]
fn a_wait_for_a_node_without_a_session_becomes_an_error_after_a_minute() {
    let site = at("PreRun", XFS).settle().disconnected("c2").reach("PostRun").settle().forget();
    site.clone().after(59).plans(&["w: PostRun DriverWait: DW Directive 0: pending unmount on c2"]);
    assert_eq!(site.plan().replan_at, Some(site.clone().after(60).now()));
    site.after(60).plans(&[
        "w: PostRun TransientCondition: DW Directive 0: Internal error: pending unmount on c2: the agent of c2 is silent since 2027-01-15T08:00:10Z: its session with the coordinator ended, or it was not heard since then; see whether the machine and its agent run",
    ]);
    let had_session = json!({"metadata": {"annotations": {annotation::HAD_SESSION: "true"}}});
    let setup = at("Setup", XFS).edit("Storage default/r", &had_session);
    let setup = setup.disconnected("r").settle().forget().after(60);
    let lines = setup.lines();
    let text = "w: Setup TransientCondition: DW Directive 0: Internal error: pending storage on r: the agent of r is silent";
    assert!(lines[0].starts_with(text), "{lines:?}");
    assert_eq!(lines[1..], ["write the status of Storage default/r: Offline"]);
}

/// `allReady` is false although all mounts are reported as unmounted: an agent reports this while a mount that only an
/// earlier version of the ClientMount asked for is still there.
#[test]
fn a_compute_keeps_access_while_a_mount_of_an_earlier_clientmount_version_is_still_there() {
    let busy = json!({"status": {"mounts": [{"state": "unmounted", "ready": true}], "allReady": false,
        "error": {"debugMessage": "busy", "userMessage": "c2: busy", "type": "Internal", "severity": "Major"}}});
    let site = at("PreRun", XFS).settle().dead("c2").reach("PostRun").settle().edit(C2, &busy);
    site.clone()
        .plans(&["w: PostRun TransientCondition: DW Directive 0: Internal error: Node: c2: busy"]);
    site.reach_by_force("Teardown")
        .settle()
        .forget()
        .plans(&["w: Teardown TransientCondition: DW Directive 0: Internal error: Node: c2: busy"]);
}

#[test]
fn computes_keep_access_and_storage_stays_while_a_clientmount_cannot_be_read() {
    let site = at("PreRun", XFS).settle();
    site.clone().reach("PostRun").unreadable(C2).plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-xfs-0[0] at /mnt/nnf/w-0",
        "w: PostRun TransientCondition: DW Directive 0: Internal error: c2/default-w-0-computes cannot be read, and may ask for a mount: correct or delete the object; until then no access is withdrawn and nothing is removed",
    ]);
    site.reach_by_force("Teardown").unreadable(C2).plans(&[
        "delete ClientMount c1/default-w-0-computes",
        "w: Teardown TransientCondition: DW Directive 0: Internal error: c2/default-w-0-computes cannot be read, and may ask for a mount: correct or delete the object; until then no access is withdrawn and nothing is removed",
    ]);
}

#[test]
fn teardown_removes_mounts_then_storage_then_servers() {
    let site = at("PreRun", XFS).settle().reach_by_force("Teardown").plans(&[
        "delete ClientMount c1/default-w-0-computes",
        "delete ClientMount c2/default-w-0-computes",
        "w: Teardown DriverWait: DW Directive 0: pending removal on c1, c2, r",
    ]);
    let site = site
        .step()
        .plans(&[
            "change NnfNodeBlockStorage r/default-w-0-xfs-0: 1107296256 for r, 1107296256 for r",
            "w: Teardown DriverWait: DW Directive 0: pending removal on r",
        ])
        .step()
        .plans(&[
            "delete NnfNodeBlockStorage r/default-w-0-xfs-0",
            "delete NnfNodeStorage r/default-w-0-xfs-0",
        ])
        .step()
        .plans(&[]);
    site.settle()
        .completes()
        .delete(W)
        .plans(&["change Servers default/w-0: xfs 1107296256 x 2 on r, ready [r]"]);
}

#[test]
fn a_deleted_mount_of_a_silent_compute_keeps_the_storage() {
    let site = at("PreRun", XFS).settle().dead("c2").reach_by_force("Teardown").settle().forget();
    site.plans(&[
        "w: Teardown DriverWait: DW Directive 0: pending removal on c2, r",
    ]).put(C2_IS_DOWN, json!({"data": {"nodes": {"c2": "Disabled"}}})).plans(&[
        "change NnfNodeBlockStorage r/default-w-0-xfs-0: 1107296256 for r, 1107296256 for r",
        "change ClientMount c2/default-w-0-computes: mounted r/default-w-0-xfs-0[1] at /mnt/nnf/w-0",
        "w: Teardown DriverWait: DW Directive 0: pending removal on c2, r",
    ]);
}

/// Until its agent looks at it again, a deleted object keeps the error of its creation.
#[test]
fn an_error_of_an_earlier_state_is_a_wait_in_teardown() {
    let site = at("Setup", XFS).dead("r").settle();
    let held = json!({"metadata": {"finalizers": ["nnf.cray.hpe.com/nnf_node_block_storage"]}});
    let site = site.edit(BLOCK, &held).edit(BLOCK, &failure("no drive", "Fatal")).settle();
    site.reach_by_force("Teardown").settle().forget().plans(&[
        "w: Teardown DriverWait: DW Directive 0: pending removal, after an earlier state failed: Node: r: no drive",
    ]);
}

#[test]
fn storage_of_a_workflow_that_is_gone_is_removed() {
    at("PreRun", XFS).settle().vanish(W).plans(&[
        "delete ClientMount c1/default-w-0-computes",
        "delete ClientMount c2/default-w-0-computes",
    ]);
}

#[test]
fn a_workflow_waits_until_storage_of_an_earlier_workflow_of_its_name_is_removed() {
    let old = at("PreRun", XFS).settle().vanish(W);
    let site = old.request("w", 1001, &[XFS]).edit(W, &json!({"metadata": {"uid": "another"}}));
    site.plans(&[
        "create Computes default/w",
        "delete ClientMount c1/default-w-0-computes",
        "delete ClientMount c2/default-w-0-computes",
        "create NnfStorageProfile default/w-0",
        "create Servers default/w-0",
        "create DirectiveBreakdown default/w-0",
    ]);
}

#[test]
fn storage_of_other_controllers_is_left_alone() {
    let labels = json!({"dataworkflowservices.github.io/workflow.name": "w",
        "dataworkflowservices.github.io/workflow.namespace": "default",
        "dataworkflowservices.github.io/workflow.uid": "another",
        "dataworkflowservices.github.io/owner.kind": "NnfStorage"});
    Objects::site()
        .put("NnfNodeStorage r/theirs", json!({"metadata": {"labels": labels},
            "spec": {"count": 1, "sharedAllocation": false, "userID": 1, "groupID": 1}}))
        .put("NnfNodeBlockStorage r/theirs", json!({"metadata": {"labels": labels},
            "spec": {"sharedAllocation": false, "allocations": [{"capacity": 1, "access": ["r"]}]}}))
        .plans(&[]);
}

#[test]
fn a_workflow_of_the_go_controllers_gets_only_a_message() {
    let theirs = json!({"metadata": {"finalizers": ["nnf.cray.hpe.com/nnf_workflow"]}});
    at("PreRun", XFS).settle().edit(W, &theirs).plans(&[
        "w: PreRun Completed, ready: begun by the Go controllers (finalizer nnf.cray.hpe.com/nnf_workflow): Warren does nothing for it; let those controllers end it (docs/operate/switching-from-go.md)",
    ]);
    let site = at("PreRun", XFS).edit(W, &theirs);
    site.clone().plans(&[
        "w: PreRun TransientCondition: begun by the Go controllers (finalizer nnf.cray.hpe.com/nnf_workflow): Warren does nothing for it; let those controllers end it (docs/operate/switching-from-go.md)",
    ]);
    site.settle().edit(W, &json!({"spec": {"desiredState": "Teardown"}})).delete(W).plans(&[]);
}

#[test]
fn an_unreadable_workflow_keeps_all_of_its_objects() {
    for state in ["Setup", "PreRun", "PostRun", "Teardown"] {
        at(state, GFS2).settle().unreadable(W).plans(&[]);
    }
}
