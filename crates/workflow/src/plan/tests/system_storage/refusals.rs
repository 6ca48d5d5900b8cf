//! Errors of a system storage: bad fields, unknown names, later changes, missing space.

use serde_json::json;

use super::{LOCK, ON_R, access, assert_ready, key, mounted, site, status};
use crate::plan::tests::{GIB, XFS};

#[test]
fn bad_fields_are_refused_and_change_nothing() {
    let fatal = |text: &str| format!("Fatal: {text}");
    for (spec, expected) in [
        (
            json!({"systemConfiguration": {"kind": "ConfigMap", "name": "default"}}),
            fatal(r#"spec.systemConfiguration.kind is "ConfigMap": write SystemConfiguration"#),
        ),
        (
            json!({"includeRabbits": ["r"], "excludeRabbits": ["s"]}),
            fatal("spec.includeRabbits and spec.excludeRabbits are both set: set only one of them"),
        ),
        (
            json!({"includeComputes": ["c1"], "excludeComputes": ["c2"]}),
            fatal("spec.includeComputes and spec.excludeComputes are both set: set only one of them"),
        ),
        (
            json!({"computesTarget": "pattern"}),
            fatal("spec.computesPattern is empty: list the indices of computes, from 0 to 15"),
        ),
        (
            json!({"computesTarget": "pattern", "computesPattern": [16]}),
            fatal("spec.computesPattern has 16: list indices from 0 to 15"),
        ),
        (
            json!({"computesTarget": "prime"}),
            fatal(r#"spec.computesTarget is "prime": write all, even, odd or pattern"#),
        ),
        (json!({"type": "lustre"}), fatal(r#"spec.type is "lustre": write raw, xfs or gfs2"#)),
        (json!({"capacity": 0}), fatal("spec.capacity is 0: write at least 1 byte")),
        (
            json!({"storageProfile": {"namespace": null}}),
            fatal(r#"spec.storageProfile.namespace is "": write 1 to 63 characters"#),
        ),
        (
            json!({"storageProfile": {"kind": "Workflow"}}),
            fatal(r#"spec.storageProfile.kind is "Workflow": write NnfStorageProfile"#),
        ),
        (
            json!({"storageProfile": {"namespace": "nnf-system", "name": "default"}}),
            fatal("NnfStorageProfile nnf-system/default is not pinned, so it may change while storage is made with it: name a copy with data.pinned: true"),
        ),
        (
            json!({"storageProfile": {"name": "other"}}),
            "Minor: NnfStorageProfile default/other does not exist: create it, or correct spec.storageProfile".to_owned(),
        ),
        (
            json!({"systemConfiguration": {"kind": "SystemConfiguration", "name": "a", "namespace": "b"}}),
            "Minor: SystemConfiguration b/a does not exist: create it, or correct spec.systemConfiguration".to_owned(),
        ),
        (
            json!({"makeClientMounts": true}),
            fatal("spec.clientMountPath is empty: name the path at which computes mount the storage, or set makeClientMounts to false"),
        ),
    ] {
        let site = site(&spec).settle().plans(&[]);
        assert_eq!(status(&site), expected);
        assert!(site.names("Servers").is_empty());
    }
    let shared_xfs = site(&mounted(json!({"type": "xfs"}))).settle().plans(&[]);
    assert_eq!(
        status(&shared_xfs),
        "Fatal: c1 and c2 would both mount the XFS of r, which destroys it: set spec.shared to false, or spec.type to gfs2"
    );
    assert!(shared_xfs.names("NnfNodeBlockStorage").is_empty());
    assert_ready(site(&json!({"type": "xfs"})));
}

#[test]
fn unknown_names_are_reported_and_the_other_rabbits_and_computes_are_served() {
    let with_unknown = site(&json!({"includeRabbits": ["r", "x"]})).settle().plans(&[]);
    assert_eq!(
        status(&with_unknown),
        "Fatal: spec.includeRabbits names x, which is not among the rabbits of the SystemConfiguration: correct the name"
    );
    assert_eq!(access(&with_unknown, ON_R), [["r", "c1", "c2", "c3"]]);
    let with_unknown = site(&json!({"includeComputes": ["c1", "d9"]})).settle().plans(&[]);
    assert_eq!(
        status(&with_unknown),
        "Fatal: spec.includeComputes names d9, which is not among the computes of its rabbits: correct the name"
    );
    assert_eq!(access(&with_unknown, ON_R), [["r", "c1"]]);
}

#[test]
fn a_change_that_would_need_other_storage_is_refused() {
    let site = assert_ready(site(&json!({})));
    for (field, patch) in [
        ("type", json!({"type": "xfs"})),
        ("capacity", json!({"capacity": 2 * GIB})),
        ("shared or spec.computesTarget", json!({"shared": false})),
    ] {
        let site = site.clone().edit(LOCK, &json!({"spec": patch})).settle().plans(&[]);
        assert_eq!(
            status(&site),
            format!(
                "Fatal: spec.{field} was changed after r made the storage: set it back, or create another NnfSystemStorage and delete this one"
            )
        );
    }
}

#[test]
fn a_rabbit_without_space_does_not_keep_the_others_waiting() {
    let full = site(&json!({"capacity": 60 * GIB}))
        .edit("NnfNode r/nnf-nlc", &json!({"status": {"capacity": 50 * GIB}}))
        .settle()
        .plans(&[]);
    assert_eq!(full.names("NnfNodeStorage"), ["s/default-lock-system-storage-0"]);
    assert!(status(&full).contains("r: insufficient capacity available"), "{}", status(&full));
    let room = json!({"status": {"capacity": 100 * GIB}});
    assert_ready(full.then_wakes(&key(), "NnfNode r/nnf-nlc", &room));
    let job = XFS.replace("1GiB", "50GiB");
    let job = site(&json!({"capacity": 60 * GIB})).propose(&[&job]).computes(&["c1"]);
    let job = job.reach("Setup").settle();
    let message = job.get("Workflow default/w")["status"]["message"].to_string();
    assert!(
        message.contains("pending capacity on r"),
        "jobs get no byte of the storage: {message}"
    );
}
