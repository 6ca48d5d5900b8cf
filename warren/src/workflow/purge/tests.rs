#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use super::*;
use serde_json::{Value, json};

fn member(kind: &str, metadata: Value) -> Member {
    let mut object =
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "w-0", "namespace": "n1"}});
    let known = object["metadata"].as_object_mut().unwrap();
    known.extend(metadata.as_object().unwrap().clone());
    Member { kind: kind.to_owned(), object: serde_json::from_value(object).unwrap() }
}

fn objects(workflow: Option<(&str, Value)>, others: Vec<Member>) -> Objects {
    let workflow = workflow.map(|(state, mut metadata)| {
        metadata["name"] = json!("w");
        metadata["namespace"] = json!("default");
        serde_json::from_value(json!({"metadata": metadata, "spec": {
            "desiredState": state, "wlmID": "w", "jobID": 1, "userID": 0, "groupID": 0, "dwDirectives": []}}))
        .unwrap()
    });
    Objects { workflow, others }
}

fn plan_lines(objects: &Objects, force: bool) -> Vec<String> {
    plan(objects, force).iter().map(ToString::to_string).collect()
}

const DELETED: &str = "2026-11-24T12:00:00Z";

#[test]
fn without_force_the_plan_removes_only_the_workflow() {
    let others = || vec![member("ClientMount", json!({"finalizers": ["f"]}))];
    assert_eq!(
        plan_lines(&objects(Some(("PreRun", json!({}))), others()), false),
        ["request Teardown of the workflow w, and wait for it", "delete the workflow w"]
    );
    assert_eq!(
        plan_lines(&objects(Some(("Teardown", json!({}))), others()), false),
        ["delete the workflow w"]
    );
    assert_eq!(
        plan_lines(
            &objects(
                Some(("Teardown", json!({"deletionTimestamp": DELETED, "finalizers": ["f"]}))),
                others()
            ),
            false
        ),
        [""; 0]
    );
}

#[test]
fn objects_of_a_missing_workflow_are_deleted_after_the_objects_that_use_them() {
    let mut others = vec![
        member("NnfNodeBlockStorage", json!({})),
        member("NnfNodeStorage", json!({})),
        member("ClientMount", json!({})),
    ];
    for next in ["clientmount", "nnfnodestorage", "nnfnodeblockstorage"] {
        let planned = plan_lines(&objects(None, others.clone()), false);
        assert_eq!(planned, [format!("delete {next}/w-0 in n1")]);
        others.pop();
    }
}

#[test]
fn purge_does_not_delete_storage_while_its_mount_is_being_deleted() {
    let going = json!({"deletionTimestamp": DELETED, "finalizers": ["f"]});
    let others = vec![member("NnfNodeBlockStorage", json!({})), member("ClientMount", going)];
    assert_eq!(plan_lines(&objects(None, others), false), [""; 0]);
}

#[test]
fn with_force_the_plan_names_what_may_remain_on_each_node() {
    let others = vec![
        member("NnfNodeBlockStorage", json!({"finalizers": ["b"], "deletionTimestamp": DELETED})),
        member("ClientMount", json!({"finalizers": ["a", "c"]})),
    ];
    let workflow = ("Teardown", json!({"finalizers": ["w"], "deletionTimestamp": DELETED}));
    assert_eq!(
        plan_lines(&objects(Some(workflow), others), true),
        [
            "delete clientmount/w-0 in n1",
            "remove a, c from clientmount/w-0 in n1; this may leave behind: mounts on n1, until its agent starts again and cleans up",
            "remove b from nnfnodeblockstorage/w-0 in n1; this may leave behind: namespaces on the drives of n1, and their capacity",
            "remove w from workflow/w in default; this may leave behind: nothing, if all objects above are gone",
        ]
    );
}

#[test]
fn a_removed_workflow_needs_no_steps() {
    assert_eq!(plan_lines(&objects(None, Vec::new()), true), [""; 0]);
}
