//! Refusals and their messages: of directives in Proposal, of placements in Setup, of changes by admission.

use api::{DWDirectiveRule, Workflow};
use controller::{Event, Item};
use serde_json::{Value, json};
use workflow::{Settings, admit, profile::ruleset, shipped, world::World};

use crate::{
    job::{GIB, directive},
    site::Site,
};

/// A change that a test makes to an object.
type Edit = dyn Fn(&mut Value);

#[test]
fn admission_checks_the_order_of_states() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "Setup", &["c1"]);
    let old = site.workflow("w").clone();
    let changed = |edit: &Edit| {
        let mut new = old.clone();
        edit(&mut new);
        admit(Some(&old), &new, None)
    };
    let admitted: [&Edit; 4] = [
        &|new| new["spec"]["desiredState"] = json!("DataIn"),
        &|new| new["spec"]["desiredState"] = json!("Teardown"),
        &|new| {
            new["spec"]["desiredState"] = json!("Teardown");
            new["spec"]["hurry"] = json!(true);
        },
        &|new| new["spec"]["forceReady"] = json!(true),
    ];
    for edit in admitted {
        assert_eq!(changed(edit), Ok(()));
    }
    let refused: [(&Edit, &str); 9] = [
        (&|new| new["spec"]["desiredState"] = json!("PreRun"), "after Setup comes DataIn"),
        (&|new| new["spec"]["desiredState"] = json!("Proposal"), "after Setup comes DataIn"),
        (&|new| new["spec"]["hurry"] = json!(true), "spec.hurry"),
        (&|new| new["spec"]["userID"] = json!(0), "spec.userID is immutable"),
        (&|new| new["spec"]["jobID"] = json!("8"), "spec.jobID is immutable"),
        (&|new| new["spec"]["dwDirectives"] = json!([]), "spec.dwDirectives is immutable"),
        (
            &|new| new["status"]["drivers"][0]["completed"] = json!(false),
            "it may change in that state only",
        ),
        (
            &|new| new["status"]["drivers"][1]["completed"] = json!(false),
            "it cannot be changed back",
        ),
        (&|new| new["status"]["drivers"][1]["status"] = json!("Error"), "must be Completed"),
    ];
    for (edit, part) in refused {
        let why = changed(edit).unwrap_err();
        assert!(why.contains(part), "{part}: {why}");
    }
    // The client has requested DataIn, and the engine has not seen the request yet: `status.ready` still describes
    // Setup.
    let (mut asked, mut next) = (old.clone(), old.clone());
    asked["spec"]["desiredState"] = json!("DataIn");
    next["spec"]["desiredState"] = json!("PreRun");
    assert!(admit(Some(&asked), &next, None).unwrap_err().contains("DataIn is not ready"));
}

/// If admission refused a stored value, the finalizers of the object with this value could not be removed.
#[test]
fn admission_does_not_check_stored_fields_again() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "Setup", &["c1"]);
    let stored = site.workflow("w").clone();
    let mut unreadable = stored.clone();
    unreadable["spec"]["userID"] = json!("root");
    assert_eq!(admit(Some(&unreadable), &stored, None), Ok(()), "the object may be corrected");
    let wrong: [&Edit; 4] = [
        &|old| old["spec"]["hurry"] = json!(true),
        &|old| old["spec"]["dwDirectives"] = json!(["#DW nonsense"]),
        &|old| old["status"]["drivers"][0]["status"] = json!("Error"),
        &|old| old["status"]["drivers"][0]["error"] = json!("why"),
    ];
    let rules = ruleset([&shipped::rules()]);
    for edit in wrong {
        let mut old = stored.clone();
        edit(&mut old);
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!([]);
        assert_eq!(admit(Some(&old), &new, Some(&rules)), Ok(()), "{old}");
    }
}

/// A coordinator that has just started gets requests before it knows the rules.
#[test]
fn admission_checks_directives_only_after_the_rules_were_listed() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &[directive("xfs", "scratch")]);
    let new = site.workflow("w").clone();
    let check = |world: &World| admit(None, &new, world.rules().map(|rules| &**rules));
    let mut world = World::new(Settings::default());
    world.take::<Workflow>(Event::Listed(Vec::new()));
    assert_eq!(check(&world), Ok(()), "only another kind was listed");
    world.take::<DWDirectiveRule>(Event::Listed(Vec::new()));
    assert!(
        check(&world).unwrap_err().contains("no DWDirectiveRule"),
        "the rules were listed, and there are none"
    );
    let rules: Item<DWDirectiveRule> = Ok(shipped::rules());
    world.take(Event::Listed(vec![rules]));
    assert_eq!(check(&world), Ok(()));
}

#[test]
fn admission_protects_driver_entries_and_teardown() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "Setup", &["c1"]);
    let old = site.workflow("w").clone();
    let refused: [(&Edit, &str); 3] = [
        (&|new| new["status"]["drivers"] = json!([]), "no entry may be added or removed"),
        (
            &|new| {
                let share = new["status"]["drivers"][0].clone();
                new["status"]["drivers"].as_array_mut().unwrap().push(share);
            },
            "no entry",
        ),
        (&|new| new["status"]["drivers"][0]["watchState"] = json!("DataIn"), "in that state only"),
    ];
    for (edit, part) in refused {
        let mut new = old.clone();
        edit(&mut new);
        let why = admit(Some(&old), &new, None).unwrap_err();
        assert!(why.contains(part), "{part}: {why}");
    }
    let (mut over, mut again) = (old.clone(), old);
    over["spec"]["desiredState"] = json!("Teardown");
    again["spec"]["desiredState"] = json!("Proposal");
    assert!(admit(Some(&over), &again, None).unwrap_err().contains("nothing follows Teardown"));
}

#[test]
fn admission_checks_the_directives_of_a_new_workflow() {
    let rules = ruleset([&shipped::rules()]);
    let create = |edit: &Edit| {
        let mut new = json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"desiredState": "Proposal", "wlmID": "w", "jobID": 7, "userID": 1, "groupID": 1,
                     "dwDirectives": [directive("xfs", "scratch")]},
        });
        edit(&mut new);
        admit(None, &new, Some(&rules))
    };
    assert_eq!(create(&|_| ()), Ok(()));
    let refused: [(&Edit, &str); 5] = [
        (&|new| new["spec"]["dwDirectives"] = json!(["#DW"]), "no command follows #DW"),
        (
            &|new| {
                new["spec"]["dwDirectives"] =
                    json!(["#DW jobdw type=ext4 capacity=1GiB name=scratch"]);
            },
            "type=ext4",
        ),
        (&|new| new["spec"]["desiredState"] = json!("Setup"), "created in Proposal"),
        (&|new| new["spec"]["hurry"] = json!(true), "spec.hurry"),
        (&|new| new["status"] = json!({"state": "Proposal", "ready": true}), "status.state"),
    ];
    for (edit, part) in refused {
        let why = create(edit).unwrap_err();
        assert!(why.contains(part), "{part}: {why}");
    }
}

/// Workload managers pass the variables of a workflow's status on to the job, and send requests with the references
/// and the token of the status.
#[test]
fn status_fields_that_a_client_wrote_are_corrected() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "Setup", &["c1"]);
    let before = site.workflow("w").clone();
    site.edit("Workflow", "default", "w", |object| {
        let status = &mut object["status"];
        status["env"]["LD_PRELOAD"] = json!("/tmp/evil.so");
        status["env"]["DW_JOB_scratch"] = json!("/etc");
        status["env"]["DW_WORKFLOW_NAME"] = json!("other");
        status["computes"]["name"] = json!("other");
        status["directiveBreakdowns"][0]["name"] = json!("other-0");
        status["workflowToken"] = json!({"secretName": "root", "secretNamespace": "kube-system"});
        status["requires"] = json!(["copy-offload"]);
    });
    site.settle();
    assert_eq!(site.workflow("w")["status"], before["status"]);
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
}

#[test]
fn names_too_long_for_labels_are_refused_with_field_length_and_remedy() {
    let long = "w".repeat(62);
    let cases = [
        (long.as_str(), json!(7), "metadata.name has 62 characters: write at most 61"),
        ("w", json!("-7"), "spec.jobID is \"-7\", of 2 characters"),
        ("w", json!("7/8"), "spec.jobID is \"7/8\""),
        ("w", json!("7".repeat(64)), "of 64 characters: write at most 63"),
    ];
    for (name, job, words) in cases {
        let new = json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"desiredState": "Proposal", "wlmID": "w", "jobID": job, "userID": 1, "groupID": 1,
                     "dwDirectives": [directive("xfs", "scratch")]},
        });
        let why = admit(None, &new, None).unwrap_err();
        assert!(why.contains(words), "{name} {job}: {why}");
        // Without an admission webhook, Proposal reports the same error.
        let mut site = Site::new(1, 100 * GIB);
        site.put(new);
        site.settle();
        let (_, _, status, message) = site.status_of(name);
        assert!(status == "Error" && message.contains(words), "{status} {message}");
    }
}

#[test]
fn a_job_id_of_64_bits_is_kept_exactly() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &[directive("xfs", "scratch")]);
    site.edit("Workflow", "default", "w", |object| {
        object["spec"]["jobID"] = json!(501_360_523_054_545_920_u64);
    });
    site.settle();
    assert!(site.is_ready("w", "Proposal"), "{:?}", site.status_of("w"));
    let mut changed = site.workflow("w").clone();
    changed["spec"]["jobID"] = json!(501_360_523_054_545_921_u64);
    let why = admit(Some(site.workflow("w")), &changed, None).unwrap_err();
    assert!(why.contains("spec.jobID is immutable"), "{why}");
}

/// Persistent storage may have the name that the storage of a later job will have.
#[test]
fn persistent_storage_named_like_a_jobs_storage_blocks_no_job() {
    let mut site = Site::new(1, 100 * GIB);
    let create = "#DW create_persistent type=xfs capacity=1GiB name=wlm-7777-0".to_owned();
    site.bring("maker", &[create], "Teardown", &["c1"]);
    site.bring("wlm-7777", &[directive("xfs", "scratch")], "PreRun", &["c1"]);
    let uses = "#DW persistentdw name=wlm-7777-0".to_owned();
    site.bring("user", &[uses], "PreRun", &["c1"]);
    assert!(site.names("Servers").contains(&"default/wlm-7777-0.persistent".to_owned()));
}
