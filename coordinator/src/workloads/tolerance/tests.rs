use serde_json::json;

use super::*;

const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=a";
const LUSTRE: &str = "#DW jobdw type=lustre capacity=1GiB name=b";

/// Creates a Workflow whose directives all wait in `state`.
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

/// Creates computes c1 to c3 of rabbit r1 and c4 of r2. The nodes in `bad` have these conditions; all others are Ready.
fn nodes(bad: &[(&str, Condition)]) -> Vec<NodeCondition> {
    let node = |name: &str, role: Role| {
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
    let computes = ["c1", "c2", "c3", "c4"].map(|name| node(name, Role::Compute));
    computes.into_iter().chain(["r1", "r2"].map(|name| node(name, Role::Rabbit))).collect()
}

fn lost_after(
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
    Ok(after.lost.into_iter().map(|lost| (lost.node, lost.evidence)).collect())
}

fn tolerates(nodes: u32) -> Tolerance {
    Tolerance { nodes, lost: Vec::new() }
}

fn pair(node: &str, evidence: &str) -> (String, String) {
    (node.to_owned(), evidence.to_owned())
}

#[test]
fn a_compute_whose_mount_failed_is_lost_and_a_silent_compute_is_not() {
    let waits = workflow("PreRun", &[XFS]);
    let lost = |condition| lost_after(&tolerates(1), &waits, &[("c2", condition)], &[(0, &["c2"])]);
    assert_eq!(lost(Condition::Faulty).unwrap(), [pair("c2", "c2 is so")]);
    assert_eq!(lost(Condition::Down).unwrap(), [pair("c2", "c2 is so")]);
    for silent in [Condition::Pending, Condition::Unreachable] {
        assert!(lost(silent).unwrap_err().contains("no fault of c2 was reported"));
    }
}

#[test]
fn the_computes_of_a_faulty_rabbit_are_lost() {
    for state in ["Setup", "PreRun"] {
        let bad = [("r2", Condition::Faulty), ("c4", Condition::Pending)];
        let open: &[(u32, &[&str])] = &[(0, &["r2", "c4"])];
        let lost = lost_after(&tolerates(1), &workflow(state, &[XFS]), &bad, open).unwrap();
        assert_eq!(lost, [pair("c4", "r2: r2 is so")], "{state}");
    }
    let three = [("r1", Condition::Faulty)];
    let why = lost_after(&tolerates(2), &workflow("Setup", &[XFS]), &three, &[(0, &["r1"])]);
    assert_eq!(why.unwrap_err(), "3 computes are lost (c[1-3]), and the job tolerates 2");
    let silent = [("r2", Condition::Unreachable)];
    let why = lost_after(&tolerates(2), &workflow("Setup", &[XFS]), &silent, &[(0, &["r2"])]);
    assert!(why.unwrap_err().contains("no fault of r2"));
}

#[test]
fn computes_that_were_lost_earlier_count_towards_the_tolerated_number() {
    let early =
        Lost { node: "c4".to_owned(), state: WorkflowState::Setup, evidence: "e".to_owned() };
    let waits = workflow("PreRun", &[XFS]);
    let bad = [("r2", Condition::Faulty), ("c2", Condition::Faulty)];
    let open: &[(u32, &[&str])] = &[(0, &["r2", "c2"])];
    // Decides after c4 was removed from the job's Computes.
    let without = |tolerance: &Tolerance| {
        let nodes: Vec<_> = nodes(&bad).into_iter().filter(|node| node.node != "c4").collect();
        let rabbit_of = [("c2", "r1"), ("c4", "r2")];
        let rabbit_of =
            rabbit_of.map(|(compute, rabbit)| (compute.to_owned(), rabbit.to_owned())).into();
        let open = [(0, ["r2", "c2"].map(str::to_owned).into())].into();
        tolerance.after_losing(&waits, &nodes, &open, &rabbit_of)
    };
    let tolerates_one = Tolerance { nodes: 1, lost: vec![early.clone()] };
    assert!(without(&tolerates_one).unwrap_err().starts_with("2 computes are lost"));
    let two = without(&Tolerance { nodes: 2, lost: vec![early] }).unwrap();
    assert_eq!(two.lost.len(), 2);
    assert!(two.is_left_out("c4") && !two.is_left_out("c2"), "c2 was lost in PreRun");
    // The loss is recorded already, but the state is not ready yet: the result is the same.
    assert_eq!(without(&two).unwrap(), two);
    assert!(
        lost_after(&tolerates(9), &waits, &bad, open).is_err(),
        "r2 is faulty, but none of the lost computes belongs to r2"
    );
}

#[test]
fn a_job_continues_only_if_it_waits_for_nothing_but_lost_computes() {
    let waits = workflow("PreRun", &[XFS, XFS]);
    let bad = [("c2", Condition::Faulty)];
    let lost_after = |workflow: &Workflow, open: &[(u32, &[&str])]| {
        lost_after(&tolerates(3), workflow, &bad, open)
    };
    assert!(lost_after(&waits, &[(0, &["c2"]), (1, &["c2"])]).is_ok());
    for open in [&[(0, &["c2"] as &[&str])][..], &[(0, &["c2"]), (1, &["c2", "c3"])]] {
        let why = lost_after(&waits, open).unwrap_err();
        assert_eq!(why, "directive 1 waits for more than the lost computes: pending");
    }
    let mut first = waits.clone();
    first.status.as_mut().unwrap().drivers[1].completed = true;
    assert!(lost_after(&first, &[(0, &["c2"])]).is_ok());
    let mut reached = waits;
    reached.status.as_mut().unwrap().ready = true;
    assert!(lost_after(&reached, &[(0, &["c2"])]).is_err(), "the Workflow does not wait");
}

#[test]
fn a_file_system_that_spans_rabbits_needs_all_of_them() {
    let bad = [("r2", Condition::Faulty)];
    let open: &[(u32, &[&str])] = &[(0, &["r2"])];
    let why = lost_after(&tolerates(4), &workflow("Setup", &[LUSTRE]), &bad, open).unwrap_err();
    assert!(why.contains("spans its rabbits"), "{why}");
    let client = [("c2", Condition::Faulty)];
    let mounts = workflow("PreRun", &[LUSTRE]);
    assert!(lost_after(&tolerates(4), &mounts, &client, &[(0, &["c2"])]).is_ok());
    for state in ["Proposal", "DataIn", "PostRun", "DataOut", "Teardown"] {
        let why = lost_after(&tolerates(4), &workflow(state, &[XFS]), &client, &[(0, &["c2"])]);
        assert!(why.unwrap_err().contains("in Setup and PreRun only"), "{state}");
    }
}

#[test]
fn a_job_does_not_continue_if_it_would_lose_all_its_computes() {
    let all = [("r1", Condition::Faulty), ("r2", Condition::Faulty)];
    let open: &[(u32, &[&str])] = &[(0, &["r1", "r2"])];
    let why = lost_after(&tolerates(9), &workflow("Setup", &[XFS]), &all, open).unwrap_err();
    assert_eq!(why, "the job would have no compute left");
}

#[test]
fn a_tolerance_is_read_from_the_annotation_and_an_invalid_one_counts_as_none() {
    let lost =
        Lost { node: "c1".to_owned(), state: WorkflowState::PreRun, evidence: "e".to_owned() };
    let tolerance = Tolerance { nodes: 2, lost: vec![lost] };
    let mut kept = workflow("PreRun", &[XFS]);
    kept.annotations_mut().insert(ANNOTATION.to_owned(), tolerance.text());
    assert_eq!(Tolerance::read(&kept), tolerance);
    kept.annotations_mut().insert(ANNOTATION.to_owned(), "many".to_owned());
    assert_eq!(Tolerance::read(&kept), Tolerance::default());
}
