#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use super::*;
use serde_json::{Value, json};
use workload::Member;

fn at(seconds: u32, micros: u32) -> String {
    format!("2026-11-24T12:00:{seconds:02}.{micros:06}Z")
}

fn moment(seconds: u32, micros: u32) -> Timestamp {
    at(seconds, micros).parse().unwrap()
}

fn objects(status: Value) -> Objects {
    let workflow = serde_json::from_value(json!({
        "metadata": {"name": "w<1>", "namespace": "default", "creationTimestamp": "2026-11-24T12:00:00Z"},
        "spec": {"desiredState": "Setup", "wlmID": "w", "jobID": 1, "userID": 0, "groupID": 0,
                 "dwDirectives": ["#DW jobdw type=xfs capacity=1GiB name=foo"]},
        "status": status,
    }));
    Objects { workflow: Some(workflow.unwrap()), others: Vec::new() }
}

fn driver(state: &str, done: Option<String>) -> Value {
    json!({"driverID": "nnf", "taskID": "", "dwdIndex": 0, "watchState": state, "lastHB": 0, "completed": done.is_some(),
           "status": if done.is_some() { "Completed" } else { "Pending" }, "completeTime": done})
}

fn in_setup() -> Timeline {
    let status = json!({"state": "Setup", "ready": true, "status": "Completed", "desiredStateChange": at(2, 0), "readyChange": at(4, 500_000),
        "drivers": [driver("Proposal", Some(at(1, 0))), driver("Setup", Some(at(4, 0))), driver("PreRun", None)]});
    Timeline::from_objects(&objects(status)).unwrap()
}

#[test]
fn a_row_has_the_times_of_the_status_and_a_mark_if_its_begin_is_not_recorded() {
    let timeline = in_setup();
    let rows: Vec<_> = timeline
        .rows
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {:?}",
                row.label(),
                row.begin_is_taken,
                format_duration(row.begin, row.end.unwrap()),
                row.outcome
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            "Proposal true 1.00 s Done",
            "  0 jobdw foo true 1.00 s Done",
            "Setup false 2.50 s Done",
            "  0 jobdw foo false 2.00 s Done"
        ]
    );
    assert_eq!(timeline.extent(moment(9, 0)), Some((moment(0, 0), moment(4, 500_000))));
}

fn member(kind: &str, node: &str, mut metadata: Value, spec: Value, status: Value) -> Member {
    metadata["name"] = json!("o");
    metadata["namespace"] = json!(node);
    metadata["labels"] = json!({"nnf.cray.hpe.com/directive_index": "0"});
    let object = json!({"metadata": metadata, "spec": spec, "status": status});
    Member { kind: kind.to_owned(), object: serde_json::from_value(object).unwrap() }
}

/// Returns metadata with the times at which spec and status were written, as kube-apiserver records them.
fn tracked(created: u32, desired: u32, reported: u32) -> Value {
    let entry = |subresource: &str, seconds, fields| {
        json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
               "subresource": subresource, "time": at(seconds, 0), "fieldsV1": fields})
    };
    let spec = json!({"f:spec": {"f:desiredState": {}}});
    json!({"creationTimestamp": at(created, 0), "managedFields": [
        entry("", desired, spec), entry("status", reported, json!({"f:status": {}}))]})
}

fn mount(node: &str, metadata: Value, desired: &str, state: &str) -> Member {
    let mount = json!({"mountPath": "/m", "setPermissions": false, "options": "", "type": "xfs",
                     "targetType": "directory", "device": {"type": "lvm"}});
    let is_there = desired == state;
    let spec = json!({"node": node, "desiredState": desired, "mounts": [mount]});
    let status = json!({"allReady": is_there, "mounts": [{"state": state, "ready": is_there}]});
    member("ClientMount", node, metadata, spec, status)
}

fn storage(node: &str, metadata: Value) -> Member {
    let spec = json!({"count": 1, "sharedAllocation": false, "capacity": 1, "userID": 1, "groupID": 1,
        "fileSystemType": "xfs", "lustreStorage": {"lustreComponents": {}}, "blockReference": {}});
    member("NnfNodeStorage", node, metadata, spec, json!({"ready": true}))
}

fn node_rows(state: &str, others: Vec<Member>) -> Vec<String> {
    let done = [("Proposal", 1), ("Setup", 4), ("PreRun", 10), ("PostRun", 20)];
    let last = done.iter().position(|(name, _)| *name == state).unwrap();
    let drivers: Vec<Value> = done
        .iter()
        .enumerate()
        .map(|(place, (name, end))| driver(name, (place < last).then(|| at(*end, 0))))
        .collect();
    let mut objects = objects(json!({"state": state, "ready": false, "status": "DriverWait",
        "desiredStateChange": at(done[last - 1].1 + 1, 500_000), "drivers": drivers}));
    objects.others = others;
    let timeline = Timeline::from_objects(&objects).unwrap();
    let rows = timeline.rows.iter().filter(|row| matches!(row.subject, Subject::Node(..)));
    rows.map(|row| {
        let mark = if row.is_bound() { "≤ " } else { "" };
        let end = row.end.map_or_else(
            || "lasts".to_owned(),
            |end| format!("{mark}{}", format_duration(row.begin, end)),
        );
        format!("{}{} {end}", row.state, row.label())
    })
    .collect()
}

#[test]
fn times_of_nodes_come_from_managed_fields() {
    let others = vec![
        storage("r", tracked(2, 2, 3)),
        // The status was written again after PreRun had begun.
        storage("s", tracked(2, 2, 7)),
        mount("c1", tracked(5, 5, 8), "mounted", "mounted"),
        mount("c2", tracked(5, 5, 6), "mounted", "unmounted"),
    ];
    let rows = node_rows("PreRun", others);
    assert_eq!(
        rows,
        [
            "Setup  r make storage 0 1.00 s",
            "Setup  s make storage 0 ≤ 2.00 s",
            // This mount was created in the second in which PreRun was requested.
            "PreRun  c1 mount 0 2.50 s",
            "PreRun  c2 mount 0 lasts",
        ]
    );
    let others = vec![
        mount("c1", tracked(5, 12, 13), "unmounted", "unmounted"),
        mount("c2", tracked(5, 12, 8), "unmounted", "mounted"),
    ];
    assert_eq!(
        node_rows("PostRun", others),
        [
            "PreRun  c1 mount 0 ≤ 5.00 s",
            "PreRun  c2 mount 0 ≤ 5.00 s",
            "PostRun  c1 unmount 0 1.00 s",
            "PostRun  c2 unmount 0 lasts",
        ]
    );
}

#[test]
fn without_managed_fields_the_work_of_nodes_ends_with_their_directives_share() {
    let created = |second| json!({"creationTimestamp": at(second, 0)});
    let others = vec![
        storage("r", created(2)),
        mount("c1", created(6), "mounted", "mounted"),
        mount("c2", created(6), "mounted", "unmounted"),
    ];
    // Work that is done before its directive's share has no known end, and so no row.
    assert_eq!(
        node_rows("PreRun", others),
        ["Setup  r make storage 0 ≤ 2.00 s", "PreRun  c2 mount 0 lasts",]
    );
    let going = json!({"creationTimestamp": at(2, 0), "deletionTimestamp": at(30, 0)});
    assert_eq!(
        node_rows("PostRun", vec![storage("r", going)]),
        ["Setup  r make storage 0 ≤ 2.00 s", "Teardown  r remove storage 0 lasts",]
    );
}

#[test]
fn a_state_with_an_error_has_failed_and_a_directive_without_an_end_lasts() {
    let status = json!({"state": "Setup", "ready": false, "status": "Error", "desiredStateChange": at(2, 0),
        "drivers": [driver("Proposal", Some(at(1, 0))), driver("Setup", None)]});
    let timeline = Timeline::from_objects(&objects(status)).unwrap();
    let outcomes: Vec<_> = timeline.rows.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Done, Outcome::Failed, Outcome::Lasts]);
    assert_eq!(timeline.extent(moment(9, 0)).unwrap().1, moment(9, 0));
}

#[test]
fn a_chart_has_a_bar_for_each_row() {
    let chart = gantt(&in_setup(), moment(9, 0));
    let lines: Vec<&str> = chart.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0], format!("Proposal      │{}{}│ ≤ 1.00 s", "█".repeat(11), " ".repeat(37)));
    assert_eq!(lines[2], format!("Setup         │{}{}│   2.50 s", " ".repeat(21), "█".repeat(27)));
    assert!(lines[4].ends_with("4.50 s"), "{}", lines[4]);
}

#[test]
fn an_image_is_xml_with_a_bar_for_each_row() {
    let image = svg(&in_setup(), moment(9, 0));
    assert!(image.starts_with("<svg ") && image.ends_with("</svg>\n"), "{image}");
    assert!(image.contains("<title>w&lt;1&gt;</title>"), "{image}");
    assert_eq!(image.matches("rx=\"2\"").count(), 4);
    assert_eq!(image.matches("fill-opacity").count(), 2, "bars with an unrecorded begin are pale");
}

#[test]
fn without_rows_the_chart_is_empty_and_the_image_is_complete() {
    let nothing = Timeline { workflow: "w".to_owned(), rows: Vec::new() };
    assert_eq!(gantt(&nothing, moment(0, 0)), "");
    assert!(svg(&nothing, moment(0, 0)).ends_with("</svg>\n"));
}

#[test]
fn a_duration_is_shown_in_ms_or_from_one_second_on_in_s_with_two_decimals() {
    let format = |micros: i64| {
        format_duration(
            moment(0, 0),
            Timestamp::from_microsecond(moment(0, 0).as_microsecond() + micros).unwrap(),
        )
    };
    assert_eq!(
        [0, 1_250, 12_345, 1_234_567, 61_000_000].map(format),
        ["0.0 ms", "1.2 ms", "12 ms", "1.23 s", "61.00 s"]
    );
    assert_eq!(format_duration(moment(1, 0), moment(0, 0)), "0.0 ms");
}
