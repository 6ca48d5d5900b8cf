//! System storage: its rabbits, computes and objects.

mod ends;
mod refusals;

use serde_json::{Value, json};

use super::{GIB, Objects};
use crate::{shipped, world::Key};

const LOCK: &str = "NnfSystemStorage default/lock";
const PROFILE: &str = "NnfStorageProfile default/lock";
const SYSTEM: &str = "SystemConfiguration default/default";
const ON_R: &str = "NnfNodeBlockStorage r/default-lock-system-storage-0";
const ON_S: &str = "NnfNodeBlockStorage s/default-lock-system-storage-0";

/// Returns a site with a system storage `lock` that has these fields, before the engine sees the storage.
fn site(spec: &Value) -> Objects {
    let mut profile = json!(shipped::profile());
    (profile["data"]["pinned"], profile["data"]["default"]) = (json!(true), json!(false));
    let mut all = json!({"capacity": GIB,
        "storageProfile": {"kind": "NnfStorageProfile", "name": "lock", "namespace": "default"}});
    json_patch::merge(&mut all, spec);
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
    let site = site(&json!({}))
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
    let site = assert_ready(site(&mounted(json!({"shared": false, "computesTarget": "even"}))));
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
        let site = assert_ready(site(&json!({"type": "gfs2", "computesTarget": target})));
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
        let site = assert_ready(site(&spec));
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
        let site = assert_ready(site(&spec));
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
    let site = assert_ready(site(&spec));
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
    let site = assert_ready(site(&spec)).dead("c1");
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
fn computes_that_are_down_are_ignored_if_the_storage_says_so() {
    let down = json!({"data": {"nodes": {"c2": "Disabled"}}});
    let put = |site: Objects| site.put("SystemStatus default/default", down.clone()).dead("c2");
    let waits = put(site(&mounted(json!({})))).settle();
    assert_eq!(status(&waits), "false");
    let site = assert_ready(put(site(&mounted(json!({"ignoreOfflineComputes": true})))));
    assert_eq!(access(&site, ON_R), [["r", "c1", "c3"]]);
    let up = json!({"data": {"nodes": {"c2": null}}});
    let site = site.then_wakes(&key(), "SystemStatus default/default", &up).settle();
    assert_eq!(access(&site, ON_R), [["r", "c1", "c2", "c3"]]);
}
