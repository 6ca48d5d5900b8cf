use serde_json::{from_value, json};

use super::*;

fn object(value: Value) -> DynamicObject {
    from_value(value).unwrap()
}

fn workflow(name: &str, user: i64, manager: &str) -> DynamicObject {
    object(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"a": "b"}},
        "spec": {"userID": user, "wlmID": manager},
    }))
}

/// Returns what user 7 may see, all of it or only that of some workload managers.
fn own(only: Option<&[&str]>) -> Own {
    let consumer = |name: &str| json!({"name": name, "namespace": "default"});
    let kept = json!({
        "metadata": {"name": "kept", "namespace": "default", "uid": "kept"},
        "spec": {"userID": 7, "consumerReferences": [consumer("mine-0"), consumer("theirs-0")]},
    });
    let theirs = json!({"metadata": {"name": "other", "uid": "other"}, "spec": {"userID": 8}});
    let unreadable = json!({"metadata": {"name": "odd", "uid": "odd"}, "spec": {"userID": "7"}});
    let all = Own {
        workflows: vec![
            workflow("mine", 7, "slurm"),
            workflow("also-mine", 7, "user-7"),
            workflow("theirs", 8, "slurm"),
            object(unreadable),
        ],
        instances: vec![object(kept), object(theirs)],
    };
    let only = only.map(|only| only.iter().map(|&name| name.to_owned()).collect());
    all.of(&Sight { user: 7, only })
}

fn names(objects: &[DynamicObject]) -> Vec<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

#[test]
fn a_user_sees_their_own_objects_and_a_manager_those_of_its_jobs() {
    assert_eq!(names(&own(None).workflows), ["mine", "also-mine"]);
    assert_eq!(names(&own(None).instances), ["kept"]);
    assert_eq!(names(&own(Some(&["slurm"])).workflows), ["mine"]);
}

#[test]
fn objects_belong_to_the_workflow_that_their_label_or_else_their_owner_names() {
    let labelled = |uid: &str, owner: &str| {
        object(json!({"metadata": {"name": "x", "labels": {label::WORKFLOW_UID: uid},
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner}]}}))
    };
    let owned = |owner: &str| {
        object(json!({"metadata": {"name": "x",
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner}]}}))
    };
    let own = own(None);
    for (object, expected) in [
        (labelled("mine", "theirs"), true),
        (labelled("theirs", "mine"), false),
        (labelled("theirs", "kept"), false),
        (owned("mine"), true),
        (owned("kept"), true),
        (owned("theirs"), false),
        (owned("odd"), false),
        (object(json!({"metadata": {"name": "mine"}})), false),
    ] {
        assert_eq!(own.has(&object), expected, "{object:?}");
    }
}

#[test]
fn persistent_storage_hides_the_names_of_other_users_workflows() {
    let instances = own(None).visible_instances("");
    let consumers = instances[0].data["spec"]["consumerReferences"].as_array().unwrap();
    let names: Vec<_> = consumers.iter().map(|consumer| consumer["name"].clone()).collect();
    assert_eq!(names, ["mine-0", OTHER]);
}

#[test]
fn labels_select_objects() {
    let own = own(None);
    assert_eq!(select(&own.workflows, "a=b").len(), 2);
    assert_eq!(select(&own.workflows, "a=b,c=d").len(), 0);
}

#[test]
fn an_unknown_kind_is_refused_with_the_known_ones() {
    let refused = find_kind("Secret").unwrap_err();
    assert!(refused.message().contains("argument kind: \"Secret\": write one of Workflow, "));
}
