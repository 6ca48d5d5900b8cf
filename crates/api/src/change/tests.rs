use super::*;
use crate::client_mount::{ClientMountInfoStatus, MountState};
use crate::names::finalizer;
use crate::resource_error::ResourceError;
use crate::{ClientMount, ClientMountStatus, NnfNodeBlockStorage, NnfStorageProfile};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Returns what the server holds after an agent that knows only `T` has read `stored`, applied `edit`
/// and sent the difference.
fn rewrite<T>(stored: &Value, edit: impl FnOnce(&mut T)) -> Value
where
    T: Clone + DeserializeOwned + Serialize,
{
    let read: T = serde_json::from_value(stored.clone()).unwrap();
    let mut wanted = read.clone();
    edit(&mut wanted);
    let mut result = stored.clone();
    json_patch::patch(&mut result, &change(&read, &wanted).expect("the edit changes something"))
        .unwrap();
    result
}

fn client_mount() -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7",
        "kind": "ClientMount",
        "metadata": { "name": "m", "namespace": "compute-1", "resourceVersion": "7", "newMeta": { "a": 1 } },
        "newTop": true,
        "spec": {
            "node": "compute-1",
            "desiredState": "mounted",
            "newSpec": [1, 2],
            "mounts": [{
                "mountPath": "/mnt/a",
                "setPermissions": false,
                "options": "",
                "type": "xfs",
                "targetType": "directory",
                "newMount": "x",
                "device": { "type": "reference", "newDevice": { "deep": [{}] } },
            }],
        },
        "status": {
            "allReady": false,
            "newStatus": 1,
            "mounts": [
                { "state": "mounted", "ready": false, "reason": "first" },
                { "state": "mounted", "ready": true, "reason": "second" },
                { "state": "mounted", "ready": false, "reason": "third" },
            ],
        },
    })
}

#[test]
fn equal_values_need_no_write() {
    let read: ClientMount = serde_json::from_value(client_mount()).unwrap();
    assert_eq!(change(&read, &read.clone()), None);
    assert_eq!(guarded_change(&read, &read.clone()), None);
}

#[test]
fn unknown_members_survive_at_every_depth() {
    let stored = client_mount();
    let result = rewrite(&stored, |object: &mut ClientMount| {
        object.metadata.finalizers = Some(vec![finalizer::CLIENT_MOUNT.to_owned()]);
        object.spec.mounts[0].compute = Some("compute-1".to_owned());
        let status = object.status.as_mut().unwrap();
        status.all_ready = true;
        status.mounts[0].ready = true;
        status.mounts[2].ready = true;
        status.error = Some(ResourceError::new("x"));
    });
    let mut expected = stored;
    expected["metadata"]["finalizers"] = json!([finalizer::CLIENT_MOUNT]);
    expected["spec"]["mounts"][0]["compute"] = json!("compute-1");
    expected["status"]["allReady"] = json!(true);
    expected["status"]["mounts"][0]["ready"] = json!(true);
    expected["status"]["mounts"][2]["ready"] = json!(true);
    expected["status"]["error"] =
        json!({ "debugMessage": "x", "severity": "Minor", "type": "Internal" });
    assert_eq!(result, expected);
}

#[test]
fn removing_elements_keeps_the_unknown_members_of_the_others() {
    let mut stored = client_mount();
    stored["status"]["mounts"][2]["state"] = json!("unmounted");
    let result = rewrite(&stored, |object: &mut ClientMount| {
        object.status.as_mut().unwrap().mounts.remove(0);
    });
    assert_eq!(result["status"]["mounts"][0]["reason"], "second");
    assert_eq!(result["status"]["mounts"][1]["reason"], "third");
    assert_eq!(result["status"]["mounts"].as_array().unwrap().len(), 2);
}

#[test]
fn clearing_the_error_removes_only_the_error() {
    let mut stored = client_mount();
    stored["status"]["error"] =
        json!({ "debugMessage": "x", "severity": "Minor", "type": "Internal" });
    let read: ClientMount = serde_json::from_value(stored).unwrap();
    let mut wanted = read.clone();
    wanted.status.as_mut().unwrap().error = None;
    let patch = serde_json::to_value(change(&read, &wanted)).unwrap();
    assert_eq!(patch, json!([{ "op": "remove", "path": "/status/error" }]));
}

#[test]
fn first_status_is_added_as_a_whole() {
    let mut stored = client_mount();
    stored.as_object_mut().unwrap().remove("status");
    let result = rewrite(&stored, |object: &mut ClientMount| {
        object.status = Some(ClientMountStatus {
            mounts: vec![ClientMountInfoStatus { state: MountState::Mounted, ready: true }],
            all_ready: true,
            error: None,
        });
    });
    assert_eq!(
        result["status"],
        json!({ "allReady": true, "mounts": [{ "state": "mounted", "ready": true }] })
    );
}

#[test]
fn member_stored_as_its_zero_value_is_replaced() {
    let stored = json!({
        "metadata": {},
        "spec": { "sharedAllocation": false },
        "status": { "ready": false, "allocations": [{ "capacityAllocated": 0, "devices": [], "x": 1 }] },
    });
    let result = rewrite(&stored, |object: &mut NnfNodeBlockStorage| {
        let allocation = &mut object.status.as_mut().unwrap().allocations[0];
        allocation.capacity_allocated = 4096;
        allocation.accesses.entry("rabbit/1~".to_owned()).or_default().storage_group_id =
            "g".to_owned();
    });
    let expected = json!({
        "capacityAllocated": 4096, "devices": [], "x": 1, "accesses": { "rabbit/1~": { "storageGroupId": "g" } },
    });
    assert_eq!(result["status"]["allocations"][0], expected);
}

#[test]
fn defaulted_member_that_is_not_stored_can_be_set() {
    let stored = json!({ "metadata": {}, "data": { "xfsStorage": { "blockDeviceCommands": { "new": 1 } } } });
    let result = rewrite(&stored, |profile: &mut NnfStorageProfile| {
        profile.spec.data.pinned = true;
        profile.spec.data.xfs_storage.block_device_commands.shared_vg = true;
        profile.spec.data.gfs2_storage.file_system_commands.rabbit_commands.mkfs =
            "$DEVICE".to_owned();
    });
    assert_eq!(result["data"]["pinned"], true);
    assert_eq!(
        result["data"]["xfsStorage"]["blockDeviceCommands"],
        json!({ "new": 1, "sharedVg": true })
    );
    assert_eq!(
        result["data"]["gfs2Storage"]["fileSystemCommands"]["rabbitCommands"]["mkfs"],
        "$DEVICE"
    );
}

#[test]
fn guard_is_the_first_operation_and_names_the_version_read() {
    let read: ClientMount = serde_json::from_value(client_mount()).unwrap();
    let mut wanted = read.clone();
    wanted.status.as_mut().unwrap().all_ready = true;
    let patch = serde_json::to_value(guarded_change(&read, &wanted)).unwrap();
    let guard = json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": "7" });
    assert_eq!(patch, json!([guard, { "op": "add", "path": "/status/allReady", "value": true }]));
}

/// Patches every array of up to four elements out of three into every other.
#[test]
fn a_patch_turns_any_array_into_any_other() {
    let mut arrays = vec![vec![]];
    for _ in 0..4 {
        let longer: Vec<_> = arrays
            .iter()
            .flat_map(|array: &Vec<u8>| {
                (0..3).map(|element| [array.clone(), vec![element]].concat())
            })
            .collect();
        arrays.extend(longer);
        arrays.sort();
        arrays.dedup();
    }
    for before in &arrays {
        for after in &arrays {
            let mut document = json!(before);
            if let Some(patch) = change(before, after) {
                json_patch::patch(&mut document, &patch).unwrap();
            }
            assert_eq!(document, json!(after), "from {before:?}");
        }
    }
}
