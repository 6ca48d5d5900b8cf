use serde_json::json;

use crate::standalone_coordinator::{StandaloneCoordinator, mount};

const OBJECT: &str = "clientmount/job";

fn set_status(here: &StandaloneCoordinator, status: &serde_json::Value) {
    use kube::api::{Api, DynamicObject, Patch, PatchParams};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kubeconfig = kube::config::Kubeconfig::read_from(here.path("kubeconfig")).unwrap();
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let resource = kube::api::ApiResource::erase::<api::ClientMount>(&());
        let mounts: Api<DynamicObject> = Api::namespaced_with(client, "compute-1", &resource);
        let patch = Patch::Merge(json!({"status": status}));
        mounts.patch_status("job", &PatchParams::default(), &patch).await.unwrap();
    });
}

#[test]
fn wait_ends_at_once_if_the_condition_holds_already() {
    let here = StandaloneCoordinator::with_mount();
    set_status(&here, &json!({"mounts": [{"state": "mounted", "ready": true}], "allReady": true}));
    let done = here.output(&["wait", OBJECT, "-n", "compute-1", "--for", "mounted"]);
    assert_eq!(done, "1 mounted\n");
    let done = here.json(&[
        "wait",
        "clientmount",
        "-A",
        "-l",
        "dataworkflowservices.github.io/workflow.name=wf",
        "--for",
        "ready",
        "--json",
    ]);
    assert_eq!(done, json!({"condition": "ready", "met": 1}));
    let gone = here.output(&["wait", "clientmount/other", "-n", "compute-1", "--for", "deleted"]);
    assert_eq!(gone, "0 deleted\n");
}

#[test]
fn the_longest_timeout_does_not_overflow() {
    let here = StandaloneCoordinator::with_mount();
    let eternity = format!("{}s", u64::MAX);
    let deleted = ["wait", "clientmount/other", "--for", "deleted", "--timeout", &eternity];
    assert_eq!(here.output(&deleted), "0 deleted\n");
}

#[test]
fn wait_ends_when_a_later_change_meets_the_condition() {
    let here = StandaloneCoordinator::with_mount();
    let waiting = std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| here.output(&["wait", OBJECT, "-n", "compute-1", "--for", "mounted"]));
        set_status(
            &here,
            &json!({"mounts": [{"state": "mounted", "ready": true}], "allReady": true}),
        );
        waiting.join().unwrap()
    });
    assert_eq!(waiting, "1 mounted\n");
}

#[test]
fn a_timeout_is_retryable_and_names_the_unmet_objects() {
    let here = StandaloneCoordinator::with_mount();
    let assert = here
        .warren(&["wait", OBJECT, "-n", "compute-1", "--for", "mounted", "--timeout", "3s"])
        .assert()
        .code(3);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("compute-1/job: no agent has taken it up"), "{text}");
    let assert = here
        .warren(&[
            "wait",
            "clientmount/none",
            "-n",
            "compute-1",
            "--for",
            "mounted",
            "--timeout",
            "3s",
        ])
        .assert()
        .code(3);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("clientmount/none: does not exist"), "{text}");
}

#[test]
fn a_fatal_error_ends_the_wait_early() {
    let here = StandaloneCoordinator::with_mount();
    let error = json!({"severity": "Fatal", "type": "User", "userMessage": "u", "debugMessage": "no profile pinned"});
    set_status(
        &here,
        &json!({"mounts": [{"state": "mounted", "ready": false}], "allReady": false, "error": error}),
    );
    let assert =
        here.warren(&["wait", OBJECT, "-n", "compute-1", "--for", "mounted"]).assert().code(4);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("compute-1/job: no profile pinned"), "{text}");
}

#[test]
fn the_timeout_of_a_wait_names_a_desired_state_that_contradicts_the_condition() {
    let here = StandaloneCoordinator::with_mount();
    let file = here.file("unmounted.yaml", &[mount("job", "unmounted")]);
    here.warren(&["apply", "-f", &file]).assert().success();
    let assert = here
        .warren(&["wait", OBJECT, "-n", "compute-1", "--for", "mounted", "--timeout", "3s"])
        .assert()
        .code(3);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("spec.desiredState is \"unmounted\""), "{text}");
    here.warren(&["wait", "clientmount", "-n", "compute-1", "--for", "mounted"]).assert().code(2);
}
