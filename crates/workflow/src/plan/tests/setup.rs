//! Setup: the placement of storage on rabbits, its checks, and the objects for the rabbits' agents.

use serde_json::{Value, json};

use super::{GIB, Objects, PADDED, R, W, XFS, at, failure, objects::AllocationSet};

const SERVERS: &str = "Servers default/w-0";

/// Returns workflow `w` with computes `c1` and `c2` at the beginning of Setup, after its workload manager filled Servers.
#[track_caller]
fn filled(sets: &[AllocationSet<'_>]) -> Objects {
    at("Setup", XFS).servers(sets)
}

#[test]
fn empty_servers_are_filled_and_full_servers_get_their_storage() {
    at("Setup", XFS).plans(&["change Servers default/w-0: xfs 1107296256 x 2 on r"]);
    filled(&[("xfs", PADDED, &[("r", 2)])]).plans(&[
        "create NnfNodeBlockStorage r/default-w-0-xfs-0: 1107296256 for r, 1107296256 for r",
        "create NnfNodeStorage r/default-w-0-xfs-0: 2 xfs of 1073741824",
        "write the status of Servers default/w-0: xfs 1107296256 x 2 on r, ready []",
        "w: Setup DriverWait: DW Directive 0: pending storage on r",
    ]);
}

#[test]
fn servers_that_do_not_fit_the_breakdown_are_refused() {
    filled(&[("xfs", GIB, &[("r", 2)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers gives xfs too little: allocationSize is 1073741824 bytes, and 1107296256 are needed",
    ]);
    filled(&[("gfs2", 2 * GIB, &[("r", 2)])]).plans(&[
        r#"w: Setup Error: DW Directive 0: WLM error: Servers must have one allocation set with label "xfs": correct spec.allocationSets[].label"#,
    ]);
    filled(&[("xfs", 2 * GIB, &[("r", 2)]), ("xfs", 2 * GIB, &[("r", 2)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers has 2 allocationSets and the breakdown 1: give each label one",
    ]);
    filled(&[("xfs", 2 * GIB, &[("s", 2)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers asks for 0 allocations of xfs on r, which serves 2 of the job's computes: ask for one for each",
    ]);
    filled(&[("xfs", 2 * GIB, &[("r", 2), ("t", 1)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers names t, and there is no Storage default/t: name rabbits of this system",
    ]);
    filled(&[("xfs", 2 * GIB, &[("r", 1)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers asks for 1 allocations of xfs on r, which serves 2 of the job's computes: ask for one for each",
    ]);
    filled(&[("xfs", 60 * GIB, &[("r", 2)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: r: insufficient capacity available: 128849018880 bytes are requested, and its drives have 107374182400 in all",
    ]);
    filled(&[("xfs", 2 * GIB, &[("r", 2_000_000_000)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers asks for 2000000000 allocations of xfs on r: ask for 1 to 4096 (allocationCount)",
    ]);
    filled(&[("xfs", 2 * GIB, &[("r", i64::MAX)])]).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers asks for 9223372036854775807 allocations of xfs on r: ask for 1 to 4096 (allocationCount)",
    ]);
}

#[test]
fn a_rabbit_without_the_profiles_label_is_refused() {
    let labels = json!({"data": {"xfsStorage": {"storageLabels": ["tier=fast"]}}});
    Objects::site()
        .edit("NnfStorageProfile nnf-system/default", &labels)
        .propose(&[XFS])
        .computes(&["c1"])
        .reach("Setup")
        .settle()
        .forget()
        .plans(&[
            "w: Setup Error: DW Directive 0: WLM error: Servers names r, whose Storage lacks the label tier=fast: name a rabbit that has it",
        ])
        .then(R, &json!({"metadata": {"labels": {"tier": "fast"}}}))
        .settle()
        .completes();
}

#[test]
fn setup_fails_until_servers_or_computes_is_filled() {
    let computes = "Computes default/w";
    Objects::site()
        .propose(&[XFS])
        .reach("Setup")
        .plans(&[
            "w: Setup Error: DW Directive 0: WLM error: Servers default/w-0 names no rabbit, and Computes names no compute: fill Servers, or fill Computes and the engine places the storage beside them",
        ])
        .then(computes, &json!({"data": [{"name": "c9"}]}))
        .plans(&[
            "w: Setup Error: DW Directive 0: WLM error: Computes names c9, which no rabbit serves: name computes that SystemConfiguration default/default lists under a rabbit, or fill Servers",
        ])
        .then(computes, &json!({"data": [{"name": "c1"}]}))
        .settle()
        .completes();
}

#[test]
fn setup_waits_while_a_rabbit_is_disabled() {
    at("Setup", XFS)
        .edit(R, &json!({"spec": {"state": "Disabled"}}))
        .settle()
        .forget()
        .plans(&[
            "w: Setup TransientCondition: DW Directive 0: Internal error: r is disabled by an administrator (Storage default/r, spec.state): enable it, or place the job elsewhere",
        ])
        .then(R, &json!({"spec": {"state": "Enabled"}}))
        .settle()
        .completes();
}

/// Returns a site whose rabbits have this many bytes.
fn small(bytes: i64) -> Objects {
    ["r", "s"].iter().fold(Objects::site(), |site, rabbit| {
        site.edit(&format!("NnfNode {rabbit}/nnf-nlc"), &json!({"status": {"capacity": bytes}}))
    })
}

#[test]
fn a_request_beyond_a_rabbits_total_capacity_fails_at_once() {
    small(GIB).settle().propose(&[XFS]).computes(&["c1", "c2"]).reach("Setup").plans(&[
        "w: Setup Error: DW Directive 0: WLM error: r: insufficient capacity available: 2214592512 bytes are requested, and its drives have 1073741824 in all",
    ]);
}

/// Each directive alone would fit; together they would wait for ever, each for the bytes of the others.
#[test]
fn directives_that_together_exceed_a_rabbit_fail_before_anything_is_created() {
    let lines = ["one", "two", "three"].map(|name| XFS.replace("scratch", name));
    let lines = lines.each_ref().map(String::as_str);
    let site = small(3 * GIB).settle().propose(&lines).computes(&["c1"]).reach("Setup");
    site.clone().plans(&[
        "w: Setup Error: DW Directive 0: WLM error: r: insufficient capacity available: the directives of this workflow ask for 3321888768 bytes together, and its drives have 3221225472 in all",
    ]);
    let sets = json!({"spec": {"allocationSets": [{"label": "xfs", "allocationSize": PADDED,
        "storage": [{"name": "r", "allocationCount": 1}]}]}});
    let full = |site: Objects, index| site.edit(&format!("Servers default/w-{index}"), &sets);
    (0..3).fold(site, full).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: r: insufficient capacity available: the directives of this workflow ask for 3321888768 bytes together, and its drives have 3221225472 in all",
    ]);
}

/// Flux ends a job after 10 s of a TransientCondition, so a shortage that ends with another job is a DriverWait.
#[test]
fn a_job_waits_for_bytes_of_another_job_and_is_not_written_again_when_the_free_bytes_change() {
    let node = "NnfNode r/nnf-nlc";
    let site = small(3 * GIB).settle().request("a", 1002, &[XFS]).settle();
    let site = site.edit("Computes default/a", &json!({"data": [{"name": "c1"}, {"name": "c2"}]}));
    let site = site.bring("a", "DataIn").settle();
    let waiting = site.propose(&[XFS]).computes(&["c1", "c2"]).reach("Setup");
    let waiting = waiting.plans(&[
        "w: Setup DriverWait: DW Directive 0: pending capacity on r: 2214592512 bytes are requested, and fewer are free; the workflow continues when other jobs release theirs",
    ]).settle();
    waiting
        .clone()
        .edit(node, &json!({"status": {"capacity": 3 * GIB - 7}}))
        .plans(&["write the status of Storage default/r: Ready"]);
    waiting.bring("a", "Teardown").settle().completes();
}

#[test]
fn an_invalid_minimum_capacity_is_reported_until_the_breakdown_is_deleted() {
    for (line, label) in [(XFS, "xfs"), ("#DW jobdw type=lustre capacity=20GB name=lus", "ost")] {
        let (site, breakdown) = (at("Setup", line), "DirectiveBreakdown default/w-0");
        let mut sets = site.get(breakdown)["status"]["storage"]["allocationSets"].clone();
        sets[0]["minimumCapacity"] = json!(-5);
        let message = format!(
            "w: Setup Error: DW Directive 0: WLM error: the DirectiveBreakdown's minimumCapacity of {label} is -5: delete the DirectiveBreakdown; the engine creates it again"
        );
        site.edit(breakdown, &json!({"status": {"storage": {"allocationSets": sets}}}))
            .plans(&[&message])
            .then_without(breakdown)
            .settle()
            .completes();
    }
}

const BLOCK: &str = "NnfNodeBlockStorage r/default-w-0-xfs-0";

#[test]
fn an_error_of_a_rabbit_is_reported_with_its_name_and_ends_with_the_error() {
    let site = at("Setup", XFS).dead("r").settle();
    site.clone()
        .then(BLOCK, &failure("insufficient capacity available", "Fatal"))
        .plans(&[
            "write the status of Servers default/w-0: xfs 1107296256 x 2 on r, ready []",
            "w: Setup Error: DW Directive 0: Internal error: Node: r: insufficient capacity available",
        ])
        .settle()
        .then(BLOCK, &json!({"status": {"error": null}}))
        .reports("w: Setup DriverWait: DW Directive 0: pending storage on r");
    site.then(BLOCK, &failure("r: a drive is missing", "Major")).plans(&[
        "write the status of Servers default/w-0: xfs 1107296256 x 2 on r, ready []",
        "w: Setup TransientCondition: DW Directive 0: Internal error: Node: r: a drive is missing",
    ]);
}

/// Workload managers remove the computes of those rabbits from a job that the status of Servers does not call ready.
#[test]
fn the_status_of_servers_names_each_rabbit_that_is_ready() {
    let site = Objects::site().propose(&[XFS]).computes(&["c1", "d1"]).reach("Setup");
    let site = site.dead("s").settle();
    let ready = |rabbit: &str| {
        site.get(SERVERS)["status"]["allocationSets"][0]["storage"][rabbit]["ready"].clone()
    };
    assert_eq!([ready("r"), ready("s")], [json!(true), json!(false)]);
    assert_eq!(site.get(SERVERS)["status"]["ready"], json!(false));
    site.forget().reports("w: Setup DriverWait: DW Directive 0: pending storage on s");
}

/// A state that was forced is ready although a rabbit has failed.
#[test]
fn a_forced_setup_is_ready() {
    at("Setup", XFS)
        .dead("r")
        .settle()
        .then(BLOCK, &failure("no drive", "Fatal"))
        .settle()
        .then(W, &json!({"spec": {"forceReady": true}}))
        .plans(&["w: Setup Completed, ready: Forced Ready"]);
}

#[test]
fn storage_that_is_deleted_during_setup_is_made_again_and_after_setup_it_is_reported() {
    let site = Objects::site().propose(&[XFS]).computes(&["c1", "d1"]).reach("Setup");
    site.dead("s").settle().without(BLOCK).plans(&[
        "create NnfNodeBlockStorage r/default-w-0-xfs-0: 1107296256 for r",
        "write the status of Servers default/w-0: xfs 1107296256 x 1 on r, 1 on s, ready []",
        "w: Setup DriverWait: DW Directive 0: pending storage on r, s",
    ]);
    at("Setup", XFS)
        .settle()
        .without(BLOCK)
        .plans(&["write the status of Servers default/w-0: xfs 1107296256 x 2 on r, ready []"]);
    at("Setup", XFS).settle().without(BLOCK).reach("PreRun").plans(&[
        "w: PreRun Error: DW Directive 0: Internal error: storage r/default-w-0-xfs-0 does not exist: it was deleted, with its data, or added to Servers after Setup; tear the workflow down",
    ]);
}

#[test]
fn counts_in_servers_are_fixed_once_storage_is_made() {
    let count = |count: i64| -> Value {
        json!({"spec": {"allocationSets": [{"label": "xfs", "allocationSize": PADDED,
            "storage": [{"name": "r", "allocationCount": count}]}]}})
    };
    at("PreRun", XFS)
        .edit(SERVERS, &count(3))
        .plans(&[
            "w: PreRun Error: DW Directive 0: WLM error: Servers asks for 3 allocations of xfs on r, where 2 were made: set allocationCount back, or tear the workflow down",
        ])
        .then(SERVERS, &count(i64::MAX))
        .plans(&[
            "w: PreRun Error: DW Directive 0: WLM error: Servers asks for 9223372036854775807 allocations of xfs on r: ask for 1 to 4096 (allocationCount)",
        ])
        .then(SERVERS, &count(2))
        .settle()
        .completes();
}

#[test]
fn driver_entries_that_a_client_changed_do_not_make_a_state_ready() {
    let servers = [("xfs", 2 * GIB, &[("nowhere", 1)][..])];
    let site = filled(&servers);
    let other = json!({"driverID": "other", "taskID": "", "dwdIndex": 0, "watchState": "PreRun",
        "lastHB": 0, "completed": false, "status": "Pending"});
    site.clone().edit(W, &json!({"status": {"drivers": [other]}})).plans(&[]);
    let mut drivers = site.get(W)["status"]["drivers"].clone();
    for driver in drivers.as_array_mut().unwrap() {
        driver["completed"] = json!(true);
        driver["status"] = json!("Completed");
    }
    site.edit(W, &json!({"status": {"drivers": drivers}})).plans(&[]);
}

/// Two Servers of two workflows may not promise the same bytes: the Servers of `a` cannot be read, and may have any.
#[test]
fn unreadable_servers_block_their_own_and_younger_placements() {
    at("Setup", XFS).unreadable(SERVERS).plans(&[
        "w: Setup TransientCondition: DW Directive 0: Internal error: Servers default/w-0 cannot be read: correct the object; the workflow then continues",
    ]);
    let other = "Servers default/a-0";
    let site = Objects::site().request("a", 1002, &[XFS]).settle();
    let site =
        site.edit(other, &json!({"metadata": {"creationTimestamp": "2026-11-20T11:00:00Z"}}));
    let site = site.propose(&[XFS]).computes(&["c1", "c2"]).reach("Setup").unreadable(other);
    site.plans(&[
        "w: Setup TransientCondition: DW Directive 0: Internal error: Servers default/a-0 cannot be read, so its reservations on rabbits are unknown: correct it, or tear its workflow down; until then no new storage is placed",
    ]);
}

#[test]
fn unreadable_servers_block_nothing_in_teardown_or_after_setup() {
    for state in ["Teardown", "PreRun"] {
        let other =
            Objects::site().with("a", XFS, &["c1"], state).unreadable("Servers default/a-0");
        other.with("w", XFS, &["c1"], "Setup").completes();
    }
}
