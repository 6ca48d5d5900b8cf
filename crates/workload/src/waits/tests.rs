#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use super::*;
use crate::Member;
use serde_json::{Value, json};

fn workflow(status: Value) -> Workflow {
    serde_json::from_value(json!({
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"desiredState": "Setup", "wlmID": "w", "jobID": 1, "userID": 0, "groupID": 0,
                 "dwDirectives": ["#DW jobdw type=xfs capacity=1GiB name=foo"]},
        "status": status,
    }))
    .unwrap()
}

fn member(kind: &str, namespace: &str, mut object: Value) -> Member {
    object["apiVersion"] = json!(if kind.starts_with("Nnf") {
        "nnf.cray.hpe.com/v1alpha11"
    } else {
        "dataworkflowservices.github.io/v1alpha7"
    });
    object["kind"] = json!(kind);
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.insert("name".to_owned(), json!("w-0"));
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.insert("labels".to_owned(), json!({"nnf.cray.hpe.com/directive_index": "0"}));
    Member { kind: kind.to_owned(), object: serde_json::from_value(object).unwrap() }
}

fn mount(finalizers: &[&str], status: Value) -> Member {
    let mount = json!({"mountPath": "/m", "setPermissions": false, "options": "", "type": "xfs", "targetType": "directory", "device": {"type": "lvm"}});
    let spec = json!({"node": "c1", "desiredState": "mounted", "mounts": [mount]});
    member(
        "ClientMount",
        "c1",
        json!({"metadata": {"finalizers": finalizers}, "spec": spec, "status": status}),
    )
}

fn lines(workflow_status: Value, others: Vec<Member>) -> Vec<String> {
    let objects = Objects { workflow: Some(workflow(workflow_status)), others };
    let now: Timestamp = "2026-11-24T12:01:30Z".parse().unwrap();
    waits(&objects).iter().map(|waiting| waiting.line(now)).collect()
}

fn driver(status: &str, error: &str) -> Value {
    json!({"driverID": "nnf", "taskID": "", "dwdIndex": 0, "watchState": "Setup", "lastHB": 0, "completed": false, "status": status, "error": error})
}

fn setup(driver: Value) -> Value {
    json!({"state": "Setup", "ready": false, "status": "DriverWait", "desiredStateChange": "2026-11-24T12:00:00.000000Z", "drivers": [driver]})
}

#[test]
fn a_ready_workflow_waits_for_nothing() {
    let there = json!({"allReady": true, "mounts": [{"state": "mounted", "ready": true}]});
    assert_eq!(
        lines(json!({"state": "PreRun", "ready": true}), vec![mount(&["f"], there)]),
        [""; 0]
    );
}

#[test]
fn an_incomplete_driver_is_listed_with_time_and_error() {
    assert_eq!(
        lines(setup(driver("Error", "no room")), Vec::new()),
        [
            "workflow/w (directive 0) for 1m 30s: Setup of driver nnf is Error: no room; the workflow cannot continue: tear it down; the cause is above, or in the coordinator's log"
        ]
    );
}

#[test]
fn servers_without_a_rabbit_wait_for_the_workload_manager() {
    let servers = member("Servers", "default", json!({"metadata": {}, "spec": {}}));
    let lines = lines(setup(driver("Running", "")), vec![servers]);
    assert_eq!(
        lines[0],
        "servers/w-0 (directive 0) for 1m 30s: no rabbit is named for its allocations; the workload manager is to fill spec.allocationSets"
    );
    assert!(lines[1].starts_with("workflow/w (directive 0) for 1m 30s: Setup of driver nnf is Running; the cause is above"), "{}", lines[1]);
}

#[test]
fn an_error_of_a_node_is_listed_with_its_remedy() {
    let error = json!({"debugMessage": "mount: EIO", "severity": "Major", "type": "Internal", "userMessage": "replace the drive"});
    let failed = json!({"allReady": false, "mounts": [{"state": "mounted", "ready": false}], "error": error});
    let lines = lines(json!({"state": "PreRun", "ready": true}), vec![mount(&["f"], failed)]);
    assert_eq!(lines, ["c1: clientmount/w-0 (directive 0): Major: mount: EIO; replace the drive"]);
}

#[test]
fn an_object_that_no_agent_took_up_is_listed() {
    let new = || json!({"metadata": {}});
    let storage = |kind: &str| {
        let mut object = new();
        object["spec"] = json!({"count": 1, "sharedAllocation": false, "allocations": [], "capacity": 1, "userID": 1, "groupID": 1,
            "fileSystemType": "xfs", "lustreStorage": {"lustreComponents": {}}, "blockReference": {}});
        member(kind, "r1", object)
    };
    let lines = lines(
        json!({"state": "PreRun", "ready": true}),
        vec![
            storage("NnfNodeStorage"),
            storage("NnfNodeBlockStorage"),
            mount(&[], json!(null)),
            mount(&["f"], json!(null)),
        ],
    );
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(
        lines[0].starts_with(
            "r1: nnfnodeblockstorage/w-0 (directive 0): the node's agent has not taken it up;"
        ),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("r1: nnfnodestorage/w-0"), "{}", lines[1]);
    assert!(
        lines[3].starts_with(
            "c1: clientmount/w-0 (directive 0): not mounted; check that its agent runs"
        ),
        "{}",
        lines[3]
    );
}

#[test]
fn an_object_being_deleted_is_listed_with_the_finalizers_that_hold_it() {
    let mut held =
        mount(&["f"], json!({"allReady": true, "mounts": [{"state": "mounted", "ready": true}]}));
    held.object.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-11-24T12:00:30Z")).unwrap();
    let lines = lines(json!({"state": "Teardown", "ready": true}), vec![held]);
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with(
            "c1: clientmount/w-0 (directive 0) for 1m: being deleted, and held by f; check that its agent"
        ),
        "{}",
        lines[0]
    );
}

#[test]
fn a_workflow_that_no_driver_works_on_waits_for_an_engine() {
    let lines = lines(json!({"state": "Setup", "ready": false}), Vec::new());
    assert_eq!(
        lines,
        [
            "workflow/w: Setup is not ready; check that a workflow engine runs: the coordinator's option --workflows"
        ]
    );
}
