use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::centre::Centre;
use crate::standalone_coordinator::{StandaloneCoordinator, configuration};

const DIRECTIVE: &str = "#DW jobdw type=xfs capacity=1GiB name=foo";

/// Starts a coordinator with two computes and the stand-in of an engine.
fn site() -> (StandaloneCoordinator, Centre) {
    let here = StandaloneCoordinator::start();
    let file = here.file("system.yaml", &[configuration()]);
    here.warren(&["apply", "-f", &file]).assert().success();
    let centre = Centre::start(&here);
    (here, centre)
}

fn workflows(here: &StandaloneCoordinator) -> usize {
    here.json(&["workflow", "show", "--json"]).as_array().unwrap().len()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

#[test]
fn run_makes_storage_and_runs_the_command_and_removes_the_storage() {
    let (here, _centre) = site();
    let image = here.path("timeline.svg");
    let image = image.display().to_string();
    let assert = here
        .warren(&[
            "run",
            DIRECTIVE,
            "--nodes",
            "compute-[1-2]",
            "--name",
            "job",
            "--timeline",
            "--svg",
            &image,
            "--",
        ])
        .args(["sh", "-c", "echo $DW_JOB_foo on $WARREN_NODES; exit 42"])
        .assert()
        .code(42)
        .stdout("/mnt/nnf/u-0 on compute-[1-2]\n");
    let text = stderr(&assert);
    for state in ["Proposal", "Setup", "DataIn", "PreRun", "PostRun", "DataOut"] {
        assert!(text.contains(&format!("job: {state} after 1ms")), "{text}");
    }
    assert!(text.contains("job: removed") && text.contains('█'), "{text}");
    assert_eq!(workflows(&here), 0);
    assert!(std::fs::read_to_string(image).unwrap().contains("<title>job</title>"));
    here.warren(&["get", "servers", "job-0"]).assert().failure();
}

#[test]
fn a_launcher_line_with_node_starts_the_command_once_for_each_node() {
    let (here, _centre) = site();
    let assert = here
        .warren(&[
            "run",
            DIRECTIVE,
            "--nodes",
            "compute-[1-2]",
            "--launcher",
            "env NODE={node}",
            "--",
            "sh",
            "-c",
        ])
        .arg("echo $NODE; test $NODE = compute-1")
        .assert()
        .code(1);
    let output = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["compute-1", "compute-2"]);
    assert!(stderr(&assert).contains("compute-2: env: exit status: 1"), "{}", stderr(&assert));
}

#[test]
fn advance_writes_the_computes_before_it_requests_setup() {
    let (here, _centre) = site();
    here.warren(&[
        "workflow", "create", DIRECTIVE, "--name", "w", "--job", "f2Dd", "--wlm", "flux",
    ])
    .assert()
    .success()
    .stdout("w\n");
    here.warren(&["workflow", "advance", "w", "--nodes", "compute-[1-2]"])
        .assert()
        .success()
        .stdout("workflow/w Setup\n");
    let computes = here.json(&["get", "computes", "w", "-o", "json"]);
    assert_eq!(computes["data"], json!([{"name": "compute-1"}, {"name": "compute-2"}]));
    // The test fills the object of kind Servers as the engine would.
    let sets = json!([{"label": "xfs", "allocationSize": 1 << 30,
        "storage": [{"name": "rabbit-1", "allocationCount": 2}]}]);
    let mut servers = here.json(&["get", "servers", "w-0", "-o", "json"]);
    servers["spec"]["allocationSets"] = sets;
    here.warren(&["apply", "-f", &here.file("servers.yaml", &[servers])]).assert().success();
    let page = here.output(&["workflow", "show", "w"]);
    assert!(page.contains("has   xfs of 1.0 GiB each on rabbit-1×2"), "{page}");
    here.warren(&["workflow", "advance", "w", "--to", "PreRun"]).assert().success();
    let timeline = here.json(&["workflow", "timeline", "w", "--json"]);
    assert_eq!(timeline["workflow"], "w");
    let investigated = here.output(&["workflow", "investigate", "w"]);
    for object in [
        "workflow/w",
        "computes/w",
        "servers/w-0",
        "directivebreakdown/w-0",
        "the workflow does not wait",
    ] {
        assert!(investigated.contains(object), "{investigated}");
    }
    here.warren(&["workflow", "delete", "w"]).assert().success();
    assert_eq!(workflows(&here), 0);
}

#[test]
fn a_failed_run_prints_the_cause_and_removes_its_workflow() {
    let (here, _centre) = site();
    let broken = format!("{DIRECTIVE} profile=broken");
    let assert = here
        .warren(&["run", &broken, "--nodes", "compute-1", "--name", "job", "--", "true"])
        .assert()
        .code(5);
    let text = stderr(&assert);
    let cause = "error: the workflow job failed in Setup: DW Directive 0: no drive has room";
    let mut lines = text.lines().skip_while(|line| !line.starts_with("error: "));
    assert_eq!(lines.next(), Some(cause), "{text}");
    assert!(
        lines.next().is_some_and(|line| line.starts_with("  nothing is left of the job's storage")),
        "{text}"
    );
    assert_eq!((lines.next(), text.matches("no drive has room").count()), (None, 1), "{text}");
    assert!(!text.contains("warren workflow teardown"), "the workflow is removed already: {text}");
    let assert = here
        .warren(&[
            "run",
            &broken,
            "--verbose",
            "--nodes",
            "compute-1",
            "--name",
            "job",
            "--",
            "true",
        ])
        .assert()
        .code(5);
    assert!(stderr(&assert).contains("workflow/job"), "{}", stderr(&assert));
    assert_eq!(workflows(&here), 0);
}

#[test]
fn a_missing_command_creates_no_workflow() {
    let (here, _centre) = site();
    let run = ["run", DIRECTIVE, "--nodes", "compute-1", "--"];
    for (command, code) in [("no-such-command-of-warren", 127), ("/etc", 126)] {
        let assert = here.warren(&run).arg(command).assert().code(code);
        let text = stderr(&assert);
        assert!(text.contains("nothing was made") && !text.contains("Proposal"), "{text}");
    }
    assert_eq!(workflows(&here), 0);
}

#[test]
fn teardown_does_not_wait_for_a_state_that_failed_or_is_stuck() {
    let (here, _centre) = site();
    for profile in ["broken", "stuck"] {
        let directive = format!("{DIRECTIVE} profile={profile}");
        here.warren(&["workflow", "create", &directive, "--name", profile]).assert().success();
        let setup = ["workflow", "advance", profile, "--timeout", "1s"];
        here.warren(&setup).assert().failure();
        here.warren(&["workflow", "advance", profile, "--to", "Teardown"])
            .assert()
            .success()
            .stdout(format!("workflow/{profile} Teardown\n"));
    }
    // The command also reaches Teardown if a state before it fails.
    let directive = format!("{DIRECTIVE} profile=broken");
    here.warren(&["workflow", "create", &directive, "--name", "w"]).assert().success();
    here.warren(&["workflow", "advance", "w", "--to", "Teardown"])
        .assert()
        .success()
        .stdout("workflow/w Teardown\n");
}

#[test]
fn a_timeout_of_a_run_names_the_cause() {
    let (here, _centre) = site();
    let stuck = format!("{DIRECTIVE} profile=stuck");
    let assert = here
        .warren(&[
            "run",
            &stuck,
            "--nodes",
            "compute-1",
            "--name",
            "job",
            "--timeout",
            "1s",
            "--",
            "true",
        ])
        .assert()
        .code(3);
    let text = stderr(&assert);
    assert!(
        text.contains("the workflow job is not in Setup after 1s")
            && text.contains("a rabbit is away"),
        "{text}"
    );
    assert_eq!(workflows(&here), 0);
}

#[test]
fn a_dry_run_without_an_engine_says_whom_to_ask() {
    let (here, _centre) = site();
    let line = ["run", DIRECTIVE, "--nodes", "compute-1", "--dry-run"];
    let text = stderr(&here.warren(&line).assert().failure());
    assert!(text.contains("this coordinator drives no workflows"), "{text}");
    assert_eq!(workflows(&here), 0);
}

#[test]
fn a_run_with_wrong_arguments_creates_no_workflow() {
    let (here, _centre) = site();
    let refused = |arguments: &[&str], expected: &str| {
        let assert = here.warren(arguments).args(["--", "true"]).assert().code(2);
        assert!(stderr(&assert).contains(expected), "{}", stderr(&assert));
    };
    refused(&["run", "#DW", "--nodes", "compute-1"], "no command follows #DW");
    refused(&["run", DIRECTIVE, "--nodes", "compute-[1-"], "is not a host list");
    refused(&["run", DIRECTIVE, "--nodes", "compute-1,compute-1"], "names compute-1 twice");
    refused(
        &["run", DIRECTIVE, "--nodes", "compute-1", "--launcher", "a {node} {nodes}"],
        "write one of them",
    );
    assert_eq!(workflows(&here), 0);
}

/// A workflow of another user with the same name must not be removed.
#[test]
fn a_run_does_not_remove_an_existing_workflow_of_the_same_name() {
    let (here, _centre) = site();
    here.warren(&["workflow", "create", DIRECTIVE, "--name", "taken"]).assert().success();
    let assert = here
        .warren(&["run", DIRECTIVE, "--nodes", "compute-1", "--name", "taken", "--", "true"])
        .assert()
        .failure();
    assert!(stderr(&assert).contains("create the workflow default/taken"), "{}", stderr(&assert));
    assert_eq!(workflows(&here), 1);
    let shown = here.json(&["workflow", "show", "taken", "--json"]);
    assert_eq!(shown["workflow"]["spec"]["desiredState"], "Proposal");
}

#[test]
fn an_interrupted_run_ends_its_command_and_removes_its_storage() {
    let (here, _centre) = site();
    // The signals of a service manager, of a closed terminal, and of a user.
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGINT] {
        interrupt(&here, signal);
        assert_eq!(workflows(&here), 0, "{signal}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "test harness: the child must be signalled while it runs"
)]
fn interrupt(here: &StandaloneCoordinator, signal: Signal) {
    let script = "trap 'echo cleaned; exit 0' TERM; echo running; while :; do sleep 0.05; done";
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(["run", DIRECTIVE, "--nodes", "compute-1", "--", "sh", "-c", script])
        .env("WARREN_API", format!("unix://{}", here.path("api.sock").display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "running");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "cleaned", "{signal}");
    assert_eq!(child.wait().unwrap().code(), Some(6), "{signal}");
}

#[test]
fn purge_without_yes_only_shows_its_plan() {
    let (here, _centre) = site();
    here.warren(&["workflow", "create", DIRECTIVE, "--name", "w"]).assert().success();
    let held = json!({"apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Servers", "spec": {},
        "metadata": {"name": "w-held", "namespace": "default", "finalizers": ["example.com/held"], "labels": {
            "dataworkflowservices.github.io/workflow.name": "w", "dataworkflowservices.github.io/workflow.namespace": "default"}}});
    let file = here.file("held.yaml", &[held]);
    here.warren(&["apply", "-f", &file]).assert().success();
    let plan = here.output(&["workflow", "purge", "w"]);
    assert!(plan.starts_with("1. request Teardown of the workflow w"), "{plan}");
    assert_eq!(workflows(&here), 1);
    here.warren(&["workflow", "purge", "w", "--yes", "--force", "--timeout", "20s"])
        .assert()
        .success()
        .stdout("the workflow and all its objects are gone\n");
    assert_eq!(workflows(&here), 0);
}

#[test]
fn persistent_create_and_destroy_leave_no_workflow_and_keep_storage_in_use() {
    let (here, _centre) = site();
    here.warren(&[
        "persistent",
        "create",
        "shared",
        "--type",
        "xfs",
        "--capacity",
        "1GiB",
        "--nodes",
        "compute-1",
    ])
    .assert()
    .success()
    .stdout("made\n");
    // The object that the engine creates.
    let instance = |consumers: Value| {
        json!({"apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "PersistentStorageInstance",
            "metadata": {"name": "shared", "namespace": "default"},
            "spec": {"name": "shared", "fsType": "xfs", "dwDirective": "#DW create_persistent", "userID": 0,
                "state": "Active", "consumerReferences": consumers}})
    };
    let used = json!([{"kind": "Workflow", "namespace": "default", "name": "other-0"}]);
    here.warren(&["apply", "-f", &here.file("used.yaml", &[instance(used)])]).assert().success();
    let listed = here.output(&["persistent", "list"]);
    assert!(listed.contains("shared") && listed.contains("other-0"), "{listed}");
    let assert = here.warren(&["persistent", "destroy", "shared"]).assert().failure();
    assert!(stderr(&assert).contains("shared is used by other-0"), "{}", stderr(&assert));
    let free = here.file("free.yaml", &[instance(json!([]))]);
    here.warren(&["apply", "-f", &free]).assert().success();
    here.warren(&["persistent", "destroy", "shared"]).assert().success().stdout("destroyed\n");
    assert_eq!(workflows(&here), 0);
}
