use crate::standalone_coordinator::{StandaloneCoordinator, mount, warren};

#[test]
fn help_documents_exit_statuses_and_defaults() {
    let assert = warren(&["--help-all"]).assert().success();
    let help = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    for part in
        ["Exit status:", "7  coordinator", "--server", "[env: WARREN_API=]", "apply", "mounts"]
    {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    warren(&["apply"]).assert().code(2);
    warren(&["wait", "clientmount/a"]).assert().code(2);
    warren(&["frobnicate"]).assert().code(2);
    let assert = warren(&["run", "#DW", "--timeout", "0s", "--", "true"]).assert().code(2);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("write at least 1s"), "{text}");
}

#[test]
fn an_unreachable_server_exits_with_7_and_the_remedy_starts_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = format!("unix://{}/api.sock", directory.path().display());
    let assert = warren(&["--server", &server, "get", "clientmounts"]).assert().code(7);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(
        text.contains("api.sock") && text.contains("systemctl start warren-coordinator"),
        "{text}"
    );
    let coordinator = format!("unix://{}/c.sock", directory.path().display());
    warren(&["--coordinator", &coordinator, "nodes"]).assert().code(7);
    warren(&["--server", "tcp:nonsense", "get", "ns"]).assert().code(2);
}

#[test]
fn if_one_file_is_unusable_apply_creates_no_object_of_any_file() {
    let here = StandaloneCoordinator::start();
    let good = here.file(
        "good.yaml",
        &[serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})],
    );
    let large = here.raw_file("large.yaml", &vec![b'#'; 3 * 1024 * 1024 + 1]);
    let binary = here.raw_file("binary.yaml", b"kind: \xff\xfe");
    let truncated = here.raw_file("truncated.json", b"{\"apiVersion\": \"v1\", \"kind\"");
    for (file, part) in [
        (large, "3 MiB"),
        (binary, "UTF-8"),
        (truncated, "cannot be read as JSON"),
        (here.path("none.yaml").display().to_string(), "none.yaml"),
    ] {
        let assert = here.warren(&["apply", "-f", &good, "-f", &file]).assert().code(2);
        let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(text.contains(part), "{text}");
    }
    here.warren(&["get", "configmap", "a"]).assert().code(1);
}

#[test]
fn an_object_that_the_schema_refuses_is_reported_with_file_and_field() {
    let here = StandaloneCoordinator::with_mount();
    let mut wrong = mount("wrong", "mounted");
    wrong["spec"]["desiredState"] = "half".into();
    let file = here.file("wrong.yaml", &[mount("right", "mounted"), wrong]);
    let assert = here.warren(&["apply", "-f", &file]).assert().code(2);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    for part in ["wrong.yaml, document 2", "clientmount/wrong", "spec.desiredState", "half"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_completion_script_has_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let assert = warren(&["completions", shell]).assert().success();
        assert!(String::from_utf8_lossy(&assert.get_output().stdout).contains("mounts"));
    }
}
