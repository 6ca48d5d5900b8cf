//! Derives the Storage of each rabbit, which workload managers read, from the NnfNode that the
//! rabbit's agent writes. Pure.

use api::{
    NnfNodeStatus, Storage, StorageSpec, StorageStatus, SystemConfiguration,
    names::{DWS_GROUP, STORAGE_LABEL_RABBIT, STORAGE_NAMESPACE, label},
    nnf_node::NnfResourceStatus,
    storage::{
        ResourceStatus, StorageAccess, StorageAccessProtocol, StorageDevice, StorageMode,
        StorageNode, StorageState, StorageType,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;

use crate::{change::Change, objects::site::Site};

/// Plans the Storage of a rabbit. The Storage of a rabbit that the system no longer has stays unchanged, as a record.
#[must_use]
pub fn plan(site: &Site, rabbit: &str) -> Option<Change> {
    let system = site.system.as_ref()?;
    if !site.rabbits().contains(rabbit) {
        return None;
    }
    let Some(storage) = site.storages.get(rabbit) else {
        return Some(Change::create(&new_storage(system, rabbit)));
    };
    if storage.spec.mode != StorageMode::Live {
        return None;
    }
    let node = site.nodes.get(rabbit)?.status.clone().unwrap_or_default();
    let mut after = Storage::clone(storage);
    after.status =
        Some(storage_status(storage, &node, site.drained.get(rabbit).map(String::as_str)));
    Change::status(&**storage, &after)
}

fn new_storage(system: &SystemConfiguration, rabbit: &str) -> Storage {
    let (name, namespace) = (system.name_any(), system.namespace().unwrap_or_default());
    let uid = system.uid().unwrap_or_default();
    let labels = [
        (label::STORAGE, STORAGE_LABEL_RABBIT.to_owned()),
        (label::OWNER_KIND, "SystemConfiguration".to_owned()),
        (label::OWNER_NAME, name.clone()),
        (label::OWNER_NAMESPACE, namespace),
        (label::OWNER_UID, uid.clone()),
    ];
    let owner = OwnerReference {
        api_version: format!("{DWS_GROUP}/v1alpha7"),
        kind: "SystemConfiguration".to_owned(),
        name,
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        name: Some(rabbit.to_owned()),
        namespace: Some(STORAGE_NAMESPACE.to_owned()),
        labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    Storage { metadata, spec: StorageSpec::default(), status: None }
}

/// Returns the status of a rabbit's Storage. The first applicable cause decides, in the order of the Go controllers:
/// Disabled by an administrator, a fence, a taint that drains the Kubernetes Node, the agent's report.
fn storage_status(storage: &Storage, node: &NnfNodeStatus, drain: Option<&str>) -> StorageStatus {
    let server = |server: &api::nnf_node::NnfServerStatus| StorageNode {
        name: server.hostname.clone(),
        status: server.status.as_ref().map(to_resource_status),
    };
    let is_rabbit = |server: &&api::nnf_node::NnfServerStatus| server.id == "0";
    let mut servers = node.servers.iter().filter(is_rabbit).map(server).collect::<Vec<_>>();
    servers.iter_mut().for_each(|server| server.name = storage.name_any());
    let computes =
        node.servers.iter().filter(|server| !is_rabbit(server) && !server.hostname.is_empty());
    let (whole, reboot) = match storage.spec.state {
        StorageState::Disabled => (Some(ResourceStatus::Disabled), false),
        _ if node.fenced => (Some(ResourceStatus::Degraded), true),
        _ if drain.is_some() => (Some(ResourceStatus::Drained), false),
        _ => (node.status.as_ref().map(to_resource_status), false),
    };
    let drained = drain.filter(|_| whole == Some(ResourceStatus::Drained));
    let message = drained.map(|taint| format!("Kubernetes node is tainted with {taint}"));
    StorageStatus {
        kind: Some(StorageType::Nvme),
        devices: node.drives.iter().map(storage_device).collect(),
        access: StorageAccess {
            protocol: Some(StorageAccessProtocol::Pcie),
            servers,
            computes: computes.map(server).collect(),
        }
        .into(),
        capacity: node.capacity,
        status: whole,
        reboot_required: reboot,
        message: message.unwrap_or_default(),
    }
}

fn storage_device(drive: &api::nnf_node::NnfDriveStatus) -> StorageDevice {
    let status = drive.status.as_ref().map(to_resource_status);
    let bare = StorageDevice { slot: drive.slot.clone(), status, ..StorageDevice::default() };
    if bare.status != Some(ResourceStatus::Ready) {
        return bare;
    }
    StorageDevice {
        model: drive.model.clone(),
        serial_number: drive.serial_number.clone(),
        firmware_version: drive.firmware_version.clone(),
        capacity: drive.capacity,
        wear_level: Some(drive.wear_level),
        ..bare
    }
}

fn to_resource_status(status: &NnfResourceStatus) -> ResourceStatus {
    match status.as_str() {
        "Starting" => ResourceStatus::Starting,
        "Ready" => ResourceStatus::Ready,
        "Disabled" => ResourceStatus::Disabled,
        "NotPresent" => ResourceStatus::NotPresent,
        "Offline" => ResourceStatus::Offline,
        "Failed" => ResourceStatus::Failed,
        "Fenced" => ResourceStatus::Fenced,
        _ => ResourceStatus::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;

    fn captured<K: serde::de::DeserializeOwned>(name: &str) -> K {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/captured");
        let text = std::fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        serde_json::from_value(value).unwrap()
    }

    /// Compares with the Storage that the Go controllers made from the same NnfNode.
    #[test]
    fn plan_writes_the_same_storage_as_the_go_controllers() {
        let seen: Storage = captured("storage");
        let node = captured::<api::NnfNode>("nnfnode").status.unwrap();
        let status = storage_status(&seen, &node, None);
        assert_eq!(Some(&status), seen.status.as_ref());
        let system: SystemConfiguration = captured("systemconfiguration");
        let made = new_storage(&system, &seen.name_any());
        assert_eq!(made.metadata.labels, seen.metadata.labels);
        assert_eq!(made.metadata.owner_references, seen.metadata.owner_references);
    }

    #[test]
    fn disabled_fenced_and_drained_rabbits_are_reported_and_no_unchanged_status_is_written() {
        let mut site = Site::default();
        site.set_system(Some(Arc::new(captured("systemconfiguration"))));
        let (mut storage, mut node): (Storage, api::NnfNode) =
            (captured("storage"), captured("nnfnode"));
        let rabbit = storage.name_any();
        site.nodes.insert(rabbit.clone(), Arc::new(node.clone()));
        assert!(matches!(plan(&site, &rabbit), Some(Change::Create(..))));
        site.storages.insert(rabbit.clone(), Arc::new(storage.clone()));
        assert_eq!(plan(&site, &rabbit), None);
        storage.spec.state = StorageState::Disabled;
        let whole = |node: &api::NnfNode, storage: &Storage| {
            let status = storage_status(storage, node.status.as_ref().unwrap(), None);
            (status.status, status.reboot_required)
        };
        assert_eq!(whole(&node, &storage), (Some(ResourceStatus::Disabled), false));
        storage.spec.state = StorageState::Enabled;
        node.status.as_mut().unwrap().fenced = true;
        assert_eq!(whole(&node, &storage), (Some(ResourceStatus::Degraded), true));
        node.status.as_mut().unwrap().fenced = false;
        site.nodes.insert(rabbit.clone(), Arc::new(node.clone()));
        site.drained.insert(rabbit.clone(), "cray.nnf.node.drain".to_owned());
        site.storages.insert(rabbit.clone(), Arc::new(storage.clone()));
        let drained = format!("{:?}", plan(&site, &rabbit).unwrap());
        assert!(drained.contains("Drained"), "{drained}");
        assert!(
            drained.contains("Kubernetes node is tainted with cray.nnf.node.drain"),
            "{drained}"
        );
        site.drained.clear();
        assert_eq!(plan(&site, &rabbit), None, "the taint is gone");
        storage.spec.mode = StorageMode::Testing;
        site.storages.insert(rabbit.clone(), Arc::new(storage));
        site.nodes.insert(rabbit.clone(), Arc::new(node));
        assert_eq!(plan(&site, &rabbit), None, "mode Testing");
        assert_eq!(plan(&site, "unknown-rabbit"), None);
    }
}
