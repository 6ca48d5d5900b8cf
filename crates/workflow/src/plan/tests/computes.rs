//! PreRun: access and mounts of computes, and computes that are replaced, missing or down.

use serde_json::json;

use super::{GFS2, Objects, RAW, W, XFS, at, failure};

const COMPUTES: &str = "Computes default/w";
const C1: &str = "ClientMount c1/default-w-0-computes";
const C2: &str = "ClientMount c2/default-w-0-computes";

#[test]
fn each_compute_gets_access_to_its_allocation_and_then_a_mount() {
    at("PreRun", XFS).plans(&[
        "change NnfNodeBlockStorage r/default-w-0-xfs-0: 1107296256 for r c1, 1107296256 for r c2",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2",
    ]);
    at("PreRun", GFS2).plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c1 c2",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2, r",
    ]);
    at("PreRun", RAW).plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-raw-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-raw-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change NnfNodeBlockStorage r/default-w-0-raw-0: 1107296256 for r c1, 1107296256 for r c2",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2, r",
    ]);
}

#[test]
fn mounts_follow_as_soon_as_the_rabbit_has_given_access() {
    at("PreRun", XFS).step().plans(&[
        "create ClientMount c1/default-w-0-computes: mounted r/default-w-0-xfs-0[0] at /mnt/nnf/w-0",
        "create ClientMount c2/default-w-0-computes: mounted r/default-w-0-xfs-0[1] at /mnt/nnf/w-0",
    ]);
}

/// `c1` has left the job while its agent was silent, so `c1` may have the allocation mounted.
#[test]
fn a_replacement_compute_gets_no_allocation_that_may_be_mounted() {
    for line in [XFS, GFS2, RAW] {
        let site = Objects::site().propose(&[line]).computes(&["c1"]).reach("PreRun");
        let site = site.dead("c1").settle();
        let site = site.then(COMPUTES, &json!({"data": [{"name": "c2"}]}))
            .plans(&[
                "w: PreRun Error: DW Directive 0: WLM error: Too many clients for storage: c2 is served by r, where Servers asks for 1 allocations, all in use: ClientMount c1/default-w-0-computes holds one for a node that is not in Computes any more; add the node to Computes, or delete the ClientMount",
            ])
            // Only the deletion of its ClientMount proves that c1 has nothing mounted.
            .then_without(C1)
            .settle()
            .completes();
        let device = &site.get(C2)["spec"]["mounts"][0]["device"]["deviceReference"];
        assert_eq!(device["data"], json!(null), "{line}: c2 has the first allocation");
    }
}

#[test]
fn a_deleted_mount_is_created_again_for_the_same_allocation() {
    let site = at("PreRun", XFS).settle().computes(&["c2"]);
    site.then_without(C2).plans(&[
        "create ClientMount c2/default-w-0-computes: mounted r/default-w-0-xfs-0[1] at /mnt/nnf/w-0",
    ]);
}

#[test]
fn the_index_tree_links_each_allocation_to_the_compute_that_has_it() {
    let site = at("PreRun", GFS2).settle().computes(&["c3", "c2"]).without(C1);
    let site = site.plans(&[
        "change ClientMount r/default-w-0-servers: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c3, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c3 c2",
    ]).settle();
    // c3 leaves the job. The link to c3 stays: a user may still want the data of c3.
    site.computes(&["c2"])
        .plans(&["change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c2 c3"]);
    let site = Objects::site().propose(&[GFS2]).computes(&["c1", "c2"]).reach("PreRun").settle();
    // c1 left the job and may still have its allocation mounted.
    let site = site
        .then(COMPUTES, &json!({"data": [{"name": "c2"}]}))
        .plans(&["change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c2 c1"]);
    // c2 gets the first allocation, and the tree has no second link to c2.
    site.without(C1).without(C2).plans(&[
        "create ClientMount c2/default-w-0-computes: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount r/default-w-0-servers: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c2, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1",
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c2",
    ]);
}

#[test]
fn no_compute_gets_an_allocation_while_a_clientmount_cannot_be_read() {
    let site = Objects::site().propose(&[XFS]).computes(&["c1"]).reach("PreRun").settle();
    site.unreadable(C1).then(COMPUTES, &json!({"data": [{"name": "c2"}]})).plans(&[]);
}

#[test]
fn prerun_fails_until_computes_names_known_nodes() {
    for line in [XFS, GFS2, RAW] {
        let site = at("PreRun", line).without(COMPUTES);
        site.plans(&[
            "create Computes default/w",
            "w: PreRun Error: DW Directive 0: WLM error: Computes names no compute, and each allocation of Servers is for one: fill Computes with the job's computes",
        ])
            .settle()
            .then(COMPUTES, &json!({"data": [{"name": "c9"}]}))
            .plans(&[
                "w: PreRun Error: DW Directive 0: WLM error: Computes names c9, which no rabbit serves: name computes that SystemConfiguration default/default lists under a rabbit",
            ])
            .then(COMPUTES, &json!({"data": [{"name": "c1"}]}))
            .settle()
            .completes();
    }
}

/// The watch of Computes may deliver later than the watch of the workflow, and workload managers end a job at its first
/// error.
#[test]
fn errors_for_the_workload_manager_are_waits_while_a_state_is_new() {
    let site = at("PreRun", XFS).edit(COMPUTES, &json!({"data": []})).after(-10).plans(&[]);
    assert!(site.plan().replan_soon, "the wait is not in the status yet");
    site.after(1).plans(&[
        "w: PreRun Error: DW Directive 0: WLM error: Computes names no compute, and each allocation of Servers is for one: fill Computes with the job's computes",
    ]);
}

#[test]
fn an_error_of_one_directive_does_not_hold_up_the_other_directives() {
    let other = "#DW jobdw type=xfs capacity=1GiB name=other";
    let site = Objects::site().propose(&[XFS, other]).computes(&["c1"]).reach("PreRun").dead("c1");
    site.settle()
        .then(C1, &failure("the device went", "Major"))
        .plans(&[
            "w: PreRun TransientCondition: DW Directive 0: Internal error: Node: c1: the device went",
        ])
        .without("ClientMount c1/default-w-1-computes")
        .plans(&[
            "create ClientMount c1/default-w-1-computes: mounted r/default-w-1-xfs-0[0] at /mnt/nnf/w-1",
            "w: PreRun TransientCondition: DW Directive 0: Internal error: Node: c1: the device went",
        ]);
}

#[test]
fn a_forced_state_is_ready_and_the_next_state_is_not_forced() {
    let site = at("PreRun", XFS).dead("c2").settle();
    let site = site
        .then(W, &json!({"spec": {"forceReady": true}}))
        .plans(&["w: PreRun Completed, ready: Forced Ready"])
        .settle();
    let site = site.reach("PostRun");
    assert_eq!(site.get(W)["spec"]["forceReady"], false);
    site.plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-xfs-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-xfs-0[1] at /mnt/nnf/w-0",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2",
    ]);
}

/// A workload manager may let a job continue without the computes of a rabbit that failed: it forces Setup ready, and
/// then names only the remaining computes.
#[test]
fn a_failed_rabbit_does_not_hold_up_computes_of_other_rabbits() {
    for line in [XFS, GFS2, RAW] {
        let site = Objects::site().propose(&[line]).computes(&["c1", "d1"]).reach("Setup");
        let site = site.dead("s").settle().edit(W, &json!({"spec": {"forceReady": true}})).settle();
        let kind = line.split(['=', ' ']).nth(3).unwrap();
        let broken = format!("NnfNodeStorage s/default-w-0-{kind}-0");
        let site = site.edit(&broken, &failure("mkfs failed", "Fatal")).reach("DataIn").settle();
        site.computes(&["c1"]).reach("PreRun").settle().completes();
    }
}

#[test]
fn prerun_reports_unreadable_servers_and_not_missing_ones() {
    at("PreRun", XFS).unreadable("Servers default/w-0").plans(&[
        "w: PreRun TransientCondition: DW Directive 0: Internal error: Servers default/w-0 cannot be read: correct the object; the workflow then continues",
    ]);
    at("PreRun", XFS).without("Servers default/w-0").plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending Servers default/w-0, which does not exist",
    ]);
}
