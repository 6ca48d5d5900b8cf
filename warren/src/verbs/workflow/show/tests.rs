use super::*;
use workload::Member;

fn workflow() -> Workflow {
    serde_json::from_value(json!({
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"desiredState": "DataIn", "wlmID": "flux", "jobID": "f2Dd", "userID": 7, "groupID": 8,
                 "dwDirectives": ["#DW jobdw type=xfs capacity=1GiB name=foo"]},
        "status": {"state": "Setup", "ready": true, "status": "Completed", "elapsedTimeLastState": "212ms",
                   "desiredStateChange": "2026-11-24T12:00:00.000000Z", "readyChange": "2026-11-24T12:00:30.000000Z",
                   "env": {"DW_JOB_foo": "/mnt/nnf/u-0"}},
    }))
    .unwrap()
}

fn member(kind: &str, mut object: Value) -> Member {
    object["apiVersion"] = json!("dataworkflowservices.github.io/v1alpha7");
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "w-0", "namespace": "default", "labels": {"nnf.cray.hpe.com/directive_index": "0"}});
    Member { kind: kind.to_owned(), object: serde_json::from_value(object).unwrap() }
}

#[test]
fn show_prints_each_directive_with_its_capacity_and_its_rabbits() {
    let set = json!({"allocationStrategy": "AllocatePerCompute", "minimumCapacity": 1 << 30, "label": "xfs", "constraints": {}});
    let breakdown = json!({"spec": {"directive": "", "userID": 7},
        "status": {"ready": true, "storage": {"lifetime": "job", "allocationSets": [set]}}});
    let storage =
        json!([{"name": "r1", "allocationCount": 2}, {"name": "r2", "allocationCount": 1}]);
    let servers = json!({"spec": {"allocationSets": [{"label": "xfs", "allocationSize": 2_i64 << 30, "storage": storage}]}});
    let others = vec![member("DirectiveBreakdown", breakdown), member("Servers", servers)];
    let objects = Objects { workflow: Some(workflow()), others };
    let now = "2026-11-24T12:01:00Z".parse().unwrap();
    assert_eq!(
        page(&workflow(), &objects, now),
        "workflow  w\n\
         job       f2Dd of flux, user 7 group 8\n\
         state     Setup, ready after 212ms\n\
         wanted    DataIn\n\
         directives\n\
         \x20 0  #DW jobdw type=xfs capacity=1GiB name=foo\n\
         \x20    needs xfs AllocatePerCompute of 1.0 GiB\n\
         \x20    has   xfs of 2.0 GiB each on r1×2 r2×1\n\
         environment\n\
         \x20 DW_JOB_foo=/mnt/nnf/u-0\n"
    );
}

#[test]
fn the_row_of_a_workflow_shows_the_age_of_its_state() {
    let now = "2026-11-24T12:01:00Z".parse().unwrap();
    assert_eq!(row(&workflow(), now), ["w", "f2Dd", "7", "Setup", "yes", "30s", ""]);
}
