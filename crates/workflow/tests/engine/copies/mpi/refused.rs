//! Copies by MPI that Proposal refuses.

use serde_json::Value;

use super::*;

/// Changes the site before a workflow is created.
type Edit = fn(&mut Site);

fn edit_profile(site: &mut Site, edit: impl FnOnce(&mut Value)) {
    site.edit("NnfDataMovementProfile", "nnf-system", "default", |profile| {
        edit(&mut profile["data"]);
    });
    site.settle();
}

#[test]
fn proposal_refuses_what_cannot_run_with_the_field_the_value_and_the_remedy() {
    let cases: [(Edit, &str); 6] = [
        (
            |site| {
                edit_profile(site, |data| {
                    data["command"] = json!(format!("ulimit -n 2048 && {COMMAND}"));
                });
            },
            "NnfDataMovementProfile default: data.command \"ulimit -n 2048 && mpirun",
        ),
        (
            |site| {
                edit_profile(site, |data| {
                    data["command"] = json!(format!("ulimit -n 2048 && {COMMAND}"));
                });
            },
            "ask the administrator to remove `ulimit -n 2048 &&`",
        ),
        (|site| edit_profile(site, |data| data["command"] = json!("")), "data.command is empty"),
        (
            |site| edit_profile(site, |data| data["image"] = json!("--privileged")),
            "NnfDataMovementProfile default: data.image is \"--privileged\": ask the administrator to write an image's name",
        ),
        (
            |site| site.containers = None,
            "data.image of the copy's NnfDataMovementProfile: this site runs no containers; name a profile without data.image",
        ),
        (
            |site| site.containers.as_mut().unwrap().namespace = Some("other".to_owned()),
            "containers run in the Kubernetes namespace other only, and this workflow is in default",
        ),
    ];
    for (edit, expected) in cases {
        let mut site = site();
        edit(&mut site);
        site.create("w", &directives(&[LUSTRE, IN]));
        site.settle();
        let (_, ready, status, message) = site.status_of("w");
        assert!(!ready && status == "Error" && message.contains(expected), "{message}");
        assert!(site.names("ConfigMap").is_empty());
        site.remove("w");
    }
}

#[test]
fn the_workflows_user_must_not_be_root() {
    let mut site = site();
    site.create_by(0, "w", &directives(&[LUSTRE, IN]));
    site.settle();
    let message = site.message("w");
    assert!(message.contains("the workflow's user is root"), "{message}");
}

#[test]
fn a_profile_with_an_image_and_a_command_for_a_shell_still_copies_storage_that_is_not_shared() {
    let mut site = site();
    edit_profile(&mut site, |data| data["command"] = json!("a; b"));
    site.create("w", &directives(&[XFS, IN]));
    site.settle();
    assert!(site.is_ready("w", "Proposal"), "{:?}", site.status_of("w"));
}

#[test]
fn kubernetes_needs_the_image_of_podhelper() {
    let mut site = with_mpi(containers::site());
    site.containers.as_mut().unwrap().podhelper_image = None;
    site.create("w", &directives(&[LUSTRE, IN]));
    site.settle();
    let message = site.message("w");
    assert!(message.contains("needs podhelper, which is not configured here"), "{message}");
}
