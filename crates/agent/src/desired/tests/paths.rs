//! Tests of the paths at which an object may mount, and of refused paths.

use super::*;

#[test]
fn variables_in_a_mount_path_are_expanded() {
    let mut object = compute_xfs();
    object.spec.mounts[0].mount_path = "/mnt/nnf/$JOBID/$USERID-$SITE".into();
    let mut profile = profile();
    profile.spec.data.xfs_storage.variable_override =
        [("$SITE".to_owned(), "s-$GROUPID".to_owned())].into();
    let units =
        desired(&object, Ok(&profile), &no_references, &site(&object, Side::Compute)).unwrap();
    assert_eq!(only_mount(&units).target.to_string(), "/mnt/nnf/7001/2107-s-2100");
}

#[test]
fn a_bad_mount_path_is_reported_with_its_field_and_remedy() {
    for (path, message) in [
        ("mnt/nnf/x", "spec.mounts[0].mountPath: \"mnt/nnf/x\" is not absolute: begin it with '/'"),
        ("", "spec.mounts[0].mountPath: \"\" is not absolute"),
        ("/mnt/nnf/../etc", "spec.mounts[0].mountPath: \"/mnt/nnf/../etc\" contains '..'"),
        (
            "/etc/passwd",
            "spec.mounts[0].mountPath: \"/etc/passwd\" is not beneath an allowed root: use a path under /mnt/nnf",
        ),
        ("/mnt/nnf", "is not beneath an allowed root"),
        ("/", "is not beneath an allowed root"),
        (
            "/mnt/nnf/a\nb",
            "spec.mounts[0].mountPath: \"/mnt/nnf/a\\nb\" contains a control character: use printable characters",
        ),
        (
            "/mnt/nnf/$NOWHERE",
            "spec.mounts[0].mountPath: \"/mnt/nnf/$NOWHERE\" names a variable that is not known",
        ),
    ] {
        let error = error_of(|object| object.spec.mounts[0].mount_path = path.into());
        assert!(error.contains(message), "{path}: {error}");
    }
}

#[test]
fn a_hostile_label_cannot_lead_a_path_out_of_its_root() {
    let error = error_of(|object| {
        object.spec.mounts[0].mount_path = "/mnt/nnf/$JOBID".into();
        object.metadata.labels.as_mut().unwrap().insert(label::JOB_ID.into(), "../../etc".into());
    });
    assert!(error.contains("contains '..'"), "{error}");
}

#[test]
fn of_two_overlapping_mounts_of_one_object_the_later_one_is_refused() {
    for (second, expected) in [
        (
            PATH.to_owned(),
            format!("spec.mounts[1].mountPath: overlaps \"{PATH}\" of spec.mounts[0]"),
        ),
        (format!("{PATH}/./inner/"), "overlaps".to_owned()),
        ("/mnt/nnf/other/../x".to_owned(), "contains '..'".to_owned()),
    ] {
        let mut object = compute_xfs();
        let mut more = object.spec.mounts[0].clone();
        more.mount_path = second;
        object.spec.mounts.push(more);
        let units = on_compute(&object).unwrap();
        assert!(units.are_refused() && units.mounts[0].is_ok());
        let message = units.mounts[1].as_ref().unwrap_err().to_string();
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn a_mount_path_beneath_the_index_root_is_refused() {
    let mut object = rabbit_index();
    object.spec.mounts[0].mount_path = "/mnt/index/x/node-0".into();
    let units = desired(
        &object,
        Ok(&profile()),
        &references,
        &with_index_root(site(&object, Side::Rabbit)),
    )
    .unwrap();
    assert!(
        units.mounts[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("is not beneath an allowed root")
    );
}
