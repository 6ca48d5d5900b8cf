//! Persistent storage: its creation, its users, and its removal.

use serde_json::json;

use super::{GIB, Objects, W, XFS};

const KEPT: &str = "PersistentStorageInstance default/kept";
const SERVERS: &str = "Servers default/kept";
const CREATE: &str = "#DW create_persistent type=xfs capacity=1GiB name=kept";
const USE: &str = "#DW persistentdw name=kept";
const DESTROY: &str = "#DW destroy_persistent name=kept";

/// Returns workflow `w` that uses persistent storage, at the beginning of a state.
fn used(kind: &str, state: &str) -> Objects {
    let site = Objects::site().keep(kind, "kept", &["c1", "c2", "c3"]);
    site.propose(&[USE]).computes(&["c1", "c2"]).reach(state)
}

#[test]
fn proposal_creates_the_storage_for_its_workflow_and_setup_gives_it_to_its_user() {
    let site = Objects::site().request("w", 1001, &[CREATE]).plans(&[
        "create Computes default/w",
        "create PersistentStorageInstance default/kept: Active, used by [], status unknown",
    ]);
    let site = site
        .settle()
        .computes(&["c1"])
        .reach("Setup")
        .plans(&["change Servers default/kept: xfs 1107296256 x 1 on r"]);
    let site = site.settle();
    assert_eq!(site.get(KEPT)["metadata"]["ownerReferences"], json!(null));
    let site = site.reach("Teardown").settle().delete(W).settle();
    assert_eq!(site.names("NnfNodeStorage"), ["r/default-kept-xfs-0"], "the storage stays");
}

#[test]
fn directives_of_persistent_storage_stand_alone() {
    Objects::site().request("w", 1001, &[XFS, CREATE]).plans(&[
        "create Computes default/w",
        "create NnfStorageProfile default/w-0",
        "create Servers default/w-0",
        "create DirectiveBreakdown default/w-0",
        "w: Proposal Error: DW Directive 1: User error: command create_persistent must be the only directive of its workflow; move the other 1 directive(s) to another workflow",
    ]);
    Objects::site().request("w", 1001, &[CREATE, XFS]).plans(&[
        "create Computes default/w",
        "create NnfStorageProfile default/w-1",
        "create Servers default/w-1",
        "create DirectiveBreakdown default/w-1",
        "w: Proposal Error: DW Directive 0: User error: command create_persistent must be the only directive of its workflow; move the other 1 directive(s) to another workflow",
    ]);
    Objects::site().request("w", 1001, &[DESTROY, "#DW destroy_persistent name=b"]).plans(&[
        "create Computes default/w",
        "w: Proposal Error: DW Directive 1: User error: argument name=b: the value must be a text that matches ^[a-z][a-z0-9-]+$",
    ]);
}

#[test]
fn a_taken_name_is_refused_and_the_message_names_the_owner() {
    let site = Objects::site().keep("xfs", "kept", &["c1"]);
    site.request("w", 2002, &[CREATE]).plans(&[
        "create Computes default/w",
        "w: Proposal Error: DW Directive 0: User error: argument name=kept: persistent storage kept exists and belongs to user 1001: write another name, or destroy that one first",
    ]).reach_by_force("Teardown").settle().completes();
    let foreign = Objects::site().put(SERVERS, json!({"spec": {}}));
    foreign.request("w", 1001, &[CREATE]).plans(&[
        "create Computes default/w",
        "w: Proposal Error: DW Directive 0: User error: argument name=kept: the name is taken by Servers default/kept: write another name",
    ]).then_without(SERVERS).settle().completes();
}

#[test]
fn other_users_may_use_but_not_destroy_storage_with_ignore_uid() {
    let public =
        json!({"metadata": {"annotations": {"dataworkflowservices.github.io/ignore-uid": "True"}}});
    let site = Objects::site().keep("raw", "kept", &["c1"]);
    site.clone()
        .request("w", 2002, &[USE])
        .plans(&[
            "create Computes default/w",
            "w: Proposal Error: DW Directive 0: User error: argument name=kept: this persistent storage belongs to user 1001, and the workflow's user is 2002; name a storage of this user",
        ])
        .then(KEPT, &public)
        .settle()
        .completes()
        .computes(&["c1"])
        .reach("PreRun")
        .settle()
        .completes();
    site.edit(KEPT, &public)
        .request("w", 2002, &[DESTROY])
        .plans(&[
            "create Computes default/w",
            "w: Proposal Error: DW Directive 0: User error: persistent storage kept belongs to user 1001, and this workflow to user 2002: its owner may destroy it",
        ])
        .reach_by_force("Teardown")
        .settle()
        .completes();
}

#[test]
fn storage_in_use_is_not_destroyed_and_the_message_names_its_users() {
    let site = Objects::site().keep("raw", "kept", &["c1", "c2"]);
    let site = site.with("one", USE, &["c1"], "PreRun").with("two", USE, &["c2"], "Setup");
    let site = site.propose(&[DESTROY]).reach("Teardown").settle().forget().plans(&[
        "w: Teardown Error: DW Directive 0: User error: persistent storage kept is used by one-0, two-0: end them first, or delete this workflow to keep it",
    ]);
    // The deletion of the workflow withdraws its request.
    let site = site.delete(W).settle();
    assert_eq!(site.get(KEPT)["spec"]["state"], "Active");
}

#[test]
fn destroyed_storage_is_removed_and_gets_no_new_consumer() {
    let site = Objects::site().keep("raw", "kept", &["c1"]);
    site.propose(&[DESTROY])
        .reach("Teardown")
        .plans(&[
            "change PersistentStorageInstance default/kept: Destroying, used by [], status Active",
        ])
        .settle()
        .completes();
    let going = json!({"spec": {"state": "Destroying"}, "status": {"state": "Destroying"}});
    used("raw", "Setup").edit(KEPT, &going).plans(&[
        "w: Setup Error: DW Directive 0: User error: persistent storage kept is being destroyed",
        "delete PersistentStorageInstance default/kept",
    ]).then_without(KEPT).plans(&[
        "w: Setup Error: DW Directive 0: User error: persistent storage kept does not exist any more, nor does its data: tear the workflow down",
    ]);
}

#[test]
fn deleted_storage_stays_until_its_last_consumer_ends() {
    let site = used("xfs", "PreRun").settle().delete(KEPT).plans(&[
        "write the status of PersistentStorageInstance default/kept: Active, used by [w-0], status Destroying",
    ]);
    assert_eq!(site.names("NnfNodeStorage").len(), 1);
    assert!(site.reach("Teardown").settle().names("NnfNodeStorage").is_empty());
}

#[test]
fn a_user_becomes_a_consumer_in_setup_and_mounts_in_prerun() {
    used("raw", "Setup").plans(&[
        "change PersistentStorageInstance default/kept: Active, used by [w-0], status Active",
    ]);
    used("raw", "PreRun").plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2, r",
        "create ClientMount r/default-w-0-servers: mounted r/default-kept-raw-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-kept-raw-0[1] at /mnt/nnf/w-0/node-1 for c2, r/default-kept-raw-0[2] at /mnt/nnf/w-0/node-2",
        "change NnfNodeBlockStorage r/default-kept-raw-0: 1107296256 for r c1, 1107296256 for r c2, 1107296256 for r",
    ]);
    used("xfs", "PreRun").plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2",
        "change NnfNodeBlockStorage r/default-kept-xfs-0: 1107296256 for r c1, 1107296256 for r c2, 1107296256 for r",
    ]);
    used("raw", "PostRun").plans(&[
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, r",
        "change ClientMount c1/default-w-0-computes: unmounted r/default-kept-raw-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-kept-raw-0[1] at /mnt/nnf/w-0",
        "change ClientMount r/default-w-0-servers: unmounted r/default-kept-raw-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-kept-raw-0[1] at /mnt/nnf/w-0/node-1 for c2, r/default-kept-raw-0[2] at /mnt/nnf/w-0/node-2",
    ]);
    used("raw", "Teardown").plans(&[
        "w: Teardown DriverWait: DW Directive 0: pending removal on c1, c2, r",
        "delete ClientMount c1/default-w-0-computes",
        "delete ClientMount c2/default-w-0-computes",
        "delete ClientMount r/default-w-0-servers",
    ]);
}

#[test]
fn the_first_compute_gets_the_first_allocation() {
    used("gfs2", "PreRun").computes(&["c2", "c1"]).step().plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2",
        "create ClientMount c1/default-w-0-computes: mounted r/default-kept-gfs2-0[1] at /mnt/nnf/w-0",
        "create ClientMount c2/default-w-0-computes: mounted r/default-kept-gfs2-0[0] at /mnt/nnf/w-0",
    ]);
}

#[test]
fn teardown_ends_the_use_of_persistent_storage() {
    let site = used("raw", "Teardown").settle().completes();
    assert_eq!(site.get(KEPT)["spec"]["consumerReferences"], json!(null));
}

#[test]
fn a_job_finds_persistent_storage_by_variables() {
    let site = used("raw", "PreRun").settle();
    let env = &site.get(W)["status"]["env"];
    assert_eq!(env["DW_PERSISTENT_kept"], "/mnt/nnf/w-0");
    assert_eq!(env["DW_PERSISTENTS"], "kept:/mnt/nnf/w-0");
}

#[test]
fn prerun_of_persistent_storage_fails_without_computes_and_with_unreadable_servers() {
    let site = used("xfs", "PreRun");
    site.clone().computes(&[]).plans(&[
        "w: PreRun Error: DW Directive 0: WLM error: Computes names no compute, and each allocation of Servers is for one: fill Computes with the job's computes",
    ]);
    site.unreadable(SERVERS).plans(&[
        "w: PreRun TransientCondition: DW Directive 0: Internal error: Servers default/kept cannot be read: correct the object; the workflow then continues",
        "write the status of PersistentStorageInstance default/kept: Active, used by [w-0], status Degraded",
    ]);
}

#[test]
fn degraded_storage_can_still_be_mounted() {
    let degraded = json!({"status": {"health": "Degraded"}});
    let site = used("xfs", "PreRun");
    let site = site.edit("NnfNodeStorage r/default-kept-xfs-0", &degraded).plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2",
        "change NnfNodeBlockStorage r/default-kept-xfs-0: 1107296256 for r c1, 1107296256 for r c2, 1107296256 for r",
        "write the status of PersistentStorageInstance default/kept: Active, used by [w-0], status Degraded",
        "write the status of Storage default/r: Degraded",
    ]);
    site.settle().completes();
}

#[test]
fn several_workflows_mount_gfs2_at_once_and_each_keeps_its_own_access() {
    let site = Objects::site().keep("gfs2", "kept", &["c1", "c2", "c3"]);
    let site = site.with("one", USE, &["c2", "c3"], "PreRun");
    let site = site.propose(&[USE]).computes(&["c1", "c2"]).reach("PreRun").plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2, r",
        "create ClientMount c2/default-w-0-computes: mounted r/default-kept-gfs2-0[1] at /mnt/nnf/w-0",
        "create ClientMount r/default-w-0-servers: mounted r/default-kept-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-kept-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2, r/default-kept-gfs2-0[2] at /mnt/nnf/w-0/node-2",
        "change NnfNodeBlockStorage r/default-kept-gfs2-0: 3321888768 for r c2 c3 c1",
    ]).settle();
    let site = site.bring("one", "PostRun").dead("r").settle();
    let block = site.get("NnfNodeBlockStorage r/default-kept-gfs2-0");
    assert_eq!(block["spec"]["allocations"][0]["access"], json!(["r", "c1", "c2"]));
}

#[test]
fn one_workflow_at_a_time_mounts_a_persistent_xfs() {
    // The uid of x is greater than that of w, so only its mount gives x the turn.
    let site = Objects::site().keep("xfs", "kept", &["c1", "c2"]);
    let site = site.with("x", USE, &["c1"], "PreRun");
    let site = site.propose(&[USE]).computes(&["c2"]).reach("PreRun").plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending persistent storage kept, which workflow x has mounted: one workflow at a time mounts an XFS",
    ]);
    site.bring("x", "PostRun").settle().completes();
}

#[test]
fn a_workflow_removed_by_force_is_no_consumer_any_more() {
    used("xfs", "PreRun").settle().vanish(W).plans(&[
        "delete ClientMount c1/default-w-0-computes",
        "delete ClientMount c2/default-w-0-computes",
    ]);
}

#[test]
fn an_unreadable_workflow_stays_a_consumer() {
    for state in ["Setup", "PreRun", "PostRun"] {
        used("raw", state).settle().unreadable(W).plans(&[]);
    }
}

#[test]
fn bytes_of_persistent_storage_are_not_free_for_jobs() {
    let small = json!({"status": {"capacity": 3 * GIB}});
    let site = Objects::site().edit("NnfNode r/nnf-nlc", &small).settle();
    let site = site.keep("xfs", "kept", &["c1"]).propose(&[XFS]).computes(&["c1", "c2"]);
    site.reach("Setup").settle().forget().plans(&[
        "w: Setup DriverWait: DW Directive 0: pending capacity on r: 2214592512 bytes are requested, and fewer are free; the workflow continues when other jobs release theirs",
    ]);
}

#[test]
fn setup_of_persistent_storage_waits_while_its_servers_cannot_be_read() {
    let site = Objects::site().propose(&[CREATE]).computes(&["c1"]).reach("Setup");
    site.unreadable(SERVERS).plans(&[
        "w: Setup TransientCondition: DW Directive 0: Internal error: Servers default/kept cannot be read: correct the object; the workflow then continues",
        "write the status of PersistentStorageInstance default/kept: Active, used by [], status Creating",
    ]);
}

#[test]
fn unreadable_servers_of_complete_storage_block_no_job() {
    let site = Objects::site().keep("xfs", "kept", &["c1"]).unreadable(SERVERS);
    site.with("w", XFS, &["c1"], "Setup").completes();
}
