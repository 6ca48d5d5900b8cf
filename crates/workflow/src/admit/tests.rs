//! Tables of admitted and refused changes of Workflows.

use api::DWDirectiveRule;
use controller::{Event, Item};
use serde_json::json;

use super::*;
use crate::{Settings, profile::ruleset, shipped, world::World};

/// Returns a new Workflow, as a workload manager creates it.
fn new_workflow() -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"desiredState": "Proposal", "wlmID": "w", "jobID": 7, "userID": 1, "groupID": 1, "hurry": false,
            "forceReady": false, "dwDirectives": ["#DW jobdw type=xfs capacity=1GiB name=scratch"]},
    })
}

/// Returns a Workflow that is ready in Setup.
fn in_setup() -> Value {
    let driver = |state: &str, completed: bool| {
        let status = if completed { "Completed" } else { "Pending" };
        json!({"driverID": "nnf", "taskID": "", "dwdIndex": 0, "watchState": state, "lastHB": 0,
            "completed": completed, "status": status})
    };
    let drivers = [driver("Proposal", true), driver("Setup", true), driver("PreRun", false)];
    let status =
        json!({"state": "Setup", "ready": true, "status": "Completed", "drivers": drivers});
    edited(&new_workflow(), &json!({"spec": {"desiredState": "Setup"}, "status": status}))
}

fn edited(workflow: &Value, patch: &Value) -> Value {
    let mut new = workflow.clone();
    json_patch::merge(&mut new, patch);
    new
}

/// Returns the Workflow with another value in a field of one of its driver entries.
fn with_driver(workflow: &Value, index: usize, field: &str, value: Value) -> Value {
    let mut new = workflow.clone();
    new["status"]["drivers"][index][field] = value;
    new
}

fn assert_refused(old: Option<&Value>, new: &Value, rules: Option<&Ruleset>, words: &str) {
    let why = admit(old, new, rules).unwrap_err();
    assert!(why.contains(words), "{words}: {why}");
}

#[test]
fn states_follow_their_order_and_fields_of_the_job_are_immutable() {
    let old = in_setup();
    let spec = |patch: Value| edited(&old, &json!({"spec": patch}));
    for patch in [
        json!({"desiredState": "DataIn"}),
        json!({"desiredState": "Teardown"}),
        json!({"desiredState": "Teardown", "hurry": true}),
        json!({"forceReady": true}),
    ] {
        assert_eq!(admit(Some(&old), &spec(patch.clone()), None), Ok(()), "{patch}");
    }
    for (patch, words) in [
        (json!({"desiredState": "PreRun"}), "after Setup comes DataIn"),
        (json!({"desiredState": "Proposal"}), "after Setup comes DataIn"),
        (json!({"hurry": true}), "spec.hurry"),
        (json!({"userID": 0}), "spec.userID is immutable"),
        (json!({"jobID": "8"}), "spec.jobID is immutable"),
        (json!({"dwDirectives": []}), "spec.dwDirectives is immutable"),
    ] {
        assert_refused(Some(&old), &spec(patch), None, words);
    }
    let over = spec(json!({"desiredState": "Teardown"}));
    assert_refused(Some(&over), &new_workflow(), None, "nothing follows Teardown");
    // The engine has not seen the request for DataIn yet: `status.ready` still describes Setup.
    let (asked, next) =
        (spec(json!({"desiredState": "DataIn"})), spec(json!({"desiredState": "PreRun"})));
    assert_refused(Some(&asked), &next, None, "DataIn is not ready");
}

#[test]
fn driver_entries_change_only_in_their_state_and_none_is_added_or_removed() {
    let old = in_setup();
    for (index, field, value, words) in [
        (0, "completed", json!(false), "it may change in that state only"),
        (1, "completed", json!(false), "it cannot be changed back"),
        (1, "status", json!("Error"), "must be Completed"),
        (0, "watchState", json!("DataIn"), "in that state only"),
    ] {
        assert_refused(Some(&old), &with_driver(&old, index, field, value), None, words);
    }
    let drivers = old["status"]["drivers"].as_array().unwrap();
    for drivers in [Vec::new(), [&drivers[..1], drivers].concat()] {
        let new = edited(&old, &json!({"status": {"drivers": drivers}}));
        assert_refused(Some(&old), &new, None, "no entry may be added or removed");
    }
}

/// If admission refused a stored value, the finalizers of the object with this value could not be removed.
#[test]
fn stored_fields_are_not_checked_again() {
    let (stored, rules) = (in_setup(), ruleset([&shipped::rules()]));
    let unreadable = edited(&stored, &json!({"spec": {"userID": "root"}}));
    assert_eq!(admit(Some(&unreadable), &stored, None), Ok(()), "the object may be corrected");
    for old in [
        edited(&stored, &json!({"spec": {"hurry": true}})),
        edited(&stored, &json!({"spec": {"dwDirectives": ["#DW nonsense"]}})),
        with_driver(&stored, 0, "status", json!("Error")),
        with_driver(&stored, 0, "error", json!("why")),
    ] {
        let new = edited(&old, &json!({"metadata": {"finalizers": []}}));
        assert_eq!(admit(Some(&old), &new, Some(&rules)), Ok(()), "{old}");
    }
}

/// A coordinator that has just started gets requests before it knows the rules.
#[test]
fn directives_are_checked_only_after_the_rules_were_listed() {
    let check = |world: &World| admit(None, &new_workflow(), world.rules().map(|rules| &**rules));
    let mut world = World::new(Settings::default());
    world.take::<Workflow>(Event::Listed(Vec::new()));
    assert_eq!(check(&world), Ok(()), "only another kind was listed");
    world.take::<DWDirectiveRule>(Event::Listed(Vec::new()));
    assert!(check(&world).unwrap_err().contains("no DWDirectiveRule"), "there are no rules");
    let rules: Item<DWDirectiveRule> = Ok(shipped::rules());
    world.take(Event::Listed(vec![rules]));
    assert_eq!(check(&world), Ok(()));
}

#[test]
fn a_new_workflow_begins_in_proposal_with_known_directives_and_no_status() {
    let rules = ruleset([&shipped::rules()]);
    assert_eq!(admit(None, &new_workflow(), Some(&rules)), Ok(()));
    for (patch, words) in [
        (json!({"spec": {"dwDirectives": ["#DW"]}}), "no command follows #DW"),
        (
            json!({"spec": {"dwDirectives": ["#DW jobdw type=ext4 capacity=1GiB name=scratch"]}}),
            "type=ext4",
        ),
        (json!({"spec": {"desiredState": "Setup"}}), "created in Proposal"),
        (json!({"spec": {"hurry": true}}), "spec.hurry"),
        (json!({"status": {"state": "Proposal", "ready": true}}), "status.state"),
    ] {
        assert_refused(None, &edited(&new_workflow(), &patch), Some(&rules), words);
    }
}

#[test]
fn names_too_long_for_labels_are_refused_with_field_length_and_remedy() {
    let long = "w".repeat(62);
    for (name, job, words) in [
        (&*long, json!(7), "metadata.name has 62 characters: write at most 61"),
        ("w", json!("-7"), "spec.jobID is \"-7\", of 2 characters"),
        ("w", json!("7/8"), "spec.jobID is \"7/8\""),
        ("w", json!("7".repeat(64)), "of 64 characters: write at most 63"),
    ] {
        let patch = json!({"metadata": {"name": name}, "spec": {"jobID": job}});
        assert_refused(None, &edited(&new_workflow(), &patch), None, words);
    }
}

#[test]
fn a_job_id_of_64_bits_is_kept_exactly() {
    let with_id = |id: u64| edited(&in_setup(), &json!({"spec": {"jobID": id}}));
    let (old, new) = (with_id(501_360_523_054_545_920), with_id(501_360_523_054_545_921));
    assert_refused(Some(&old), &new, None, "spec.jobID is immutable");
    assert_eq!(admit(Some(&old), &old, None), Ok(()));
}

#[test]
fn presets_are_expanded_at_the_creation_and_only_the_expansion_may_replace_them() {
    let limits = crate::limits::parse("presets: {small: type=xfs capacity=1GiB}", "/l", &|_| None);
    let rules = Ruleset::new(directive::shipped()).with_presets(limits.unwrap().presets);
    let with = |line: &str| edited(&new_workflow(), &json!({"spec": {"dwDirectives": [line]}}));
    let (short, full) = (
        with("#DW jobdw preset=small name=scratch"),
        with("#DW jobdw type=xfs capacity=1GiB name=scratch"),
    );
    let completed = complete(&short, Some(&rules), Timestamp::now()).unwrap();
    assert_eq!(completed["spec"], full["spec"]);
    assert_eq!(admit(None, &completed, Some(&rules)), Ok(()));
    // A cluster's webhook cannot complete: the engine expands the stored Workflow.
    assert_eq!(admit(None, &short, Some(&rules)), Ok(()));
    assert_eq!(admit(Some(&short), &full, Some(&rules)), Ok(()));
    assert_refused(Some(&full), &short, Some(&rules), "spec.dwDirectives is immutable");
    let other = with("#DW jobdw type=xfs capacity=2GiB name=scratch");
    assert_refused(Some(&short), &other, Some(&rules), "spec.dwDirectives is immutable");
    let unknown = with("#DW jobdw preset=big name=scratch");
    assert_refused(None, &unknown, Some(&rules), "write one of small");
}
