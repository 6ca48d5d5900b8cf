//! Creates the ClientMounts of a directive's storage.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    ClientMount, ClientMountSpec,
    client_mount::{
        ClientMountDevice, ClientMountDeviceLvm, ClientMountDeviceReference, ClientMountInfo,
        ClientMountNvmeInfo, DeviceType, FileSystemKind, LvmDeviceType, MountState, TargetType,
    },
    names::label,
};
use controller::ObjectKey;
use directive::FileSystem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::desire;
use crate::{
    change::Change,
    names::{directive_object_name, mount_labels, reference, storage_uid},
    objects::{
        allocation::{Allocation, Slot, slot},
        mount::{is_mounted, mount_path},
        site::IndexNames,
        view::{Group, View},
    },
    progress::Progress,
};

/// The progress of mounts: the changes to make next, and the nodes whose mounts are not complete.
#[derive(Debug, Default)]
pub struct MountProgress {
    pub changes: Vec<Change>,
    pub nodes: BTreeSet<String>,
    /// Rabbits on which the nodes with incomplete mounts depend.
    pub rabbits: BTreeSet<String>,
}

impl MountProgress {
    pub fn and(mut self, other: Self) -> Self {
        self.changes.extend(other.changes);
        self.nodes.extend(other.nodes);
        self.rabbits.extend(other.rabbits);
        self
    }

    /// Returns the progress of a node that has not mounted everything yet, with the changes that it needs.
    fn wait_for(name: &str, changes: impl IntoIterator<Item = Change>) -> Self {
        let nodes = BTreeSet::from([name.to_owned()]);
        Self { changes: changes.into_iter().collect(), nodes, rabbits: BTreeSet::new() }
    }

    /// Returns the wait for these nodes, or their worst error. Errors of all other nodes are ignored: the job may
    /// proceed without those nodes.
    pub fn progress(self, group: &Group, what: &str) -> Progress {
        let is_needed = |node: &String| self.nodes.contains(node) || self.rabbits.contains(node);
        let error = group.error_of(|object| object.namespace.as_ref().is_some_and(is_needed));
        let progress = match error {
            _ if self.nodes.is_empty() => Progress::default(),
            Some(error) => Progress::failed(error),
            None => Progress::wait_on(what, self.nodes.iter().map(String::as_str))
                .awaiting(self.rabbits.iter().map(String::as_str)),
        };
        progress.with(self.changes)
    }
}

/// Plans the ClientMounts of one directive.
#[derive(Debug)]
pub struct MountMaker<'a> {
    pub view: &'a View<'a>,
    pub index: usize,
    pub file_system: FileSystem,
    pub group: &'a Group,
}

impl MountMaker<'_> {
    /// Returns the key of a node's ClientMount for this directive. `end` is the last part of the ClientMount's name.
    pub fn mount_key(&self, node: &str, end: &str) -> ObjectKey {
        let name = directive_object_name(&self.view.workflow, self.index);
        (node.to_owned(), format!("{}-{name}-{end}", self.view.namespace()))
    }

    /// Sets an existing mount to Mounted, or creates the mount with `new`; then waits until the node has
    /// mounted all of it.
    pub fn mount_or_create(
        &self,
        at: &ObjectKey,
        new: impl FnOnce() -> Option<Change>,
    ) -> MountProgress {
        match self.group.mounts.get(at) {
            Some(mount) if is_mounted(mount) => MountProgress::default(),
            Some(mount) => MountProgress::wait_for(&at.0, desire(mount, MountState::Mounted)),
            None => MountProgress::wait_for(&at.0, new()),
        }
    }

    /// Mounts an allocation on a compute.
    pub fn mount_on_compute(&self, compute: &str, slot: &Slot) -> MountProgress {
        self.mount_at(&self.mount_key(compute, "computes"), slot)
    }

    /// Mounts an allocation on a compute, by the ClientMount with this key.
    pub fn mount_at(&self, at: &ObjectKey, slot: &Slot) -> MountProgress {
        let mut waited = self.mount_or_create(at, || self.new_compute_mount(at, slot));
        if !waited.nodes.is_empty() {
            waited.rabbits.insert(slot.rabbit.clone());
        }
        waited
    }

    /// Creates a compute's mount, once the rabbit has made the file system and given access.
    fn new_compute_mount(&self, at: &ObjectKey, slot: &Slot) -> Option<Change> {
        let block = self.group.blocks.get(&(slot.rabbit.clone(), slot.name.clone()))?;
        let file_system = self.group.file_systems.get(&(slot.rabbit.clone(), slot.name.clone()))?;
        if !file_system.status.as_ref().is_some_and(|status| status.ready) {
            return None;
        }
        let place =
            if block.spec.shared_allocation { 0 } else { usize::try_from(slot.index).ok()? };
        let allocation = block.status.as_ref()?.allocations.get(place)?;
        let access = allocation.accesses.get(&at.0)?;
        if access.storage_group_id.is_empty() {
            return None;
        }
        let namespaces = allocation.devices.iter().map(|device| ClientMountNvmeInfo {
            device_serial: device.nqn.clone(),
            namespace_id: device.namespace_id.clone(),
            namespace_guid: String::new(),
        });
        let lvm = ClientMountDeviceLvm {
            device_type: LvmDeviceType::Nvme,
            nvme_info: namespaces.collect(),
            volume_group: String::new(),
            logical_volume: String::new(),
        };
        let device = ClientMountDevice { lvm: Some(lvm), ..self.device(DeviceType::Lvm, slot) };
        let mount = self.mount_info(self.path(), device, None);
        Some(Change::create(&self.client_mount(at, vec![mount])?))
    }

    /// Mounts a rabbit's allocations on the rabbit itself. `computes_of` is the compute of each allocation.
    pub fn mount_on_rabbit(
        &self,
        rabbit: &str,
        here: &[&Allocation],
        computes_of: &BTreeMap<&Slot, &str>,
    ) -> MountProgress {
        let at = self.mount_key(rabbit, "servers");
        match self.group.mounts.get(&at).and_then(|mount| relink(mount, computes_of)) {
            Some(change) => MountProgress::wait_for(rabbit, [change]),
            None => self.mount_or_create(&at, || self.new_rabbit_tree(&at, here, computes_of)),
        }
    }

    /// Creates the mount of a rabbit, which mounts each of its allocations in a directory of the index tree.
    fn new_rabbit_tree(
        &self,
        at: &ObjectKey,
        here: &[&Allocation],
        computes_of: &BTreeMap<&Slot, &str>,
    ) -> Option<Change> {
        let here: Vec<(&Allocation, i64)> = here
            .iter()
            .flat_map(|allocation| (0..allocation.count).map(move |index| (*allocation, index)))
            .collect();
        let is_ready = |allocation: &Allocation| {
            let file_system =
                self.group.file_systems.get(&(allocation.rabbit.clone(), allocation.name.clone()));
            file_system
                .and_then(|file_system| file_system.status.as_ref())
                .is_some_and(|status| status.ready)
        };
        if !here.iter().all(|(allocation, _)| is_ready(allocation)) {
            return None;
        }
        let mount = |(allocation, index): &(&Allocation, i64)| {
            let slot = Slot {
                rabbit: allocation.rabbit.clone(),
                name: allocation.name.clone(),
                index: *index,
            };
            let compute = computes_of.get(&slot).map(|compute| (*compute).to_owned());
            let path = self.path_on_rabbit(allocation, *index);
            self.mount_info(path, self.device(DeviceType::Reference, &slot), compute)
        };
        self.new_rabbit_mount(at, here.iter().map(mount).collect())
    }

    /// Creates a rabbit's mount. A label names the state in which the mount is unmounted: PreRun for an XFS, which
    /// must be unmounted on the rabbit before a compute mounts it, else PostRun.
    pub fn new_rabbit_mount(&self, at: &ObjectKey, mounts: Vec<ClientMountInfo>) -> Option<Change> {
        let mut object = self.client_mount(at, mounts)?;
        let state = if self.file_system == FileSystem::Xfs { "PreRun" } else { "PostRun" };
        object.labels_mut().insert(label::TEARDOWN_STATE.to_owned(), state.to_owned());
        Some(Change::create(&object))
    }

    fn device(&self, kind: DeviceType, slot: &Slot) -> ClientMountDevice {
        let reference = ClientMountDeviceReference {
            object_reference: reference("NnfNodeStorage", &slot.name, &slot.rabbit),
            data: (slot.index > 0).then_some(slot.index),
        };
        ClientMountDevice { kind, lustre: None, lvm: None, device_reference: Some(reference) }
    }

    /// Returns an entry for `spec.mounts`.
    pub fn mount_info(
        &self,
        mount_path: String,
        device: ClientMountDevice,
        compute: Option<String>,
    ) -> ClientMountInfo {
        let spec = &self.view.workflow.spec;
        let raw = self.file_system == FileSystem::Raw;
        ClientMountInfo {
            mount_path,
            user_id: Some(spec.user_id),
            group_id: Some(spec.group_id),
            set_permissions: raw,
            options: if raw { "bind" } else { "" }.to_owned(),
            device,
            kind: match self.file_system {
                FileSystem::Raw => FileSystemKind::Raw,
                other => FileSystemKind::from(other.as_str()),
            },
            target_type: if raw { TargetType::File } else { TargetType::Directory },
            compute,
        }
    }

    /// Returns a new ClientMount whose desired state is Mounted.
    pub fn client_mount(
        &self,
        (node, name): &ObjectKey,
        mounts: Vec<ClientMountInfo>,
    ) -> Option<ClientMount> {
        let servers = self.group.servers.as_ref()?;
        let mut labels = mount_labels(&self.view.workflow, self.index, servers);
        labels.insert(label::TARGET_OWNER_UID.to_owned(), storage_uid(servers));
        Some(ClientMount {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(node.clone()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: ClientMountSpec {
                node: node.clone(),
                desired_state: MountState::Mounted,
                mounts,
            },
            status: None,
        })
    }

    /// Returns the directory where a rabbit mounts one of its allocations.
    pub fn path_on_rabbit(&self, allocation: &Allocation, index: i64) -> String {
        let name = match self.view.site.settings.index_names {
            IndexNames::Node => "node",
            IndexNames::Rabbit => allocation.rabbit.as_str(),
        };
        format!("{}/{name}-{}", self.path(), allocation.first + index)
    }

    /// Returns the directory where nodes mount the storage.
    pub fn path(&self) -> String {
        mount_path(self.view, self.index, self.file_system)
    }
}

/// Updates the computes that a rabbit's mount links to. The link of a compute that left the job stays until another
/// compute gets the allocation, or until the link's compute gets another allocation.
fn relink(mount: &ClientMount, computes_of: &BTreeMap<&Slot, &str>) -> Option<Change> {
    if mount.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut after = mount.clone();
    after.spec.desired_state = MountState::Mounted;
    let mut is_other = false;
    for mount_info in &mut after.spec.mounts {
        let has = slot(mount_info).and_then(|slot| computes_of.get(&slot).copied());
        let before = mount_info.compute.clone();
        let stays = || before.filter(|name| !computes_of.values().any(|other| other == name));
        let compute = has.map(str::to_owned).or_else(stays);
        is_other |= compute != mount_info.compute;
        mount_info.compute = compute;
    }
    if is_other { Change::patch(mount, &after) } else { None }
}
