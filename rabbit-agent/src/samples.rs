//! Sample objects for tests, in the form in which central controllers create them.

use std::collections::BTreeSet;

use api::{
    ClientMount, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, SystemConfiguration,
};
use fence::chassis::Chassis;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use storage::desired::{Allocation, Spread};

use crate::kinds::block_storage::desired::{AllocationPolicy, Elsewhere, desired};

pub(crate) const OWNER: &str = "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11";
pub(crate) const BLOCK_UID: &str = "9a2a1017-e32b-40f1-940a-81c7b709810f";
pub(crate) const NAME: &str = "default-job-7-0-xfs-0";

pub(crate) fn started() -> Time {
    Time("2026-06-01T07:12:09Z".parse().unwrap())
}

/// Computes in slots 0, 1 and 6; the gap is intended.
pub(crate) fn system() -> SystemConfiguration {
    serde_json::from_value(json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"portsCooldownInSeconds": 0, "storageNodes": [{"type": "Rabbit", "name": "rabbit-1", "computesAccess": [
            {"name": "compute-01", "index": 0}, {"name": "compute-02", "index": 1}, {"name": "compute-03", "index": 6}]}]}
    }))
    .unwrap()
}

pub(crate) fn chassis() -> Chassis {
    Chassis::new(&"rabbit-1".parse().unwrap(), Some(&system()))
}

fn labels() -> serde_json::Value {
    json!({
        "dataworkflowservices.github.io/workflow.name": "job-7",
        "dataworkflowservices.github.io/workflow.namespace": "default",
        "dataworkflowservices.github.io/workflow.uid": "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21",
        "dataworkflowservices.github.io/owner.kind": "NnfStorage",
        "dataworkflowservices.github.io/owner.name": "job-7-0",
        "dataworkflowservices.github.io/owner.namespace": "default",
        "dataworkflowservices.github.io/owner.uid": OWNER,
        "nnf.cray.hpe.com/directive_index": "0",
        "nnf.cray.hpe.com/job_id": "287341",
        "nnf.cray.hpe.com/pinned_storage_profile_name": "job-7-0",
        "nnf.cray.hpe.com/pinned_storage_profile_namespace": "default"
    })
}

pub(crate) fn block_storage(allocations: &[(i64, &[&str])]) -> NnfNodeBlockStorage {
    let allocations: Vec<_> = allocations
        .iter()
        .map(|(capacity, access)| json!({"capacity": capacity, "access": access}))
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeBlockStorage",
        "metadata": {"name": NAME, "namespace": "rabbit-1", "uid": BLOCK_UID, "generation": 1, "labels": labels()},
        "spec": {"sharedAllocation": false, "allocations": allocations}
    }))
    .unwrap()
}

/// A policy that uses one drive for each allocation.
pub(crate) const POLICY: AllocationPolicy = AllocationPolicy { spread: Spread::ONE, replace: true };

/// Returns the allocations that the object asks for when the rabbit has no other object.
pub(crate) fn allocations(object: &NnfNodeBlockStorage) -> Vec<Allocation> {
    desired(object, &chassis(), POLICY, &Elsewhere::Reported(BTreeSet::new())).unwrap()
}

/// Returns a block storage as the rabbit reports it, with one device for each allocation.
pub(crate) fn block_storage_ready(count: usize) -> NnfNodeBlockStorage {
    let mut object = block_storage(&vec![(1 << 30, &["rabbit-1"][..]); count]);
    let allocations: Vec<_> = (0..count)
        .map(|index| {
            json!({
                "accesses": {"rabbit-1": {"storageGroupId": format!("{NAME}-{index}-0"), "devicePaths": [format!("/dev/loop{index}")]}},
                "devices": [{"NQN": "nqn.2026-01.io.warren:d0", "namespaceId": (index + 1).to_string(), "capacityAllocated": 1 << 30}],
                "capacityAllocated": 1 << 30, "storagePoolId": format!("{NAME}-{index}")
            })
        })
        .collect();
    let status =
        json!({"ready": true, "podStartTime": "2026-06-01T07:12:09Z", "allocations": allocations});
    object.status = Some(serde_json::from_value(status).unwrap());
    object
}

pub(crate) fn node_storage(count: i64, kind: &str) -> NnfNodeStorage {
    serde_json::from_value(json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeStorage",
        "metadata": {"name": NAME, "namespace": "rabbit-1", "uid": "3e92c060-ca0e-4ddb-905b-3d24137cbff4", "generation": 1, "labels": labels()},
        "spec": {
            "count": count, "sharedAllocation": false, "capacity": 1 << 30, "userID": 1050, "groupID": 1051,
            "fileSystemType": kind, "lustreStorage": {"lustreComponents": {}},
            "commandVariables": [{"name": "$JOBID", "value": "287341"}, {"name": "$USERID", "value": "1050"}, {"name": "$GROUPID", "value": "1051"}],
            "blockReference": {"kind": "NnfNodeBlockStorage", "name": NAME, "namespace": "rabbit-1"}
        }
    }))
    .unwrap()
}

pub(crate) fn profile() -> NnfStorageProfile {
    let storage = json!({
        "blockDeviceCommands": {"sharedVg": false, "rabbitCommands": {}, "computeCommands": {}},
        "fileSystemCommands": {
            "rabbitCommands": {"mkfs": "$DEVICE", "mount": "$DEVICE $MOUNT_PATH", "unmount": "$MOUNT_PATH"},
            "computeCommands": {"mount": "$DEVICE $MOUNT_PATH", "unmount": "$MOUNT_PATH"}},
        "userCommands": {"postSetup": ["chown $USERID:$GROUPID $MOUNT_PATH"]}
    });
    let raw = json!({
        "blockDeviceCommands": {"sharedVg": false},
        "fileSystemCommands": {"rabbitCommands": {"mount": "-o bind $DEVICE $MOUNT_PATH", "unmount": "$MOUNT_PATH"}}
    });
    serde_json::from_value(json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfStorageProfile",
        "metadata": {"name": "job-7-0", "namespace": "default", "uid": "6278aa5f-52f7-4d6e-81fc-fbf041b2a9c2"},
        "data": {"default": false, "pinned": true, "xfsStorage": storage, "rawStorage": raw}
    }))
    .unwrap()
}

/// Returns a rabbit's ClientMount that mounts allocations 0 to `count` as an index tree.
pub(crate) fn client_mount(count: usize) -> ClientMount {
    let mut labels = labels();
    labels["nnf.cray.hpe.com/target_directive_index"] = json!("0");
    labels["nnf.cray.hpe.com/target_owner_uid"] = json!(OWNER);
    let mounts: Vec<_> = (0..count)
        .map(|index| {
            json!({
                "mountPath": format!("/mnt/nnf/3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21-0/node-{index}"),
                "setPermissions": false, "options": "", "type": "xfs", "targetType": "directory",
                "compute": format!("compute-0{}", index + 1),
                "device": {"type": "reference", "deviceReference": {
                    "objectReference": {"kind": "NnfNodeStorage", "name": NAME, "namespace": "rabbit-1"}, "data": index}}
            })
        })
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "ClientMount",
        "metadata": {"name": "default-job-7-0-servers", "namespace": "rabbit-1", "uid": "77e52a52-66bb-4a72-8c64-7f7f0b0f2b11", "generation": 1, "labels": labels},
        "spec": {"node": "rabbit-1", "desiredState": "mounted", "mounts": mounts}
    }))
    .unwrap()
}
