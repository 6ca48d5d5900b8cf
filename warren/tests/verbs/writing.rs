use serde_json::json;

use crate::box_of_one::{BoxOfOne, configuration, mount};

#[test]
fn apply_creates_changes_and_leaves_alone() {
    let here = BoxOfOne::start();
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
fn apply_reads_standard_input_and_can_only_try() {
    let here = BoxOfOne::with_mount();
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

#[test]
fn a_namespace_that_does_not_exist_is_told() {
    let here = BoxOfOne::with_mount();
    let mut stray = mount("stray", "mounted");
    stray["metadata"]["namespace"] = "compute-9".into();
    let file = here.file("stray.yaml", &[stray]);
    let assert = here.warren(&["apply", "-f", &file]).assert().code(1);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("compute-9") && text.contains("SystemConfiguration"), "{text}");
}

#[test]
fn delete_waits_and_says_who_holds_the_object() {
    let here = BoxOfOne::with_mount();
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
