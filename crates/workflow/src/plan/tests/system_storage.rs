//! System storage: its rabbits and computes, its errors, and its removal.

use serde_json::{Value, json};

use super::{GIB, Objects, R, XFS};
use crate::{shipped, world::Key};

const LOCK: &str = "NnfSystemStorage default/lock";
const PROFILE: &str = "NnfStorageProfile default/lock";
const SYSTEM: &str = "SystemConfiguration default/default";
const ON_R: &str = "NnfNodeBlockStorage r/default-lock-system-storage-0";
const ON_S: &str = "NnfNodeBlockStorage s/default-lock-system-storage-0";

/// Returns a site with a system storage `lock` that has these fields, before the engine sees the storage.
fn site(spec: Value) -> Objects {
    let mut profile = json!(shipped::profile());
    (profile["data"]["pinned"], profile["data"]["default"]) = (json!(true), json!(false));
    let mut all = json!({"capacity": GIB,
        "storageProfile": {"kind": "NnfStorageProfile", "name": "lock", "namespace": "default"}});
    json_patch::merge(&mut all, &spec);
    Objects::site().put(PROFILE, profile).put(LOCK, json!({"spec": all}))
}

fn key() -> Key {
    Key::SystemStorage(("default".to_owned(), "lock".to_owned()))
}

/// Returns the nodes that have access to each allocation of a block storage.
fn access(site: &Objects, block: &str) -> Vec<Vec<String>> {
    let allocations = site.get(block)["spec"]["allocations"].as_array().unwrap().iter();
    let nodes = |allocation: &Value| serde_json::from_value(allocation["access"].clone()).unwrap();
    allocations.map(nodes).collect()
}

/// Returns `ready`, or severity and message of the error.
fn status(site: &Objects) -> String {
    let status = &site.get(LOCK)["status"];
    let error = &status["error"];
    if error.is_null() {
        return status["ready"].to_string();
    }
    let word = |field: &str| error[field].as_str().unwrap().to_owned();
    format!("{}: {}", word("severity"), word("debugMessage"))
}

/// Fails unless the storage is ready and nothing is left to do.
#[track_caller]
fn assert_ready(site: Objects) -> Objects {
    let site = site.settle().plans(&[]);
    assert_eq!(status(&site), "true");
    site
}

/// Returns a spec with which computes mount the storage.
fn mounted(mut spec: Value) -> Value {
    (spec["makeClientMounts"], spec["clientMountPath"]) = (json!(true), json!("/mnt/l"));
    spec
}

#[test]
fn a_shared_storage_is_one_allocation_for_all_computes_of_each_rabbit() {
    let site = site(json!({}))
        .plans(&["change NnfSystemStorage default/lock: nnf.cray.hpe.com/nnf_system_storage"]);
    let site = site.step().plans(&[
        "create Servers default/lock",
        "write the status of NnfSystemStorage default/lock: ready false",
    ]);
    let site = site
        .step()
        .plans(&["change Servers default/lock: system-storage 1073741824 x 1 on r, 1 on s"]);
    let site = site.step().plans(&[
        "create NnfNodeBlockStorage r/default-lock-system-storage-0: 1073741824 for r",
        "create NnfNodeStorage r/default-lock-system-storage-0: 1 raw of 1040187392",
        "create NnfNodeBlockStorage s/default-lock-system-storage-0: 1073741824 for s",
        "create NnfNodeStorage s/default-lock-system-storage-0: 1 raw of 1040187392",
    ]);
    let site = assert_ready(site);
    assert_eq!(access(&site, ON_R), [["r", "c1", "c2", "c3"]]);
    assert_eq!(access(&site, ON_S), [["s", "d1"]]);
    assert!(site.all.keys().all(|at| at.0 != "ClientMount"), "nothing is mounted");
}

#[test]
fn rabbits_and_computes_get_the_labels_and_variables_of_the_go_controllers() {
    let site = assert_ready(site(mounted(json!({"shared": false, "computesTarget": "even"}))));
    let storage = site.get("NnfNodeStorage r/default-lock-system-storage-0");
    let variables = storage["spec"]["commandVariables"].as_array().unwrap();
    let value = |name: &str| {
        variables.iter().find(|variable| variable["name"] == name).cloned().unwrap_or_default()
    };
    for (name, expected) in [
        ("$JOBID", "SystemStorage"),
        ("$DIRECTIVE_INDEX", "0"),
        ("$WORKFLOW_UID", "systemstorage-nnfsystemstorage-lock"),
        ("$USERID", "0"),
        ("$GROUPID", "0"),
    ] {
        assert_eq!(value(name)["value"], expected, "{name}");
    }
    let hosts = &value("$COMPUTE_HOSTNAME");
    assert_eq!(hosts["indexedValues"], json!(["c1", "c3", "", "", "", "", "", ""]));
    let labels = &storage["metadata"]["labels"];
    for (label, expected) in [
        ("nnf.cray.hpe.com/allocationset", "system-storage"),
        ("nnf.cray.hpe.com/directive_index", "0"),
        ("nnf.cray.hpe.com/job_id", "SystemStorage"),
        ("nnf.cray.hpe.com/pinned_storage_profile_name", "lock"),
        ("nnf.cray.hpe.com/pinned_storage_profile_namespace", "default"),
        ("dataworkflowservices.github.io/owner.uid", "servers-lock"),
    ] {
        assert_eq!(labels[label], expected, "{label}");
    }
    assert!(labels["dataworkflowservices.github.io/workflow.name"].is_null());
    let mount = &site.get("ClientMount c3/default-lock");
    assert_eq!(mount["metadata"]["labels"]["nnf.cray.hpe.com/target_directive_index"], "0");
    assert_eq!(mount["metadata"]["labels"]["nnf.cray.hpe.com/target_owner_uid"], "servers-lock");
    assert_eq!(mount["spec"]["mounts"][0]["device"]["deviceReference"]["data"], 1);
}

#[test]
fn the_host_count_of_a_shared_storage_counts_all_computes_and_the_rabbit() {
    for (target, expected) in [("all", "17"), ("odd", "9")] {
        let site = assert_ready(site(json!({"type": "gfs2", "computesTarget": target})));
        let storage = site.get("NnfNodeStorage r/default-lock-system-storage-0");
        let variables = storage["spec"]["commandVariables"].as_array().unwrap();
        let count = variables.iter().find(|variable| variable["name"] == "$HOST_COUNT").unwrap();
        assert_eq!(count["value"], expected);
        let labels = &site.get(ON_R)["metadata"]["labels"];
        assert_eq!(labels["warren.nnf.cray.hpe.com/file-system"], "gfs2", "the fence finds it");
    }
}

#[test]
fn each_field_chooses_rabbits_and_computes() {
    let (r, s) = (|nodes: &[&str]| nodes.join(" "), |nodes: &[&str]| nodes.join(" "));
    for (spec, on_r, on_s) in [
        (json!({"includeRabbits": ["s"]}), None, Some(s(&["s", "d1"]))),
        (json!({"excludeRabbits": ["s"]}), Some(r(&["r", "c1", "c2", "c3"])), None),
        (json!({"includeComputes": ["c2"]}), Some(r(&["r", "c2"])), Some(s(&["s"]))),
        (
            json!({"includeComputes": ["c2"], "computesTarget": "even"}),
            Some(r(&["r", "c2"])),
            Some(s(&["s"])),
        ),
        (json!({"excludeComputes": ["c2"]}), Some(r(&["r", "c1", "c3"])), Some(s(&["s", "d1"]))),
        (json!({"computesTarget": "even"}), Some(r(&["r", "c1", "c3"])), Some(s(&["s", "d1"]))),
        (json!({"computesTarget": "odd"}), Some(r(&["r", "c2"])), Some(s(&["s"]))),
        (
            json!({"computesTarget": "pattern", "computesPattern": [1, 2]}),
            Some(r(&["r", "c2", "c3"])),
            Some(s(&["s"])),
        ),
    ] {
        let site = assert_ready(site(spec.clone()));
        for (block, expected) in [(ON_R, on_r), (ON_S, on_s)] {
            let exists = site.names("NnfNodeBlockStorage").contains(&block[20..].to_owned());
            let found = exists.then(|| access(&site, block)[0].join(" "));
            assert_eq!(found, expected, "{spec}: {block}");
        }
    }
}

#[test]
fn a_storage_that_is_not_shared_has_an_allocation_for_each_index() {
    for (target, count, own) in [
        (json!({}), 16, [("c1", 0), ("c2", 1), ("c3", 2)].as_slice()),
        (json!({"computesTarget": "even"}), 8, &[("c1", 0), ("c3", 1)]),
        (json!({"computesTarget": "odd"}), 8, &[("c2", 0)]),
        (
            json!({"computesTarget": "pattern", "computesPattern": [2, 0, 2]}),
            2,
            &[("c3", 0), ("c1", 1)],
        ),
    ] {
        let mut spec = target;
        spec["shared"] = json!(false);
        let site = assert_ready(site(spec.clone()));
        let access = access(&site, ON_R);
        assert_eq!(access.len(), count, "{spec}");
        for (place, nodes) in access.iter().enumerate() {
            let compute = own.iter().find(|(_, index)| *index == place).map(|(name, _)| *name);
            let expected: Vec<&str> = std::iter::once("r").chain(compute).collect();
            assert_eq!(*nodes, expected, "{spec}: allocation {place}");
        }
    }
}

#[test]
fn computes_mount_at_the_path_of_the_storage() {
    let spec = mounted(json!({"type": "xfs", "shared": false, "excludeRabbits": ["s"]}));
    let site = assert_ready(site(spec));
    assert_eq!(
        site.names("ClientMount"),
        ["c1/default-lock", "c2/default-lock", "c3/default-lock"]
    );
    let mount = &site.get("ClientMount c2/default-lock")["spec"]["mounts"][0];
    assert_eq!((&mount["mountPath"], &mount["type"]), (&json!("/mnt/l"), &json!("xfs")));
    assert_eq!((&mount["userID"], &mount["groupID"]), (&json!(0), &json!(0)));
    let site = assert_ready(site.then_wakes(
        &key(),
        LOCK,
        &json!({"spec": {"clientMountPath": "/mnt/m"}}),
    ));
    let mount = &site.get("ClientMount c2/default-lock")["spec"]["mounts"][0];
    assert_eq!(mount["mountPath"], "/mnt/m", "the agent unmounted the old path first");
    let site = assert_ready(site.edit(LOCK, &json!({"spec": {"excludeComputes": ["c2"]}})));
    assert_eq!(site.names("ClientMount"), ["c1/default-lock", "c3/default-lock"]);
    assert_eq!(access(&site, ON_R)[1], ["r"]);
    let site = assert_ready(site.edit(LOCK, &json!({"spec": {"makeClientMounts": false}})));
    assert!(site.names("ClientMount").is_empty());
    assert_eq!(access(&site, ON_R)[0], ["r", "c1"], "the drives stay attached");
}

#[test]
fn a_compute_gets_no_allocation_that_another_node_has_mounted() {
    let spec = mounted(json!({"type": "xfs", "shared": false, "excludeRabbits": ["s"]}));
    let site = assert_ready(site(spec)).dead("c1");
    let named = |first: &str| {
        json!({"spec": {"storageNodes": [
            {"type": "Rabbit", "name": "r", "computesAccess": [{"name": first, "index": 0}]},
            {"type": "Rabbit", "name": "s"}]}})
    };
    let site = site.edit(SYSTEM, &named("c9")).settle();
    assert_eq!(status(&site), "false");
    assert_eq!(access(&site, ON_R)[0], ["r", "c1"], "c1 has not unmounted");
    assert!(!site.names("ClientMount").contains(&"c9/default-lock".to_owned()));
}

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
        let site = site(spec).settle().plans(&[]);
        assert_eq!(status(&site), expected);
        assert!(site.names("Servers").is_empty());
    }
    let shared_xfs = site(mounted(json!({"type": "xfs"}))).settle().plans(&[]);
    assert_eq!(
        status(&shared_xfs),
        "Fatal: c1 and c2 would both mount the XFS of r, which destroys it: set spec.shared to false, or spec.type to gfs2"
    );
    assert!(shared_xfs.names("NnfNodeBlockStorage").is_empty());
    assert_ready(site(json!({"type": "xfs"})));
}

#[test]
fn unknown_names_are_reported_and_the_other_rabbits_and_computes_are_served() {
    let with_unknown = site(json!({"includeRabbits": ["r", "x"]})).settle().plans(&[]);
    assert_eq!(
        status(&with_unknown),
        "Fatal: spec.includeRabbits names x, which is not among the rabbits of the SystemConfiguration: correct the name"
    );
    assert_eq!(access(&with_unknown, ON_R), [["r", "c1", "c2", "c3"]]);
    let with_unknown = site(json!({"includeComputes": ["c1", "d9"]})).settle().plans(&[]);
    assert_eq!(
        status(&with_unknown),
        "Fatal: spec.includeComputes names d9, which is not among the computes of its rabbits: correct the name"
    );
    assert_eq!(access(&with_unknown, ON_R), [["r", "c1"]]);
}

#[test]
fn no_rabbit_left_is_a_minor_error_that_a_returning_rabbit_ends() {
    let spec = json!({"includeRabbits": ["r"], "excludeDisabledRabbits": true});
    let disabled = json!({"spec": {"state": "Disabled"}});
    let site = site(spec).edit(R, &disabled).settle().plans(&[]);
    assert_eq!(
        status(&site),
        "Minor: no rabbit is left for the storage: see spec.includeRabbits, spec.excludeRabbits, spec.excludeDisabledRabbits, and the rabbits of the SystemConfiguration"
    );
    let enabled = json!({"spec": {"state": "Enabled"}, "status": {"status": "Ready"}});
    assert_ready(site.then_wakes(&key(), R, &enabled));
}

#[test]
fn a_disabled_rabbit_is_left_as_it_is_and_is_planned_again_when_it_is_back() {
    let spec = mounted(json!({"excludeDisabledRabbits": true}));
    let site = assert_ready(site(spec));
    let disabled = json!({"spec": {"state": "Disabled"}, "status": {"status": "Disabled"}});
    let site = assert_ready(site.then_wakes(&key(), R, &disabled));
    assert_eq!(access(&site, ON_R), [["r", "c1", "c2", "c3"]]);
    assert!(site.names("ClientMount").contains(&"c1/default-lock".to_owned()));
    let site = site.edit(LOCK, &json!({"spec": {"excludeComputes": ["c1", "d1"]}}));
    let site = assert_ready(site);
    assert_eq!(access(&site, ON_R), [["r", "c1", "c2", "c3"]], "r is left alone");
    assert_eq!(access(&site, ON_S), [["s"]]);
    let enabled = json!({"spec": {"state": "Enabled"}, "status": {"status": "Ready"}});
    let site = assert_ready(site.then_wakes(&key(), R, &enabled));
    assert_eq!(access(&site, ON_R), [["r", "c2", "c3"]]);
    for left_out in [
        json!({"status": {"status": "Degraded"}}),
        json!({"metadata": {"labels": {"dataworkflowservices.github.io/storage": null}}}),
    ] {
        let site = site.clone().edit(R, &left_out).dead("r");
        let plan = crate::plan::plan_key(&site.world(), &key(), site.now());
        assert_eq!(
            plan.changes,
            [],
            "{left_out}: the storage waits for no rabbit that is left out"
        );
    }
}

#[test]
fn a_new_rabbit_gets_the_storage_and_a_removed_rabbit_keeps_its_allocation() {
    let without_s = json!({"spec": {"storageNodes": [{"type": "Rabbit", "name": "r",
        "computesAccess": [{"name": "c1", "index": 0}]}]}});
    let with_s = json!({"spec": {"storageNodes": [
        {"type": "Rabbit", "name": "r", "computesAccess": [{"name": "c1", "index": 0}]},
        {"type": "Rabbit", "name": "s", "computesAccess": [{"name": "d1", "index": 1}]}]}});
    let site = assert_ready(site(mounted(json!({}))).edit(SYSTEM, &without_s));
    assert_eq!(site.names("NnfNodeStorage"), ["r/default-lock-system-storage-0"]);
    let site = assert_ready(site.then_wakes(&key(), SYSTEM, &with_s));
    assert_eq!(access(&site, ON_S), [["s", "d1"]]);
    let site = assert_ready(site.then_wakes(&key(), SYSTEM, &without_s));
    assert_eq!(site.names("ClientMount"), ["c1/default-lock"]);
    assert_eq!(access(&site, ON_S), [["s"]], "the data stays, and no compute sees it");
}

#[test]
fn computes_that_are_down_are_ignored_if_the_storage_says_so() {
    let down = json!({"data": {"nodes": {"c2": "Disabled"}}});
    let put = |site: Objects| site.put("SystemStatus default/default", down.clone()).dead("c2");
    let waits = put(site(mounted(json!({})))).settle();
    assert_eq!(status(&waits), "false");
    let site = assert_ready(put(site(mounted(json!({"ignoreOfflineComputes": true})))));
    assert_eq!(access(&site, ON_R), [["r", "c1", "c3"]]);
    let up = json!({"data": {"nodes": {"c2": null}}});
    let site = site.then_wakes(&key(), "SystemStatus default/default", &up).settle();
    assert_eq!(access(&site, ON_R), [["r", "c1", "c2", "c3"]]);
}

#[test]
fn a_change_that_would_need_other_storage_is_refused() {
    let site = assert_ready(site(json!({})));
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
    let full = site(json!({"capacity": 60 * GIB}))
        .edit("NnfNode r/nnf-nlc", &json!({"status": {"capacity": 50 * GIB}}))
        .settle()
        .plans(&[]);
    assert_eq!(full.names("NnfNodeStorage"), ["s/default-lock-system-storage-0"]);
    assert!(status(&full).contains("r: insufficient capacity available"), "{}", status(&full));
    let room = json!({"status": {"capacity": 100 * GIB}});
    assert_ready(full.then_wakes(&key(), "NnfNode r/nnf-nlc", &room));
    let job = XFS.replace("1GiB", "50GiB");
    let job = site(json!({"capacity": 60 * GIB})).propose(&[&job]).computes(&["c1"]);
    let job = job.reach("Setup").settle();
    let message = job.get("Workflow default/w")["status"]["message"].to_string();
    assert!(
        message.contains("pending capacity on r"),
        "jobs get no byte of the storage: {message}"
    );
}

#[test]
fn deletion_unmounts_withdraws_and_removes_everything_but_foreign_storage() {
    let site = assert_ready(site(mounted(json!({})))).dead("c1").delete(LOCK).settle();
    assert_eq!(access(&site, ON_R), [["r", "c1"]], "c1 has not unmounted");
    assert_eq!(site.names("ClientMount"), ["c1/default-lock"]);
    let site = site.alive("c1").settle().plans(&[]);
    for kind in
        ["ClientMount", "NnfNodeStorage", "NnfNodeBlockStorage", "Servers", "NnfSystemStorage"]
    {
        assert!(site.names(kind).is_empty(), "{kind}: {:?}", site.names(kind));
    }
    assert!(!site.names("NnfStorageProfile").is_empty(), "the profile is its administrator's");
}

#[test]
fn objects_of_other_controllers_stay() {
    let servers = json!({"spec": {}, "metadata": {"labels": {
        "dataworkflowservices.github.io/owner.kind": "NnfSystemStorage",
        "dataworkflowservices.github.io/owner.uid": "nnfsystemstorage-lock"}}});
    let site = site(json!({})).put("Servers default/lock", servers).settle().plans(&[]);
    let expected = "Major: Servers default/lock belongs to other storage, or another controller made it: its storage stays as it is; delete it, or give this NnfSystemStorage another name";
    assert_eq!(status(&site), expected);
    let site = site.delete(LOCK).settle().plans(&[]);
    assert_eq!(site.names("NnfSystemStorage"), ["default/lock"], "the finalizer stays");
    let site = site.without("Servers default/lock").settle();
    assert!(site.names("NnfSystemStorage").is_empty());
}

#[test]
fn nothing_is_removed_while_the_object_cannot_be_read() {
    let site = assert_ready(site(mounted(json!({}))));
    site.clone().unreadable(LOCK).plans(&[]);
    let mut unserved = site;
    unserved.unlisted.insert("NnfSystemStorage");
    unserved.plans(&[]);
}
