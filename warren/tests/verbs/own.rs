//! Users without rights see only their own objects through the socket of the service `Workloads`.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::standalone_coordinator::StandaloneCoordinator;

const DWS: &str = "dataworkflowservices.github.io";

fn workflow(name: &str, user: u32) -> Value {
    json!({
        "apiVersion": format!("{DWS}/v1alpha7"), "kind": "Workflow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"desiredState": "Proposal", "wlmID": "w", "jobID": name, "userID": user, "groupID": user,
            "dwDirectives": ["#DW jobdw type=xfs capacity=1GiB name=scratch"]},
    })
}

fn kept(name: &str, user: u32, consumers: &[&str]) -> Value {
    let consumer = |name: &&str| json!({"kind": "Workflow", "name": name, "namespace": "default"});
    json!({
        "apiVersion": format!("{DWS}/v1alpha7"), "kind": "PersistentStorageInstance",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"name": name, "fsType": "xfs", "dwDirective": "#DW create_persistent", "userID": user,
            "state": "Active", "consumerReferences": consumers.iter().map(consumer).collect::<Vec<_>>()},
    })
}

fn movement(workflow: &str, uid: &str) -> Value {
    let label = |name: &str| format!("{DWS}/workflow.{name}");
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfDataMovement",
        "metadata": {"name": format!("{workflow}-0-0"), "namespace": "rabbit-1", "labels": {
            label("name"): workflow, label("namespace"): "default", label("uid"): uid}},
        "spec": {"userId": 1, "groupId": 1},
    })
}

/// Starts a coordinator with objects of the users 1001 and 1002, and a copy of the command that they may run.
fn with_users() -> StandaloneCoordinator {
    let here = StandaloneCoordinator::start();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rabbit-1"}});
    let objects = [
        namespace,
        workflow("mine", 1001),
        workflow("theirs", 1002),
        kept("kept", 1001, &["mine-0", "theirs-0"]),
        kept("foreign", 1002, &[]),
        kept("unused", 1001, &[]),
    ];
    here.output(&["apply", "-f", &here.file("users.yaml", &objects)]);
    let uid = |name: &str| {
        let workflow = here.json(&["get", "workflow", name, "--json"]);
        workflow["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let movements = [movement("mine", &uid("mine")), movement("theirs", &uid("theirs"))];
    here.output(&["apply", "-f", &here.file("movements.yaml", &movements)]);
    set_permissions(here.path(""), Permissions::from_mode(0o755)).unwrap();
    // Another process copies the program: see outsider.rs.
    let program = env!("CARGO_BIN_EXE_warren");
    Command::new("cp").arg(program).arg(here.path("warren")).assert().success();
    here
}

/// Runs the command as a user, by the socket for users.
fn run_as(here: &StandaloneCoordinator, user: &str, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    command.arg(here.path("warren")).args(arguments).env_remove("WARREN_KUBECONFIG");
    command.env("WARREN_API", format!("workloads://{}", here.path("workloads.sock").display()));
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn users_see_their_own_objects_and_nothing_of_others() {
    if !gate::root() {
        return;
    }
    let here = with_users();
    for verb in [
        &["workflow", "show"][..],
        &["persistent", "list"],
        &["movements"],
        &["get", "workflows", "-A"],
        &["workflow", "show", "--json"],
    ] {
        let (shown, stderr) = run_as(&here, "1001", verb);
        assert!(shown.contains("mine") || shown.contains("kept"), "{verb:?}: {shown} {stderr}");
        assert!(!shown.contains("theirs") && !shown.contains("foreign"), "{verb:?}: {shown}");
        let (shown, _) = run_as(&here, "1003", verb);
        assert!(!shown.contains("mine") && !shown.contains("kept"), "{verb:?}: {shown}");
    }
    let (page, stderr) = run_as(&here, "1001", &["workflow", "show", "mine"]);
    assert!(page.contains("user 1001 group 1001"), "{page} {stderr}");
    let (list, stderr) = run_as(&here, "1001", &["persistent", "list"]);
    assert!(list.contains("kept") && list.contains("unused") && stderr.is_empty(), "{stderr}");
    let (page, stderr) = run_as(&here, "1001", &["persistent", "show", "kept"]);
    assert!(page.contains("used by    mine-0, of-another-user"), "{page} {stderr}");
}

#[test]
fn the_name_of_another_users_object_and_an_unknown_name_give_the_same_error() {
    if !gate::root() {
        return;
    }
    let here = with_users();
    for verb in ["workflow", "persistent"] {
        let refusal = |name: &str| {
            let (shown, stderr) = run_as(&here, "1001", &[verb, "show", name]);
            assert_eq!(shown, "");
            assert!(stderr.contains(name), "{stderr}");
            stderr.replace(name, "NAME")
        };
        let others = if verb == "workflow" { "theirs" } else { "foreign" };
        assert_eq!(refusal(others), refusal("unknown"), "{verb}");
    }
}

#[test]
fn the_socket_for_users_changes_nothing() {
    if !gate::root() {
        return;
    }
    let here = with_users();
    for verb in [&["workflow", "teardown", "mine"][..], &["delete", "workflow", "mine"]] {
        let (_, stderr) = run_as(&here, "1001", verb);
        assert!(stderr.contains("shows your own objects as they are now"), "{verb:?}: {stderr}");
        let workflow = here.json(&["get", "workflow", "mine", "--json"]);
        assert_eq!(workflow["spec"]["desiredState"], "Proposal", "{verb:?}");
    }
}
