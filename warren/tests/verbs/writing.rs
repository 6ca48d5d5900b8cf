use serde_json::json;

use crate::standalone_coordinator::{StandaloneCoordinator, configuration, mount};

#[test]
fn apply_creates_changes_or_leaves_objects_unchanged() {
    let here = StandaloneCoordinator::start();
    let file = here.file("all.yaml", &[configuration(), mount("job", "mounted")]);
    let created = here.output(&["apply", "-f", &file]);
    assert_eq!(created, "systemconfiguration/default created\nclientmount/job created\n");
    let again = here.output(&["apply", "-f", &file]);
    assert_eq!(again, "systemconfiguration/default unchanged\nclientmount/job unchanged\n");
    let changed = here.file("changed.yaml", &[mount("job", "unmounted")]);
    assert_eq!(here.output(&["apply", "-f", &changed]), "clientmount/job configured\n");
    let result = here.json(&["apply", "--json", "-f", &changed]);
    assert_eq!(result[0]["result"], "unchanged");
}

#[test]
fn apply_reads_standard_input_and_supports_dry_runs() {
    let here = StandaloneCoordinator::with_mount();
    let tried = here
        .warren(&["apply", "--dry-run", "-f", "-"])
        .write_stdin(mount("other", "mounted").to_string())
        .assert()
        .success();
    assert_eq!(
        String::from_utf8_lossy(&tried.get_output().stdout),
        "clientmount/other created (dry run)\n"
    );
    here.warren(&["get", "clientmount", "other", "-n", "compute-1"]).assert().code(1);
    here.warren(&["apply", "-f", "-"])
        .write_stdin(mount("other", "mounted").to_string())
        .assert()
        .success();
    here.warren(&["get", "clientmount", "other", "-n", "compute-1"]).assert().success();
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

#[test]
fn unknown_fields_are_refused_in_new_and_changed_objects() {
    let here = StandaloneCoordinator::with_mount();
    for (pointer, field) in [
        ("/spec", "spec.desiredStat"),
        ("/spec/mounts/0", "desiredStat"),
        ("/metadata", "metadata.desiredStat"),
    ] {
        let mut typo = mount("typo", "mounted");
        typo.pointer_mut(pointer).unwrap()["desiredStat"] = "mounted".into();
        let file = here.file("typo.yaml", &[typo.clone()]);
        for arguments in [&["apply", "-f", &file][..], &["apply", "--dry-run", "-f", &file]] {
            let text = stderr(&here.warren(arguments).assert().code(2));
            assert!(text.contains("clientmount/typo") && text.contains(field), "{text}");
        }
        here.warren(&["get", "clientmount", "typo", "-n", "compute-1"]).assert().code(1);
        typo["metadata"]["name"] = "job".into();
        let file = here.file("typo.yaml", &[typo]);
        let text = stderr(&here.warren(&["apply", "-f", &file]).assert().code(2));
        assert!(text.contains("clientmount/job") && text.contains(field), "{text}");
    }
}

#[test]
fn warnings_of_the_api_are_printed() {
    let here = StandaloneCoordinator::start();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "tools.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Cluster",
            "names": {"plural": "tools", "kind": "Tool"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "deprecated": true,
                "deprecationWarning": "use \"v2\"",
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    here.output(&["apply", "-f", &here.file("definition.yaml", &[definition])]);
    let tool = json!({"apiVersion": "example.org/v1", "kind": "Tool", "metadata": {"name": "saw"}});
    let file = here.file("tool.yaml", &[tool]);
    let text = stderr(&here.warren(&["apply", "-f", &file]).assert().success());
    assert_eq!(text, "warning: use \"v2\"\n");
}

/// The test applies 7 mounts: a wait of 10 s for each namespace would exceed its limit of 60 s.
#[test]
fn a_dry_run_does_not_wait_for_namespaces() {
    let here = StandaloneCoordinator::start();
    let mut objects = vec![configuration()];
    objects.extend((0..7).map(|index| mount(&format!("job-{index}"), "mounted")));
    let file = here.file("all.yaml", &objects);
    let text = stderr(&here.warren(&["apply", "--dry-run", "-f", &file]).assert().code(1));
    assert_eq!(text.matches("a dry run creates no namespaces").count(), 7, "{text}");
    here.warren(&["get", "systemconfiguration", "default"]).assert().code(1);
}

#[test]
fn a_missing_namespace_is_reported() {
    let here = StandaloneCoordinator::with_mount();
    let mut stray = mount("stray", "mounted");
    stray["metadata"]["namespace"] = "compute-9".into();
    let file = here.file("stray.yaml", &[stray]);
    let assert = here.warren(&["apply", "-f", &file]).assert().code(1);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("compute-9") && text.contains("SystemConfiguration"), "{text}");
}

#[test]
fn delete_waits_and_names_the_finalizers_that_hold_the_object() {
    let here = StandaloneCoordinator::with_mount();
    let deleted = here.output(&["delete", "clientmount", "job", "-n", "compute-1"]);
    assert_eq!(deleted, "clientmount/job deleted\n");
    here.warren(&["delete", "clientmount", "job", "-n", "compute-1"]).assert().code(1);
    here.warren(&["delete", "clientmount", "job", "-n", "compute-1", "--ignore-not-found"])
        .assert()
        .success();

    let mut held = mount("held", "mounted");
    held["metadata"]["finalizers"] = json!(["nnf.cray.hpe.com/nnf_clientmount"]);
    let file = here.file("held.yaml", &[held]);
    here.warren(&["apply", "-f", &file]).assert().success();
    here.warren(&["delete", "-f", &file, "--wait=false"]).assert().success();
    let assert = here.warren(&["delete", "-f", &file, "--timeout", "3s"]).assert().code(3);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(
        text.contains("nnf_clientmount (until the agent of node compute-1 has unmounted)"),
        "{text}"
    );
}

#[test]
fn a_failed_deletion_does_not_prevent_the_others() {
    let here = StandaloneCoordinator::with_mount();
    let delete = ["delete", "clientmount", "none", "job", "nobody", "-n", "compute-1"];
    let assert = here.warren(&delete).assert().code(1);
    assert_eq!(String::from_utf8_lossy(&assert.get_output().stdout), "clientmount/job deleted\n");
    let text = stderr(&assert);
    assert!(text.contains("clientmount/none") && text.contains("clientmount/nobody"), "{text}");
    here.warren(&["get", "clientmount", "job", "-n", "compute-1"]).assert().code(1);
}

#[test]
fn control_characters_of_files_are_escaped() {
    let here = StandaloneCoordinator::with_mount();
    let evil = "\u{1b}]0;owned\u{7}\u{9b}2J";
    for field in
        ["/kind", "/apiVersion", "/metadata/name", "/metadata/namespace", "/spec/desiredState"]
    {
        let mut object = mount("evil", "mounted");
        *object.pointer_mut(field).unwrap() = format!("x{evil}").into();
        let file = here.file("evil.json", &[object]);
        for (arguments, shown) in [
            (&["apply", "-f", &file][..], "\\u{1b}"),
            (&["apply", "--json", "-f", &file], "\\u001b"),
            (&["delete", "-f", &file], "\\u{1b}"),
        ] {
            let assert = here.warren(arguments).assert();
            let output = assert.get_output();
            for stream in [&output.stdout, &output.stderr] {
                let text = String::from_utf8(stream.clone()).unwrap();
                assert!(
                    !text.contains(|char: char| char.is_control() && char != '\n'),
                    "{field} {text:?}"
                );
            }
            if matches!(field, "/kind" | "/apiVersion") {
                assert!(
                    String::from_utf8_lossy(&output.stderr).contains(shown),
                    "{field} {arguments:?}"
                );
            }
        }
    }
}

#[test]
fn errors_are_json_with_the_flag_json() {
    let here = StandaloneCoordinator::with_mount();
    let file = here.file(
        "kind.yaml",
        &[json!({"apiVersion": "v1", "kind": "None", "metadata": {"name": "a"}})],
    );
    let nobody = format!("unix://{}", here.path("nobody.sock").display());
    for (arguments, exit) in [
        (&["get", "clientmount", "none", "--json"][..], 1),
        (&["apply", "--json", "-f", &file], 2),
        (&["delete", "--json", "clientmount", "none"], 1),
        (&["--json", "frobnicate"], 2),
        (&["--json", "--server", &nobody, "mounts"], 7),
    ] {
        let assert = here.warren(arguments).assert().code(exit);
        let text = stderr(&assert);
        let errors: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(errors.len(), 1, "{text}");
        assert_eq!(errors[0]["error"]["exitStatus"], exit, "{text}");
        assert!(!errors[0]["error"]["message"].as_str().unwrap().is_empty());
        let stdout = &assert.get_output().stdout;
        if !stdout.is_empty() {
            serde_json::from_slice::<serde_json::Value>(stdout).unwrap();
        }
    }
}
