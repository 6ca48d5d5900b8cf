//! Workflows with faults on their way from Proposal to Teardown: the result is the same as without faults.

use serde_json::json;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at, some_in_any_order},
};

fn directives() -> Vec<String> {
    vec![directive("raw", "one"), directive("xfs", "two")]
}

/// Brings a workflow with two storages from Proposal to its deletion. Of each plan only the changes that
/// `cut` chooses are made.
fn life(cut: &impl Fn(usize) -> Vec<usize>) -> Site {
    run_life(Site::new(2, 100 * GIB), &directives(), &["c1", "c2"], cut)
}

/// Brings a workflow from Proposal to its deletion. If `cut` leaves out changes of a plan, a new engine
/// starts after this plan.
pub(crate) fn run_life(
    mut site: Site,
    directives: &[String],
    computes: &[&str],
    cut: &impl Fn(usize) -> Vec<usize>,
) -> Site {
    site.create("w", directives);
    site.settle_with(cut);
    site.fill_computes("w", computes);
    for state in &STATES[1..] {
        site.request_state("w", state);
        site.settle_with(cut);
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
    }
    site.delete(&at("Workflow", "default", "w"));
    site.settle_with(cut);
    site.assert_clean();
    site
}

#[test]
fn an_engine_restarted_after_every_change_ends_with_the_same_objects() {
    let whole = life(&|length| (0..length).collect());
    let first = life(&|length| (0..length.min(1)).collect());
    let last = life(&|length| (length.saturating_sub(1)..length).collect());
    // Only the keys are compared: the objects themselves differ in their versions.
    assert!(
        first.objects.keys().eq(whole.objects.keys())
            && last.objects.keys().eq(whole.objects.keys())
    );
    for seed in 0..6 {
        let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
        life(&|length| some_in_any_order(&mut random.borrow_mut(), length));
    }
}

#[test]
fn a_whole_workflow_takes_64_writes_and_repeats_none() {
    let site = life(&|length| (0..length).collect());
    // The writes create 16 objects; place the storage, write its status, give and withdraw access, and remove the
    // storage; and write the workflow's status 18 times.
    assert_eq!(site.writes, 64);
}

#[test]
fn a_workflow_deleted_after_any_change_leaves_nothing() {
    let mut site = Site::new(2, 100 * GIB);
    site.create("w", &directives());
    site.after_each_change("w", &["c1", "c2"], |mut ended| ended.remove("w"));
}

#[test]
fn deleted_objects_are_created_again_or_reported() {
    for state in STATES {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &directives(), state, &["c1", "c2"]);
        let places: Vec<_> =
            site.objects.keys().filter(|(kind, ..)| kind != "Workflow").cloned().collect();
        let shared = ["SystemConfiguration", "NnfNode", "DWDirectiveRule"];
        for place in places.iter().filter(|(kind, ..)| !shared.contains(&kind.as_str())) {
            let mut site = site.clone();
            site.delete(place);
            site.settle();
            let next = STATES.iter().skip_while(|known| **known != state).nth(1);
            if let Some(next) = next.filter(|_| site.status_of("w").1) {
                site.request_state("w", next);
                site.settle();
            }
            let (state_now, ready, status, message) = site.status_of("w");
            assert!(
                ready || status == "Error" && !message.is_empty(),
                "{state}, {place:?}: {status} {message}"
            );
            if state_now == "PreRun" && ready {
                // Two computes mount two storages each; the rabbit mounts the raw storage too.
                assert_eq!(site.names("ClientMount").len(), 2 * 2 + 1, "{state}, {place:?}");
            }
            site.remove("w");
        }
    }
}

#[test]
fn an_error_of_one_directive_does_not_hold_up_the_other_directives() {
    let mut site = Site::new(2, 100 * GIB);
    site.create("w", &directives());
    site.settle();
    site.fill_computes("w", &["c1", "c2"]);
    site.request_state("w", "Setup");
    site.settle();
    site.request_state("w", "DataIn");
    site.settle();
    site.errors.insert(
        "ClientMount".to_owned(),
        json!({"debugMessage": "mount: no such device", "userMessage": "the device went", "type": "Internal", "severity": "Major"}),
    );
    site.request_state("w", "PreRun");
    site.settle();
    let (_, ready, status, message) = site.status_of("w");
    assert!(!ready && status == "TransientCondition", "{status}");
    assert_eq!(message, "DW Directive 0: Internal error: Node: c1: the device went");
    assert_eq!(
        site.names("ClientMount").len(),
        2 * 2 + 1,
        "the second directive mounts nevertheless"
    );
    site.errors.clear();
    site.settle();
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn a_fatal_error_is_reported_and_the_workflow_can_be_torn_down() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &[directive("xfs", "one")]);
    site.settle();
    site.fill_computes("w", &["c1"]);
    site.errors.insert(
        "NnfNodeBlockStorage".to_owned(),
        json!({"debugMessage": "no drives", "userMessage": "r: insufficient capacity available", "type": "WLM", "severity": "Fatal"}),
    );
    site.request_state("w", "Setup");
    site.settle();
    let (_, ready, status, message) = site.status_of("w");
    assert!(!ready && status == "Error");
    assert_eq!(message, "DW Directive 0: WLM error: Node: r: insufficient capacity available");
    // Until its agent looks at it again, a deleted object keeps the error of its creation.
    site.dead = vec!["r".to_owned()];
    site.request_state("w", "Teardown");
    site.settle();
    let (_, ready, status, message) = site.status_of("w");
    assert_eq!((ready, &*status), (false, "DriverWait"), "{message}");
    assert_eq!(
        message,
        "DW Directive 0: pending removal, after an earlier state failed: Node: r: insufficient capacity available"
    );
    site.dead.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn a_forced_state_is_ready_and_the_next_state_is_not_forced() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "one")], "DataIn", &["c1", "c2"]);
    site.dead = vec!["c2".to_owned()];
    site.request_state("w", "PreRun");
    site.settle();
    assert!(!site.status_of("w").1);
    assert_eq!(site.status_of("w").3, "DW Directive 0: pending mount on c2");
    site.edit("Workflow", "default", "w", |object| object["spec"]["forceReady"] = json!(true));
    site.settle();
    assert_eq!(
        site.status_of("w"),
        ("PreRun".to_owned(), true, "Completed".to_owned(), "Forced Ready".to_owned())
    );
    site.dead.clear();
    site.request_state("w", "PostRun");
    site.settle();
    assert_eq!(site.workflow("w")["spec"]["forceReady"], false);
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn teardown_waits_for_a_silent_compute_until_evidence_shows_that_the_compute_is_down() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "one")], "PreRun", &["c1", "c2"]);
    site.dead = vec!["c2".to_owned()];
    site.request_state("w", "PostRun");
    site.settle();
    assert_eq!(site.status_of("w").3, "DW Directive 0: pending unmount on c2");
    site.put(json!({"kind": "SystemStatus", "metadata": {"name": "default", "namespace": "default"}, "data": {"nodes": {"c2": "Disabled"}}}));
    site.settle();
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn computes_keep_access_while_the_engine_cannot_read_one_of_their_clientmounts() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "one")], "PreRun", &["c1", "c2"]);
    let before = site.names("NnfNodeBlockStorage");
    let place = site.objects.keys().find(|at| at.0 == "ClientMount" && at.1 == "c2").cloned();
    site.unreadable = vec![place.unwrap()];
    for state in ["PostRun", "Teardown"] {
        site.request_state("w", state);
        site.settle();
        assert!(!site.is_ready("w", state), "{:?}", site.status_of("w"));
        assert!(site.status_of("w").3.contains("cannot be read"), "{:?}", site.status_of("w"));
        assert_eq!(site.names("NnfNodeBlockStorage"), before);
        let block = site.objects.iter().find(|(at, _)| at.0 == "NnfNodeBlockStorage").unwrap().1;
        assert!(block["spec"]["allocations"].to_string().contains("c2"), "{block:#}");
    }
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

/// `allReady` is false although all mounts of the ClientMount are reported as unmounted: an agent reports this while a
/// mount that only an earlier version of the ClientMount asked for is still there.
#[test]
fn a_compute_keeps_access_while_a_mount_of_an_earlier_clientmount_version_is_still_there() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "one")], "PreRun", &["c1", "c2"]);
    site.dead = vec!["c2".to_owned()];
    site.request_state("w", "PostRun");
    site.settle();
    site.edit("ClientMount", "c2", "default-w-0-computes", |object| {
        let error = json!({"debugMessage": "busy", "userMessage": "c2: busy", "type": "Internal", "severity": "Major"});
        let mounts = json!([{"state": "unmounted", "ready": true}]);
        object["status"] = json!({"mounts": mounts, "allReady": false, "error": error});
    });
    for state in ["PostRun", "Teardown"] {
        site.request_state("w", state);
        site.settle();
        let (_, ready, _, message) = site.status_of("w");
        assert!(!ready && message.contains("c2: busy"), "{state}: {message}");
        let block = site.objects.iter().find(|(at, _)| at.0 == "NnfNodeBlockStorage").unwrap().1;
        assert!(block["spec"]["allocations"].to_string().contains("c2"), "{state}: {block:#}");
    }
    site.dead.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn storage_of_a_workflow_without_its_finalizer_is_removed() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &directives(), "PreRun", &["c1", "c2"]);
    site.edit("Workflow", "default", "w", |object| object["metadata"]["finalizers"] = json!([]));
    site.remove("w");
}

#[test]
fn a_workflow_waits_until_storage_of_a_deleted_workflow_of_its_name_is_removed() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &directives(), "PreRun", &["c1", "c2"]);
    site.edit("Workflow", "default", "w", |object| object["metadata"]["finalizers"] = json!([]));
    site.delete(&at("Workflow", "default", "w"));
    site.bring("w", &directives(), "Teardown", &["c1", "c2"]);
    site.remove("w");
}

#[test]
fn storage_of_other_controllers_is_left_alone() {
    let mut site = Site::new(1, 100 * GIB);
    let labels = json!({
        "dataworkflowservices.github.io/workflow.name": "w", "dataworkflowservices.github.io/workflow.namespace": "default",
        "dataworkflowservices.github.io/workflow.uid": "another", "dataworkflowservices.github.io/owner.kind": "NnfStorage",
    });
    let foreign_object = |kind: &str, spec| json!({"kind": kind, "metadata": {"name": "theirs", "namespace": "r", "labels": labels}, "spec": spec});
    site.put(foreign_object(
        "NnfNodeBlockStorage",
        json!({"sharedAllocation": false, "allocations": [{"capacity": 1, "access": ["r"]}]}),
    ));
    site.put(foreign_object(
        "NnfNodeStorage",
        json!({"count": 1, "sharedAllocation": false, "userID": 1, "groupID": 1}),
    ));
    site.settle();
    site.bring("w", &[directive("xfs", "one")], "Teardown", &["c1"]);
    site.delete(&at("Workflow", "default", "w"));
    site.settle();
    assert_eq!(site.names("NnfNodeStorage"), ["r/theirs"]);
    assert_eq!(site.names("NnfNodeBlockStorage"), ["r/theirs"]);
}

/// The API answers the patch that removes the last finalizer of a deleted Workflow with the object, although the object
/// is gone then. If the engine took in this answer, it would plan for a Workflow that no longer exists.
#[test]
fn the_engine_plans_nothing_for_a_workflow_whose_last_finalizer_it_has_removed() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &[directive("xfs", "scratch")]);
    site.settle();
    let mut world = site.world();
    let mut answer = site.workflow("w").clone();
    answer["metadata"]["resourceVersion"] = json!("1000000");
    answer["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
    let held: api::Workflow = serde_json::from_value(answer.clone()).unwrap();
    answer["metadata"]["finalizers"] = json!([]);
    let gone: api::Workflow = serde_json::from_value(answer).unwrap();
    assert!(world.take_patched(gone).is_empty());
    assert!(!world.take_patched(held).is_empty());
}

/// Sets the error that a rabbit's agent reports.
fn fail(site: &mut Site, rabbit: &str) {
    let is_on_rabbit = |at: &&crate::site::At| at.0 == "NnfNodeStorage" && at.1 == rabbit;
    let places: Vec<_> = site.objects.keys().filter(is_on_rabbit).cloned().collect();
    assert!(!places.is_empty());
    for (kind, namespace, name) in places {
        let error = json!({"debugMessage": "mkfs failed", "userMessage": "mkfs failed", "type": "Internal", "severity": "Fatal"});
        site.edit(&kind, &namespace, &name, |object| {
            object["metadata"]["finalizers"] = json!(["nnf.cray.hpe.com/nnf_node_storage"]);
            object["status"] = json!({"ready": false, "error": error});
        });
    }
}

/// A workload manager may let a job continue without some computes: it forces Setup ready and then names
/// only the remaining computes.
#[test]
fn a_failed_rabbit_does_not_hold_up_computes_of_other_rabbits() {
    for kind in ["xfs", "raw", "gfs2"] {
        let mut site = Site::new(2, 100 * GIB);
        site.add_rabbit("s", &["d1".to_owned()], 100 * GIB);
        site.settle();
        site.create("w", &[directive(kind, "one")]);
        site.settle();
        site.fill_computes("w", &["c1", "c2", "d1"]);
        site.dead = vec!["s".to_owned()];
        site.request_state("w", "Setup");
        site.settle();
        assert_eq!(site.status_of("w").3, "DW Directive 0: pending storage on s", "{kind}");
        fail(&mut site, "s");
        site.settle();
        assert_eq!(site.status_of("w").2, "Error", "{kind}: {:?}", site.status_of("w"));
        site.edit("Workflow", "default", "w", |object| object["spec"]["forceReady"] = json!(true));
        site.settle();
        assert!(site.is_ready("w", "Setup"), "{kind}: {:?}", site.status_of("w"));
        site.request_state("w", "DataIn");
        site.settle();
        site.fill_computes("w", &["c1", "c2"]);
        // The workflow waits for a remaining compute that is not ready, although another rabbit has failed.
        site.dead.push("c2".to_owned());
        site.request_state("w", "PreRun");
        site.settle();
        assert_eq!(site.status_of("w").3, "DW Directive 0: pending mount on c2", "{kind}");
        site.dead.pop();
        site.settle();
        for state in ["PreRun", "PostRun", "DataOut"] {
            if state != "PreRun" {
                site.request_state("w", state);
                site.settle();
            }
            assert!(site.is_ready("w", state), "{kind}, {state}: {:?}", site.status_of("w"));
            assert_eq!(
                site.status_of("w").3,
                "",
                "{kind}, {state}: the state is ready without being forced"
            );
        }
        site.dead.clear();
        site.request_state("w", "Teardown");
        site.settle();
        assert!(site.is_ready("w", "Teardown"), "{kind}: {:?}", site.status_of("w"));
        site.remove("w");
    }
}

/// flux-coral2 removes from the job the computes of each rabbit that the status of Servers does not call ready.
#[test]
fn the_status_of_servers_shows_which_rabbits_are_ready_while_one_is_not() {
    let mut site = Site::new(1, 100 * GIB);
    for rabbit in ["s", "t"] {
        site.add_rabbit(rabbit, &[format!("{rabbit}1")], 100 * GIB);
    }
    site.settle();
    site.create("w", &[directive("xfs", "one")]);
    site.settle();
    site.fill_computes("w", &["c1", "s1", "t1"]);
    site.dead = vec!["t".to_owned()];
    site.request_state("w", "Setup");
    site.settle();
    let ready = |site: &Site| {
        let status = &site.get("Servers", "default", "w-0")["status"];
        let storage = &status["allocationSets"][0]["storage"];
        (["r", "s", "t"].map(|rabbit| storage[rabbit]["ready"] == true), status["ready"] == true)
    };
    assert_eq!(ready(&site), ([true, true, false], false));
    site.dead.clear();
    site.settle();
    assert_eq!(ready(&site), ([true; 3], true));
    site.request_state("w", "Teardown");
    site.settle();
    site.remove("w");
}
