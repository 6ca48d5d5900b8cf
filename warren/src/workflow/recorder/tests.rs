use super::*;
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn workflow(state: &str, begin: i64, end: Option<i64>) -> Workflow {
    let done = end.map(at);
    serde_json::from_value(json!({
        "metadata": {"name": "w"},
        "spec": {"desiredState": state, "wlmID": "w", "jobID": 1, "userID": 0, "groupID": 0, "dwDirectives": ["#DW persistentdw name=foo"]},
        "status": {"state": state, "ready": done.is_some(), "desiredStateChange": at(begin), "readyChange": done,
            "drivers": [{"driverID": "nnf", "taskID": "", "dwdIndex": 0, "watchState": state, "lastHB": 0,
                         "completed": done.is_some(), "status": "Running", "completeTime": done}]},
    }))
    .unwrap()
}

fn mount(desired: &str, state: &str, ready: bool) -> ClientMount {
    let mount = json!({"mountPath": "/m", "setPermissions": false, "options": "", "type": "xfs", "targetType": "directory", "device": {"type": "lvm"}});
    serde_json::from_value(json!({
        "metadata": {"name": "w-0-computes", "namespace": "c1", "labels": {"nnf.cray.hpe.com/directive_index": "0"}},
        "spec": {"node": "c1", "desiredState": desired, "mounts": [mount]},
        "status": {"allReady": ready, "mounts": [{"state": state, "ready": ready}]},
    }))
    .unwrap()
}

fn storage(deleted: bool, ready: bool) -> NnfNodeStorage {
    let mut metadata = json!({"name": "s", "namespace": "r1", "labels": {"nnf.cray.hpe.com/directive_index": "0"}});
    if deleted {
        metadata["deletionTimestamp"] = Value::String(at(0).to_string());
    }
    serde_json::from_value(json!({"metadata": metadata, "spec": {"count": 1, "sharedAllocation": false, "capacity": 1, "userID": 1, "groupID": 1,
        "fileSystemType": "xfs", "lustreStorage": {"lustreComponents": {}}, "blockReference": {}}, "status": {"ready": ready}}))
    .unwrap()
}

#[test]
fn states_directives_and_nodes_are_recorded_in_order() {
    let mut record = Recorder::default();
    record.workflow(&workflow("Setup", 1, None));
    record.file_systems(&storage(false, false), at(2));
    record.file_systems(&storage(false, true), at(3));
    record.file_systems(&storage(false, true), at(3));
    record.workflow(&workflow("Setup", 1, Some(4)));
    record.workflow(&workflow("PreRun", 5, None));
    record.mount(&mount("mounted", "unmounted", false), at(6));
    record.mount(&mount("mounted", "mounted", true), at(7));
    record.workflow(&workflow("PreRun", 5, Some(8)));
    record.workflow(&workflow("Teardown", 9, None));
    record.file_systems(&storage(true, true), at(10));
    record.record_removal("r1", at(11));
    let timeline = record.timeline();
    let rows: Vec<_> = timeline
        .rows
        .iter()
        .map(|row| {
            let seconds = |moment: Timestamp| moment.as_second() - at(0).as_second();
            format!(
                "{} {}-{}",
                row.label(),
                seconds(row.begin),
                row.end.map_or("?".to_owned(), |end| seconds(end).to_string())
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            "Setup 1-4",
            "  0 persistentdw foo 1-4",
            "  r1 make storage 0 2-3",
            "PreRun 5-8",
            "  0 persistentdw foo 5-8",
            "  c1 mount 0 6-7",
            "Teardown 9-?",
            "  0 persistentdw foo 9-?",
            "  r1 remove storage 0 10-11",
        ]
    );
    assert_eq!(timeline.workflow, "w");
}

#[test]
fn work_that_a_node_reports_before_the_workflow_shows_the_state_counts_for_that_state() {
    let mut record = Recorder::default();
    record.workflow(&workflow("PreRun", 1, Some(2)));
    record.mount(&mount("unmounted", "mounted", false), at(4));
    record.workflow(&workflow("PostRun", 3, None));
    let rows = record.timeline().rows;
    assert_eq!(rows.last().map(|row| row.state.as_str()), Some("PostRun"));
    assert_eq!(rows.len(), 5);
}

#[test]
fn an_object_whose_work_was_done_before_it_was_seen_has_no_row() {
    let mut record = Recorder::default();
    record.workflow(&workflow("PreRun", 1, None));
    for second in 2..5 {
        record.mount(&mount("mounted", "mounted", true), at(second));
    }
    assert!(record.timeline().rows.iter().all(|row| !matches!(row.subject, Subject::Node(..))));
}
