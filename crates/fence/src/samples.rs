//! Sample objects for tests, in the form in which central controllers create them.

use api::NnfNodeBlockStorage;
use serde_json::json;

use crate::chassis::Chassis;

pub(crate) const GFS2_UID: &str = "9a2a1017-e32b-40f1-940a-81c7b709810f";
pub(crate) const XFS_UID: &str = "1a2a1017-e32b-40f1-940a-81c7b709810f";

/// Computes in slots 0, 1 and 6; the gap is intended.
pub(crate) fn chassis() -> Chassis {
    let system = serde_json::from_value(json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"portsCooldownInSeconds": 0, "storageNodes": [{"type": "Rabbit", "name": "rabbit-1", "computesAccess": [
            {"name": "compute-01", "index": 0}, {"name": "compute-02", "index": 1}, {"name": "compute-03", "index": 6}]}]}
    }));
    Chassis::new(&"rabbit-1".parse().unwrap(), Some(&system.unwrap()))
}

/// Returns a block storage with one allocation, to which compute-03 has access.
pub(crate) fn block_storage(uid: &str, file_system: &str) -> NnfNodeBlockStorage {
    let labels = json!({"nnf.cray.hpe.com/allocationset": file_system});
    serde_json::from_value(json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeBlockStorage",
        "metadata": {"name": "default-job-7-0-0", "namespace": "rabbit-1", "uid": uid, "labels": labels},
        "spec": {"sharedAllocation": false, "allocations": [{"capacity": 1, "access": ["compute-03"]}]}
    }))
    .unwrap()
}
