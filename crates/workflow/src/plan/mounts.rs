//! PreRun and PostRun: access for the computes, and their mounts; and the same backwards.
//!
//! Each compute is on its way by itself: it has its mount as soon as its rabbit gave it access, whatever the others do.
//! Access is withdrawn only from who has provably unmounted, or is down.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    ClientMount, ClientMountSpec, NnfNodeBlockStorage, ResourceError,
    client_mount::{
        ClientMountDevice, ClientMountDeviceLvm, ClientMountDeviceReference, ClientMountInfo,
        ClientMountNvmeInfo, DeviceType, FileSystemKind, LvmDeviceType, MountState, TargetType,
    },
    names::label,
};
use controller::ObjectKey;
use directive::{FileSystem, Jobdw};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::{
    change::Change,
    names::{job_id, of_directive, of_mount, reference},
    plan::{
        allocation::{Allocation, Slot, allocations, assigned},
        setup::lost,
    },
    profile::lines,
    progress::{Progress, passing, some_of},
    site::{IndexNames, Site},
    view::{Group, View},
};

/// Which allocation each compute has.
pub type Slots<'a> = BTreeMap<&'a str, Slot>;

/// Mounts the storage of a directive on all computes, and shows it on its rabbits where they may have it mounted too.
pub fn mounted(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let group = &view.directives[index].storage;
    let (progress, slots) = clients(view, index, jobdw);
    let Some(slots) = slots else { return progress };
    let still = still_mounted(view.site, group);
    let access = group.blocks.values().filter_map(|block| {
        access(block, |allocation| {
            let mut of = granted(block, allocation, &slots);
            // Whoever is no more in Computes has it until it is unmounted.
            let others = kept(block, allocation, &still);
            of.extend(others.into_iter().filter(|node| !slots.contains_key(node.as_str())));
            of
        })
    });
    progress.with(access)
}

/// The mounts of a directive's storage, without access to it; and which computes are to have which access, unless that cannot be
/// said.
pub fn clients<'a>(
    view: &'a View<'_>,
    index: usize,
    jobdw: &Jobdw,
) -> (Progress, Option<Slots<'a>>) {
    let group = &view.directives[index].storage;
    let Some(servers) = &group.servers else {
        return (Progress::wait("its Servers, which is gone"), None);
    };
    let all = allocations(servers);
    if let Some(error) = lost(group, &all) {
        return (Progress::failed(error), None);
    }
    let slots = match assigned(view.site, group, &all, view.computes()) {
        Ok(slots) => slots,
        Err(error) => return (Progress::failed(error), None),
    };
    let maker = Maker { view, index, jobdw, group };
    let computes = slots.iter().map(|(compute, slot)| maker.compute(compute, slot));
    // An XFS is mounted by one node at a time.
    let is_shared = jobdw.file_system != FileSystem::Xfs;
    let rabbits = rabbits(&all).into_iter().filter(|_| is_shared && !slots.is_empty());
    let rabbits = rabbits.map(|rabbit| maker.rabbit(rabbit, &all, &slots));
    let progress = computes.chain(rabbits).fold(Waited::default(), Waited::and);
    (progress.told(group, "mount on"), Some(slots))
}

/// Unmounts it everywhere, and withdraws access.
pub fn unmounted(site: &Site, group: &Group) -> Progress {
    unmounts(site, group).and(withdrawn(site, group))
}

/// Unmounts it everywhere.
pub fn unmounts(site: &Site, group: &Group) -> Progress {
    let mut changes: Vec<Change> = Vec::new();
    let mut waited = Waited::default();
    // One that counts as down is asked too, for when it comes back, and nobody waits for it.
    for mount in group.mounts.values().filter(|mount| !says_unmounted(mount)) {
        changes.extend(desire(mount, MountState::Unmounted));
        if !site.is_down(&mount.spec.node) {
            waited.nodes.insert(mount.spec.node.clone());
        }
    }
    waited.told(group, "unmount on").with(changes)
}

/// What is to be done about an object that cannot be read.
pub fn unreadable<'a>(mut places: impl Iterator<Item = &'a ObjectKey>) -> Option<ResourceError> {
    let (namespace, name) = places.next()?;
    Some(passing(format!(
        "{namespace}/{name} cannot be read, and may ask for a mount: nothing is withdrawn or removed; correct the object or delete it"
    )))
}

/// Access of those that may still have something mounted, and of nobody else.
pub fn withdrawn(site: &Site, group: &Group) -> Progress {
    if let Some(error) = unreadable(group.unreadable.iter()) {
        return Progress::failed(error);
    }
    let still = still_mounted(site, group);
    let mut progress = Progress::default();
    for block in group.blocks.values() {
        let change = access(block, |allocation| kept(block, allocation, &still));
        progress = progress.with(change);
        let rabbit = block.namespace().unwrap_or_default();
        if still.is_empty() && !is_alone(block, &rabbit) && !is_going(block) {
            progress =
                progress.and(Progress::wait(format!("access of computes on {rabbit} to end")));
        }
    }
    progress
}

/// Whether somebody deleted it: its agent takes all access away, and asks no list.
pub fn is_going(block: &NnfNodeBlockStorage) -> bool {
    block.metadata.deletion_timestamp.is_some()
}

/// Nodes that may have something of it mounted.
pub fn still_mounted<'a>(site: &Site, group: &'a Group) -> BTreeSet<&'a str> {
    let mounts = group.mounts.values().filter(|mount| !is_unmounted(site, mount));
    mounts.map(|mount| mount.spec.node.as_str()).collect()
}

/// Of the nodes that an allocation is given to, those that may have it mounted.
pub fn kept(block: &NnfNodeBlockStorage, allocation: usize, still: &BTreeSet<&str>) -> Vec<String> {
    let now = block.spec.allocations.get(allocation).map(|one| one.access.iter());
    now.into_iter().flatten().filter(|node| still.contains(node.as_str())).cloned().collect()
}

/// Whether the rabbit alone has what an object allocated.
pub fn is_alone(block: &NnfNodeBlockStorage, rabbit: &str) -> bool {
    with_access(block).all(|node| node == rabbit)
}

/// Whether a node has access to something that an object allocated.
pub fn has_access(block: &NnfNodeBlockStorage, node: &str) -> bool {
    with_access(block).any(|one| one == node)
}

/// The nodes that have access to something that an object allocated.
pub fn with_access(block: &NnfNodeBlockStorage) -> impl Iterator<Item = &String> {
    let status = block.status.iter().flat_map(|status| &status.allocations);
    status.flat_map(|one| one.accesses.keys())
}

/// Whether a node has nothing of it mounted: it says so for what is asked of it now, or it is down.
pub fn is_unmounted(site: &Site, mount: &ClientMount) -> bool {
    says_unmounted(mount) || site.is_down(&mount.spec.node)
}

fn says_unmounted(mount: &ClientMount) -> bool {
    let says_so = || {
        let status = mount.status.as_ref()?;
        let all = status.mounts.len() == mount.spec.mounts.len();
        let each = |one: &api::client_mount::ClientMountInfoStatus| {
            one.ready && one.state == MountState::Unmounted
        };
        Some(all && status.mounts.iter().all(each))
    };
    let is_asked = mount.spec.desired_state == MountState::Unmounted;
    is_asked && says_so().unwrap_or(false)
}

fn is_mounted(mount: &ClientMount) -> bool {
    let Some(status) = &mount.status else { return false };
    let each = |one: &api::client_mount::ClientMountInfoStatus| {
        one.ready && one.state == MountState::Mounted
    };
    mount.spec.desired_state == MountState::Mounted
        && status.mounts.len() == mount.spec.mounts.len()
        && status.mounts.iter().all(each)
}

/// Asks for a state; a mount that is deleted is unmounted by that already.
fn desire(mount: &ClientMount, state: MountState) -> Option<Change> {
    if mount.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut after = mount.clone();
    after.spec.desired_state = state;
    Change::patch(mount, &after)
}

/// Gives each allocation to its rabbit and these computes.
pub fn access(block: &NnfNodeBlockStorage, of: impl Fn(usize) -> Vec<String>) -> Option<Change> {
    let mut after = block.clone();
    let rabbit = block.namespace().unwrap_or_default();
    for (index, allocation) in after.spec.allocations.iter_mut().enumerate() {
        let computes = of(index).into_iter().filter(|node| *node != rabbit);
        allocation.access = std::iter::once(rabbit.clone()).chain(computes).collect();
    }
    if is_going(block) { None } else { Change::patch(block, &after) }
}

/// The computes that an allocation is for, by their place in it.
pub fn granted(
    block: &NnfNodeBlockStorage,
    allocation: usize,
    slots: &BTreeMap<&str, Slot>,
) -> Vec<String> {
    let at = block_place(block);
    let mut of: Vec<(&Slot, &str)> = slots
        .iter()
        .filter(|(_, slot)| slot.rabbit == at.0 && slot.name == at.1)
        .filter(|(_, slot)| {
            block.spec.shared_allocation || usize::try_from(slot.index) == Ok(allocation)
        })
        .map(|(compute, slot)| (slot, *compute))
        .collect();
    of.sort_unstable();
    of.into_iter().map(|(_, compute)| compute.to_owned()).collect()
}

fn block_place(block: &NnfNodeBlockStorage) -> ObjectKey {
    (block.namespace().unwrap_or_default(), block.name_any())
}

fn rabbits(all: &[Allocation]) -> BTreeSet<&str> {
    all.iter().map(|one| one.rabbit.as_str()).collect()
}

/// What is to be changed, and which nodes are waited for.
#[derive(Debug, Default)]
struct Waited {
    changes: Vec<Change>,
    nodes: BTreeSet<String>,
}

impl Waited {
    fn and(mut self, other: Self) -> Self {
        self.changes.extend(other.changes);
        self.nodes.extend(other.nodes);
        self
    }

    /// Waits for this node.
    fn node(name: &str, changes: impl IntoIterator<Item = Change>) -> Self {
        Self { changes: changes.into_iter().collect(), nodes: BTreeSet::from([name.to_owned()]) }
    }

    fn told(self, group: &Group, what: &str) -> Progress {
        let progress = match group.error() {
            _ if self.nodes.is_empty() => Progress::default(),
            Some(error) => Progress::failed(error),
            None => {
                Progress::wait(format!("{what} {}", some_of(self.nodes.iter().map(String::as_str))))
            }
        };
        progress.with(self.changes)
    }
}

struct Maker<'a> {
    view: &'a View<'a>,
    index: usize,
    jobdw: &'a Jobdw,
    group: &'a Group,
}

impl Maker<'_> {
    fn compute(&self, compute: &str, slot: &Slot) -> Waited {
        let name = format!(
            "{}-{}-computes",
            self.view.namespace(),
            of_directive(&self.view.workflow, self.index)
        );
        let at = (compute.to_owned(), name);
        match self.group.mounts.get(&at) {
            Some(mount) if is_mounted(mount) => Waited::default(),
            Some(mount) => Waited::node(compute, desire(mount, MountState::Mounted)),
            None => Waited::node(compute, self.new_compute(&at, slot)),
        }
    }

    /// The mount of a compute, once its rabbit made the file system and gave access.
    fn new_compute(&self, at: &ObjectKey, slot: &Slot) -> Option<Change> {
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
        let mount = self.mount(self.path(), device, None);
        Some(Change::create(&self.object(at, vec![mount])?))
    }

    fn rabbit(&self, rabbit: &str, all: &[Allocation], slots: &BTreeMap<&str, Slot>) -> Waited {
        let name = format!(
            "{}-{}-servers",
            self.view.namespace(),
            of_directive(&self.view.workflow, self.index)
        );
        let at = (rabbit.to_owned(), name);
        match self.group.mounts.get(&at) {
            Some(mount) if is_mounted(mount) => Waited::default(),
            Some(mount) => Waited::node(rabbit, desire(mount, MountState::Mounted)),
            None => Waited::node(rabbit, self.new_rabbit(&at, all, slots)),
        }
    }

    /// The mounts of a rabbit: all of its allocations as one tree.
    fn new_rabbit(
        &self,
        at: &ObjectKey,
        all: &[Allocation],
        slots: &BTreeMap<&str, Slot>,
    ) -> Option<Change> {
        let here = all.iter().filter(|one| one.rabbit == at.0);
        let here: Vec<(&Allocation, i64)> =
            here.flat_map(|one| (0..one.count).map(move |index| (one, index))).collect();
        let is_ready = |one: &Allocation| {
            let made = self.group.file_systems.get(&(one.rabbit.clone(), one.name.clone()));
            made.and_then(|made| made.status.as_ref()).is_some_and(|status| status.ready)
        };
        if !here.iter().all(|(one, _)| is_ready(one)) {
            return None;
        }
        let mount = |(one, index): &(&Allocation, i64)| {
            let slot = Slot { rabbit: one.rabbit.clone(), name: one.name.clone(), index: *index };
            let compute =
                slots.iter().find(|(_, of)| **of == slot).map(|(compute, _)| (*compute).to_owned());
            let name = match self.view.site.settings.index_names {
                IndexNames::Node => "node",
                IndexNames::Rabbit => one.rabbit.as_str(),
            };
            let path = format!("{}/{name}-{}", self.path(), one.first + index);
            self.mount(path, self.device(DeviceType::Reference, &slot), compute)
        };
        let mut object = self.object(at, here.iter().map(mount).collect())?;
        object.labels_mut().insert(label::TEARDOWN_STATE.to_owned(), "PostRun".to_owned());
        Some(Change::create(&object))
    }

    fn device(&self, kind: DeviceType, slot: &Slot) -> ClientMountDevice {
        let reference = ClientMountDeviceReference {
            object_reference: reference("NnfNodeStorage", &slot.name, &slot.rabbit),
            data: (slot.index > 0).then_some(slot.index),
        };
        ClientMountDevice { kind, lustre: None, lvm: None, device_reference: Some(reference) }
    }

    fn mount(
        &self,
        mount_path: String,
        device: ClientMountDevice,
        compute: Option<String>,
    ) -> ClientMountInfo {
        let spec = &self.view.workflow.spec;
        let raw = self.jobdw.file_system == FileSystem::Raw;
        ClientMountInfo {
            mount_path,
            user_id: Some(spec.user_id),
            group_id: Some(spec.group_id),
            set_permissions: raw,
            options: if raw { "bind" } else { "" }.to_owned(),
            device,
            kind: match self.jobdw.file_system {
                FileSystem::Raw => FileSystemKind::Raw,
                other => FileSystemKind::from(other.as_str()),
            },
            target_type: if raw { TargetType::File } else { TargetType::Directory },
            compute,
        }
    }

    fn object(
        &self,
        (node, name): &ObjectKey,
        mounts: Vec<ClientMountInfo>,
    ) -> Option<ClientMount> {
        let servers = self.group.servers.as_ref()?;
        let mut labels = of_mount(&self.view.workflow, self.index, servers);
        labels.insert(label::TARGET_OWNER_UID.to_owned(), servers.uid()?);
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

    fn path(&self) -> String {
        path(self.view, self.index, self.jobdw)
    }
}

/// Where computes see the storage of a directive.
pub fn path(view: &View<'_>, index: usize, jobdw: &Jobdw) -> String {
    let workflow = &view.workflow;
    let own = view.directives[index].storage.profile.as_ref();
    let given = own.and_then(|profile| {
        lines(profile, jobdw.file_system)?.variable_override.get("$MOUNT_PATH")
    });
    let Some(given) = given else {
        let uid = workflow.uid().unwrap_or_default();
        return format!("{}/{uid}-{index}", view.site.settings.mount_root);
    };
    // The longest name first: none of them is the beginning of another, should more come.
    let variables = [
        ("$DIRECTIVE_INDEX", index.to_string()),
        ("$WORKFLOW_UID", workflow.uid().unwrap_or_default()),
        ("$GROUPID", workflow.spec.group_id.to_string()),
        ("$USERID", workflow.spec.user_id.to_string()),
        ("$JOBID", job_id(workflow)),
    ];
    variables.into_iter().fold(given.clone(), |path, (name, value)| path.replace(name, &value))
}
