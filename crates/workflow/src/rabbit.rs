//! Derives the Storage of each rabbit, which workload managers read, from the NnfNode that the
//! rabbit's agent writes. Pure.

use api::{
    NnfNodeStatus, Storage, StorageSpec, StorageStatus, SystemConfiguration,
    names::{DWS_GROUP, STORAGE_LABEL_RABBIT, STORAGE_NAMESPACE, annotation, label},
    nnf_node::{NnfDriveStatus, NnfResourceStatus},
    nnf_node_storage::NnfStorageHealth,
    storage::{
        ResourceStatus, StorageAccess, StorageAccessProtocol, StorageDevice, StorageMode,
        StorageNode, StorageState, StorageType,
    },
};
use controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{
    change::Change,
    objects::{
        sessions::{Contact, Silence},
        site::Site,
    },
    plan::Plan,
};

/// Plans the Storage of a rabbit; also returns the time at which the rabbit's agent will count as silent, if it has lost
/// its session. The Storage of a rabbit that the system no longer has stays unchanged, as a record.
#[must_use]
pub fn plan(site: &Site, rabbit: &str, now: Timestamp) -> Plan {
    let Some(system) = site.system.as_ref().filter(|_| site.rabbits().contains(rabbit)) else {
        return Plan::default();
    };
    let Some(storage) = site.storages.get(rabbit) else {
        let changes = vec![Change::create(&new_storage(system, rabbit))];
        return Plan { changes, ..Plan::default() };
    };
    if storage.spec.mode != StorageMode::Live {
        return Plan::default();
    }
    let contact = site.contact(rabbit, now);
    let is_news = contact == Contact::Open && !site.had_session(rabbit);
    let noting = is_news.then(|| note_session(storage)).flatten();
    let updating = update_status(site, rabbit, storage, contact).or(noting);
    let replan_at = if let Contact::Ended(due) = contact { Some(due) } else { None };
    Plan { changes: updating.into_iter().collect(), replan_at, ..Plan::default() }
}

/// Plans the annotation that says that the rabbit's agent had a session: a coordinator that has just begun then knows
/// that an agent without a session is silent.
fn note_session(storage: &Storage) -> Option<Change> {
    let mut after = storage.clone();
    after.annotations_mut().insert(annotation::HAD_SESSION.to_owned(), "true".to_owned());
    Change::patch(storage, &after)
}

fn update_status(site: &Site, rabbit: &str, storage: &Storage, contact: Contact) -> Option<Change> {
    let node = site.nodes.get(rabbit)?.status.clone().unwrap_or_default();
    let drain = site.drained.get(rabbit).map(String::as_str);
    let mut after = storage.clone();
    let failures = [failed_drives(&node), unhealthy_storage(site, rabbit)].concat();
    after.status = Some(storage_status(storage, &node, drain, contact, &failures));
    Change::status(storage, &after)
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
/// Disabled by an administrator, a fence, a silent agent, a taint that drains the Kubernetes Node, the agent's report.
/// Devices and links stay as the agent last reported them.
fn storage_status(
    storage: &Storage,
    node: &NnfNodeStatus,
    drain: Option<&str>,
    contact: Contact,
    failures: &[String],
) -> StorageStatus {
    let server = |server: &api::nnf_node::NnfServerStatus| StorageNode {
        name: server.hostname.clone(),
        status: server.status.as_ref().map(to_resource_status),
    };
    let is_rabbit = |server: &&api::nnf_node::NnfServerStatus| server.id == "0";
    let mut servers = node.servers.iter().filter(is_rabbit).map(server).collect::<Vec<_>>();
    servers.iter_mut().for_each(|server| server.name = storage.name_any());
    let computes =
        node.servers.iter().filter(|server| !is_rabbit(server) && !server.hostname.is_empty());
    let reported = || node.status.as_ref().map(to_resource_status);
    let (whole, message) = match (&storage.spec.state, contact) {
        (StorageState::Disabled, _) => (Some(ResourceStatus::Disabled), String::new()),
        _ if node.fenced => (Some(ResourceStatus::Degraded), String::new()),
        (_, Contact::Silent(silence)) => {
            (Some(ResourceStatus::Offline), silent_message(&storage.name_any(), silence))
        }
        _ => match (drain, failures) {
            (Some(taint), _) => {
                (Some(ResourceStatus::Drained), format!("Kubernetes node is tainted with {taint}"))
            }
            (None, failures)
                if reported() == Some(ResourceStatus::Ready) && !failures.is_empty() =>
            {
                (Some(ResourceStatus::Degraded), failures.join("; "))
            }
            (None, failures) => (reported(), failures.join("; ")),
        },
    };
    let is_disabled = storage.spec.state == StorageState::Disabled;
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
        reboot_required: node.fenced && !is_disabled,
        message,
    }
}

fn silent_message(rabbit: &str, silence: Silence) -> String {
    format!(
        "the agent of {rabbit} is {silence}: see whether the machine runs, and `systemctl status rabbit-agent` there; the status of drives and links is the last one that it reported"
    )
}

/// Describes the file systems on a rabbit that are not healthy: their volume groups lack drives, or they cannot be used.
fn unhealthy_storage(site: &Site, rabbit: &str) -> Vec<String> {
    let first = (rabbit.to_owned(), String::new());
    let all = site.unhealthy.range(first..).take_while(|((on, _), _)| on == rabbit);
    let describe = |((_, name), health): (&ObjectKey, &NnfStorageHealth)| {
        format!("the volumes of NnfNodeStorage {name} are {health}")
    };
    all.map(describe).collect()
}

/// Describes each drive that has failed; a drive whose link is lost is Offline. A compute's link is not among them: its
/// failure shows at that compute.
fn failed_drives(node: &NnfNodeStatus) -> Vec<String> {
    let has_failed = |drive: &&NnfDriveStatus| {
        matches!(drive.status, Some(NnfResourceStatus::Offline | NnfResourceStatus::Failed))
    };
    let describe = |drive: &NnfDriveStatus| {
        let status = drive.status.as_ref().map_or("", NnfResourceStatus::as_str);
        format!(
            "the drive in slot {} (serial number {:?}) is {status}",
            drive.slot, drive.serial_number
        )
    };
    node.drives.iter().filter(has_failed).map(describe).collect()
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
    use crate::objects::sessions::{SessionChange, Sessions};

    fn captured<K: serde::de::DeserializeOwned>(name: &str) -> K {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/captured");
        let text = std::fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        serde_json::from_value(value).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn changes(site: &Site, rabbit: &str) -> Vec<Change> {
        plan(site, rabbit, at(0)).changes
    }

    /// Returns a site with the captured rabbit, whose Storage is up to date.
    fn captured_site() -> (Site, String) {
        let mut site = Site::default();
        site.set_system(Some(Arc::new(captured("systemconfiguration"))));
        let storage: Storage = captured("storage");
        let rabbit = storage.name_any();
        site.nodes.insert(rabbit.clone(), Arc::new(captured("nnfnode")));
        site.storages.insert(rabbit.clone(), Arc::new(storage));
        (site, rabbit)
    }

    /// Returns the status and the message that the plan writes.
    fn written(plan: &Plan) -> (Value, Value) {
        let [Change::Status(_, patch)] = &plan.changes[..] else { panic!("{plan:?}") };
        let patch = serde_json::to_value(patch).unwrap();
        let value = |path: &str| {
            let operations = patch.as_array().unwrap().iter();
            let mut found = operations.filter(|operation| operation["path"] == path);
            found.next().map(|operation| operation["value"].clone()).unwrap_or_default()
        };
        (value("/status/status"), value("/status/message"))
    }

    /// Compares with the Storage that the Go controllers made from the same NnfNode.
    #[test]
    fn plan_writes_the_same_storage_as_the_go_controllers() {
        let seen: Storage = captured("storage");
        let node = captured::<api::NnfNode>("nnfnode").status.unwrap();
        let status = storage_status(&seen, &node, None, Contact::Unknown, &[]);
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
        assert!(matches!(changes(&site, &rabbit)[..], [Change::Create(..)]));
        site.storages.insert(rabbit.clone(), Arc::new(storage.clone()));
        assert_eq!(changes(&site, &rabbit), []);
        storage.spec.state = StorageState::Disabled;
        let whole = |node: &api::NnfNode, storage: &Storage| {
            let node = node.status.as_ref().unwrap();
            let status = storage_status(storage, node, None, Contact::Unknown, &[]);
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
        let drained = format!("{:?}", changes(&site, &rabbit));
        assert!(drained.contains("Drained"), "{drained}");
        assert!(
            drained.contains("Kubernetes node is tainted with cray.nnf.node.drain"),
            "{drained}"
        );
        site.drained.clear();
        assert_eq!(changes(&site, &rabbit), [], "the taint is gone");
        storage.spec.mode = StorageMode::Testing;
        site.storages.insert(rabbit.clone(), Arc::new(storage));
        site.nodes.insert(rabbit.clone(), Arc::new(node));
        assert_eq!(changes(&site, &rabbit), [], "mode Testing");
        assert_eq!(changes(&site, "unknown-rabbit"), []);
    }

    #[test]
    fn a_silent_rabbit_is_offline_after_the_limit_and_ready_again_with_its_next_session() {
        let (mut site, rabbit) = captured_site();
        site.settings.silent_after = Some(std::time::Duration::from_secs(60));
        let session = |is_open, second| SessionChange {
            node: "rabbit-1".to_owned(),
            is_open,
            at: at(second),
        };
        assert_eq!(rabbit, "rabbit-1");
        site.sessions.begin(at(0));
        site.sessions.record(session(true, 1));
        let [Change::Patch(target, patch)] = &plan(&site, &rabbit, at(1)).changes[..] else {
            panic!("the session is noted")
        };
        assert!(
            target.to_string().contains(&rabbit) && format!("{patch:?}").contains("had-session")
        );
        let mut storage = Storage::clone(&site.storages[&rabbit]);
        storage.annotations_mut().insert(annotation::HAD_SESSION.to_owned(), "true".to_owned());
        site.storages.insert(rabbit.clone(), Arc::new(storage));
        assert_eq!(plan(&site, &rabbit, at(1)).changes, []);

        site.sessions.record(session(false, 100));
        let soon = plan(&site, &rabbit, at(159));
        assert_eq!((soon.changes, soon.replan_at), (Vec::new(), Some(at(160))));
        let (status, message) = written(&plan(&site, &rabbit, at(160)));
        assert_eq!(status, "Offline");
        let message = message.as_str().unwrap();
        assert!(message.starts_with("the agent of rabbit-1 is silent since 2027-"), "{message}");

        site.sessions.record(session(true, 200));
        assert_eq!(plan(&site, &rabbit, at(200)).changes, [], "the Storage is still Ready");

        let mut anew = site.clone();
        anew.sessions = Sessions::default();
        anew.sessions.begin(at(300));
        assert_eq!(plan(&anew, &rabbit, at(300)).replan_at, Some(at(360)));
        let (status, message) = written(&plan(&anew, &rabbit, at(360)));
        assert_eq!(status, "Offline");
        assert!(message.as_str().unwrap().contains("when this coordinator began"), "{message}");
    }

    #[test]
    fn a_rabbit_with_a_failed_drive_is_degraded_and_the_message_names_the_drive() {
        let (mut site, rabbit) = captured_site();
        let mut node = api::NnfNode::clone(&site.nodes[&rabbit]);
        let drive = &mut node.status.as_mut().unwrap().drives[2];
        drive.status = Some(NnfResourceStatus::Offline);
        let (slot, serial) = (drive.slot.clone(), drive.serial_number.clone());
        site.nodes.insert(rabbit.clone(), Arc::new(node));
        let (status, message) = written(&plan(&site, &rabbit, at(0)));
        assert_eq!(status, "Degraded");
        assert_eq!(
            message,
            format!("the drive in slot {slot} (serial number {serial:?}) is Offline")
        );
    }

    #[test]
    fn storage_that_lacks_a_drive_degrades_its_rabbit() {
        let (mut site, rabbit) = captured_site();
        let place = |rabbit: &str| (rabbit.to_owned(), "default-kept-xfs-0".to_owned());
        site.unhealthy.insert(place("another"), NnfStorageHealth::Degraded);
        assert_eq!(changes(&site, &rabbit), []);
        site.unhealthy.insert(place(&rabbit), NnfStorageHealth::Degraded);
        let (status, message) = written(&plan(&site, &rabbit, at(0)));
        assert_eq!(status, "Degraded");
        assert_eq!(message, "the volumes of NnfNodeStorage default-kept-xfs-0 are Degraded");
    }
}
