use serde_json::json;

use super::*;

const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=a";
const LUSTRE: &str = "#DW jobdw type=lustre capacity=1GiB name=b";

/// A Workflow that waits in a state with all its directives.
fn workflow(state: &str, lines: &[&str]) -> Workflow {
    let share = |index: usize| {
        json!({"driverID": "nnf", "taskID": "", "dwdIndex": index, "watchState": state, "lastHB": 0,
        "completed": false, "status": "Running", "message": "pending"})
    };
    let shares: Vec<_> = (0..lines.len()).map(share).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "s-1"},
        "spec": {"desiredState": state, "wlmID": "s", "jobID": "1", "userID": 0, "groupID": 0, "dwDirectives": lines},
        "status": {"state": state, "ready": false, "drivers": shares},
    }))
    .unwrap()
}

/// Computes c1 to c3 beneath r1, c4 beneath r2; those that are named are not ready.
fn nodes(bad: &[(&str, Condition)]) -> Vec<NodeCondition> {
    let of = |name: &str, role: Role| {
        let known = bad.iter().find(|(node, _)| *node == name);
        let condition = known.map_or(Condition::Ready, |(_, condition)| *condition);
        let (node, evidence) = (name.to_owned(), format!("{name} is so"));
        NodeCondition {
            node,
            role: role.into(),
            condition: condition.into(),
            evidence,
            mounted: false,
        }
    };
    let computes = ["c1", "c2", "c3", "c4"].map(|name| of(name, Role::Compute));
    computes.into_iter().chain(["r1", "r2"].map(|name| of(name, Role::Rabbit))).collect()
}

fn decided(
    tolerance: &Tolerance,
    workflow: &Workflow,
    bad: &[(&str, Condition)],
    open: &[(u32, &[&str])],
) -> Result<Vec<(String, String)>, String> {
    let all = [("c1", "r1"), ("c2", "r1"), ("c3", "r1"), ("c4", "r2")];
    let rabbit_of = all.map(|(compute, rabbit)| (compute.to_owned(), rabbit.to_owned())).into();
    let names = |nodes: &[&str]| nodes.iter().map(|&node| node.to_owned()).collect();
    let open = open.iter().map(|(index, nodes)| (*index, names(nodes))).collect();
    let after = tolerance.after_losing(workflow, &nodes(bad), &open, &rabbit_of)?;
    Ok(after.lost.into_iter().map(|one| (one.node, one.evidence)).collect())
}

fn tolerates(nodes: u32) -> Tolerance {
    Tolerance { nodes, lost: Vec::new() }
}

fn pair(node: &str, evidence: &str) -> (String, String) {
    (node.to_owned(), evidence.to_owned())
}

#[test]
fn a_mount_that_failed_is_lost_and_silence_is_not() {
    let waits = workflow("PreRun", &[XFS]);
    let of = |condition| decided(&tolerates(1), &waits, &[("c2", condition)], &[(0, &["c2"])]);
    assert_eq!(of(Condition::Faulty).unwrap(), [pair("c2", "c2 is so")]);
    assert_eq!(of(Condition::Down).unwrap(), [pair("c2", "c2 is so")]);
    for silent in [Condition::Pending, Condition::Unreachable] {
        assert!(of(silent).unwrap_err().contains("nobody reported what is wrong with c2"));
    }
}

#[test]
fn a_rabbit_that_failed_takes_its_computes_along() {
    for state in ["Setup", "PreRun"] {
        let bad = [("r2", Condition::Faulty), ("c4", Condition::Pending)];
        let open: &[(u32, &[&str])] = &[(0, &["r2", "c4"])];
        let lost = decided(&tolerates(1), &workflow(state, &[XFS]), &bad, open).unwrap();
        assert_eq!(lost, [pair("c4", "r2: r2 is so")], "{state}");
    }
    let three = [("r1", Condition::Faulty)];
    let why = decided(&tolerates(2), &workflow("Setup", &[XFS]), &three, &[(0, &["r1"])]);
    assert_eq!(why.unwrap_err(), "3 computes are lost (c[1-3]), and it tolerates 2");
    let silent = [("r2", Condition::Unreachable)];
    let why = decided(&tolerates(2), &workflow("Setup", &[XFS]), &silent, &[(0, &["r2"])]);
    assert!(why.unwrap_err().contains("wrong with r2"));
}

#[test]
fn what_was_lost_before_counts_too() {
    let early =
        Lost { node: "c4".to_owned(), state: WorkflowState::Setup, evidence: "e".to_owned() };
    let waits = workflow("PreRun", &[XFS]);
    let bad = [("r2", Condition::Faulty), ("c2", Condition::Faulty)];
    let open: &[(u32, &[&str])] = &[(0, &["r2", "c2"])];
    // It is none of the job's Computes any more.
    let without = |tolerance: &Tolerance| {
        let nodes: Vec<_> = nodes(&bad).into_iter().filter(|one| one.node != "c4").collect();
        let rabbit_of = [("c2", "r1"), ("c4", "r2")];
        let rabbit_of = rabbit_of.map(|(one, of)| (one.to_owned(), of.to_owned())).into();
        let open = [(0, ["r2", "c2"].map(str::to_owned).into())].into();
        tolerance.after_losing(&waits, &nodes, &open, &rabbit_of)
    };
    let one = Tolerance { nodes: 1, lost: vec![early.clone()] };
    assert!(without(&one).unwrap_err().starts_with("2 computes are lost"));
    let two = without(&Tolerance { nodes: 2, lost: vec![early] }).unwrap();
    assert_eq!(two.lost.len(), 2);
    assert!(two.is_left_out("c4") && !two.is_left_out("c2"), "c2 was lost in PreRun");
    // Decided before, and not carried out yet.
    assert_eq!(without(&two).unwrap(), two);
    assert!(decided(&tolerates(9), &waits, &bad, open).is_err(), "r2 lost nobody that is known");
}

#[test]
fn nothing_but_lost_computes_may_keep_the_job() {
    let waits = workflow("PreRun", &[XFS, XFS]);
    let bad = [("c2", Condition::Faulty)];
    let decided =
        |workflow: &Workflow, open: &[(u32, &[&str])]| decided(&tolerates(3), workflow, &bad, open);
    assert!(decided(&waits, &[(0, &["c2"]), (1, &["c2"])]).is_ok());
    for open in [&[(0, &["c2"] as &[&str])][..], &[(0, &["c2"]), (1, &["c2", "c3"])]] {
        let why = decided(&waits, open).unwrap_err();
        assert_eq!(why, "directive 1 waits for something else: pending");
    }
    let mut first = waits.clone();
    first.status.as_mut().unwrap().drivers[1].completed = true;
    assert!(decided(&first, &[(0, &["c2"])]).is_ok());
    let mut reached = waits;
    reached.status.as_mut().unwrap().ready = true;
    assert!(decided(&reached, &[(0, &["c2"])]).is_err(), "it is not stuck");
}

#[test]
fn a_file_system_that_spans_its_rabbits_needs_them_all() {
    let bad = [("r2", Condition::Faulty)];
    let open: &[(u32, &[&str])] = &[(0, &["r2"])];
    let why = decided(&tolerates(4), &workflow("Setup", &[LUSTRE]), &bad, open).unwrap_err();
    assert!(why.contains("spans its rabbits"), "{why}");
    let client = [("c2", Condition::Faulty)];
    let mounts = workflow("PreRun", &[LUSTRE]);
    assert!(decided(&tolerates(4), &mounts, &client, &[(0, &["c2"])]).is_ok());
    for state in ["Proposal", "DataIn", "PostRun", "DataOut", "Teardown"] {
        let why = decided(&tolerates(4), &workflow(state, &[XFS]), &client, &[(0, &["c2"])]);
        assert!(why.unwrap_err().contains("in Setup and PreRun only"), "{state}");
    }
}

#[test]
fn a_job_is_not_left_without_any_compute() {
    let all = [("r1", Condition::Faulty), ("r2", Condition::Faulty)];
    let open: &[(u32, &[&str])] = &[(0, &["r1", "r2"])];
    let why = decided(&tolerates(9), &workflow("Setup", &[XFS]), &all, open).unwrap_err();
    assert_eq!(why, "it would have no compute left");
}

#[test]
fn a_workflow_keeps_it_and_a_spoilt_annotation_tolerates_nothing() {
    let lost =
        Lost { node: "c1".to_owned(), state: WorkflowState::PreRun, evidence: "e".to_owned() };
    let tolerance = Tolerance { nodes: 2, lost: vec![lost] };
    let mut kept = workflow("PreRun", &[XFS]);
    kept.annotations_mut().insert(ANNOTATION.to_owned(), tolerance.text());
    assert_eq!(Tolerance::of(&kept), tolerance);
    kept.annotations_mut().insert(ANNOTATION.to_owned(), "many".to_owned());
    assert_eq!(Tolerance::of(&kept), Tolerance::default());
}
