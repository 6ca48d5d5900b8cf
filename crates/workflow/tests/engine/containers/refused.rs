//! Container directives that Proposal refuses, and the messages that users then read.

use api::Severity;
use serde_json::{Value, json};
use workflow::{
    execute::Refusal,
    plan::plan_key,
    progress::Outcome,
    world::{Key, World},
};

use super::{lines, profile, site};
use crate::{job::directive, site::Site};

fn refusal_of(site: &mut Site, lines: &[String]) -> String {
    site.create("w", lines);
    site.settle();
    let (state, _, status, message) = site.status_of("w");
    assert_eq!((state.as_str(), status.as_str()), ("Proposal", "Error"), "{message}");
    assert!(site.names("Job").is_empty());
    site.remove("w");
    message
}

#[test]
fn containers_are_refused_when_they_are_switched_off() {
    let mut site = site();
    site.containers = None;
    let message = refusal_of(&mut site, &lines("gfs2"));
    assert!(
        message.contains(
            "DW Directive 1: User error: command container: this site runs no containers"
        ),
        "{message}"
    );
}

#[test]
fn mpi_without_a_podhelper_image_or_with_long_host_names_is_refused() {
    let mut without = site();
    without.containers.as_mut().unwrap().podhelper_image = None;
    let container = ["#DW container name=beside profile=app".to_owned()];
    super::mpi::with_profile(&mut without);
    let message = refusal_of(&mut without, &container);
    assert!(message.contains("start the coordinator with --podhelper-image"), "{message}");
    let mut site = site();
    super::mpi::with_profile(&mut site);
    let long = "w".repeat(55);
    site.create(&long, &container);
    site.settle();
    let message = site.status_of(&long).3;
    assert!(
        message.contains("-launcher has 64 characters, and at most 63 are possible"),
        "{message}"
    );
}

#[test]
fn containers_are_refused_outside_the_configured_namespace() {
    let mut site = site();
    site.containers.as_mut().unwrap().namespace = Some("jobs".to_owned());
    let message = refusal_of(&mut site, &lines("gfs2"));
    assert!(message.contains("in the Kubernetes namespace jobs only"), "{message}");
}

#[test]
fn a_directive_that_its_profile_does_not_admit_is_refused() {
    let container = |rest: &str| format!("#DW container name=beside {rest}");
    let cases = [
        (container("profile=none"), "no such NnfContainerProfile; write app"),
        (container("profile=app DW_JOB_data=other"), "no directive jobdw name=other"),
        (container("profile=app DW_JOB_more=scratch"), "profile app has no such storage"),
        (container("profile=app DW_JOB_data=small"), "unsupported container filesystem xfs"),
        (container("profile=app DW_PERSISTENT_kept=kept"), "no directive persistentdw name=kept"),
    ];
    for (line, part) in cases {
        let lines =
            [("gfs2", "scratch"), ("xfs", "small")].map(|(kind, name)| directive(kind, name));
        let message = refusal_of(&mut site(), &[&lines[..], &[line]].concat());
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn an_unsupported_profile_is_refused() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 6] = [
        (|data| data["userID"] = json!(7), "only for user 7, and the workflow's user is 1001"),
        (|data| data["groupID"] = json!(8), "only for group 8, and the workflow's group is 1002"),
        (
            |data| data["storages"][0] = json!({"name": "DW_JOB_need", "optional": false}),
            "argument DW_JOB_need is missing",
        ),
        (
            |data| data["spec"] = Value::Null,
            "argument profile=app: data has neither spec nor mpiSpec",
        ),
        (
            |data| data["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]),
            "is a hostPath",
        ),
        (|data| data["spec"]["automountServiceAccountToken"] = json!(true), "no token for the API"),
    ];
    for (edit, part) in cases {
        let mut site = site();
        let mut profile = profile();
        edit(&mut profile["data"]);
        site.put(profile);
        let container = "#DW container name=beside profile=app".to_owned();
        let message = refusal_of(&mut site, &[container]);
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn packages_are_refused_where_no_agent_fetches_them_and_invalid_packages_everywhere() {
    for on_kubernetes in [true, false] {
        for (url, part) in [
            ("ftp://server/data", "data.packages[0].url is \"ftp://server/data\""),
            ("http://server/data", "start the coordinator with --container-packages"),
        ] {
            let mut site = site();
            let containers = site.containers.as_mut().unwrap();
            containers.packages = false;
            if !on_kubernetes {
                containers.namespace = None;
            }
            let mut profile = profile();
            profile["data"]["packages"] =
                json!([{"name": "data", "url": url, "sha256": "0".repeat(64), "size": 1}]);
            site.put(profile);
            let container = ["#DW container name=beside profile=app".to_owned()];
            if on_kubernetes || url.starts_with("ftp") {
                let message = refusal_of(&mut site, &container);
                assert!(message.contains("argument profile=app"), "{message}");
                assert!(message.contains(part), "{message}");
            } else {
                site.create("w", &container);
                site.settle();
                assert!(site.is_ready("w", "Proposal"), "{:?}", site.status_of("w"));
            }
        }
    }
}

#[test]
fn a_workflow_name_that_no_service_can_have_is_refused() {
    let mut site = site();
    site.create("w.x", &lines("gfs2"));
    site.settle();
    assert!(
        site.status_of("w.x").3.contains("its Service gets the workflow's name"),
        "{:?}",
        site.status_of("w.x")
    );
}

#[test]
fn prerun_with_containers_fails_for_a_compute_without_a_rabbit() {
    let mut site = site();
    site.edit("SystemConfiguration", "default", "default", |object| {
        object["spec"]["externalComputeNodes"] = json!([{"name": "far"}]);
    });
    let container = "#DW container name=beside profile=app".to_owned();
    site.create("w", &[container]);
    site.settle();
    for state in ["Setup", "DataIn", "PreRun"] {
        site.request_state("w", state);
        site.settle();
    }
    assert!(
        site.status_of("w").3.contains("Computes names no compute"),
        "{:?}",
        site.status_of("w")
    );
    site.fill_computes("w", &["far"]);
    site.settle();
    assert!(
        site.status_of("w").3.contains("Computes names far, which no rabbit serves"),
        "{:?}",
        site.status_of("w")
    );
    site.fill_computes("w", &["c1"]);
    site.settle();
    assert_eq!(site.names("Job"), ["default/w-r"]);
}

/// A name is taken, or a right or a quota is missing: the API refuses the change each time until an administrator acts.
#[test]
fn a_repeated_refusal_of_the_api_is_in_the_status() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "DataIn");
    site.request_state("w", "PreRun");
    while !site.plan_all().iter().any(|change| change.to_string().starts_with("create Job")) {
        assert!(site.step(|all| (0..all).collect()), "no Job is ever planned");
    }
    let key = Key::Workflow(("default".to_owned(), "w".to_owned()));
    let refusals = || {
        let text = r#"create Job default/w-r: jobs.batch "w-r" already exists"#.to_owned();
        vec![Refusal { text, is_final: false }]
    };
    let mut world = site.world();
    let outcome = |world: &World| plan_key(world, &key, site.now()).outcomes.pop();
    assert!(world.set_refused(&key, refusals()), "the refusal is new");
    assert_eq!(
        outcome(&world),
        Some(Outcome::Working),
        "after the first refusal the engine plans again, because its watch may deliver the object"
    );
    assert!(!world.set_refused(&key, refusals()), "the refusal is known");
    let Some(Outcome::Failed(error)) = outcome(&world) else { panic!("{:?}", outcome(&world)) };
    assert_eq!(error.severity, Severity::Major, "an administrator may remove the cause");
    let message = error.user_message.unwrap();
    assert!(message.starts_with("create Job default/w-r: ") && message.ends_with("tries again"));
    world.set_refused(&key, Vec::new());
    assert_eq!(outcome(&world), Some(Outcome::Working));
    // An object that breaks a rule of the API stays refused.
    let invalid =
        || vec![Refusal { text: "create Job default/w-r: invalid".to_owned(), is_final: true }];
    world.set_refused(&key, invalid());
    world.set_refused(&key, invalid());
    let Some(Outcome::Failed(error)) = outcome(&world) else { panic!("{:?}", outcome(&world)) };
    assert_eq!(error.severity, Severity::Fatal);
    assert_eq!(error.user_message.as_deref(), Some("create Job default/w-r: invalid"));
}
