//! Simulates the drives of a rabbit, which all nodes of a chassis share.

mod namespaces;
mod slot;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use self::slot::{FakeDrive, Presence};
use super::{FakeMount, refused};
use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    fake::errno,
    host::StepError,
    observed::{
        Attached, BlockDevice, DeviceNumber, Drive, Namespace, NamespaceOwner, Observed, Pool,
        Signature,
    },
};

#[derive(Debug)]
pub(super) struct FakeDrives {
    drives: Vec<FakeDrive>,
    namespaces: BTreeMap<NamespaceId, FakeNamespace>,
    /// Free bytes of the file system that carries the simulated drives.
    pub(super) available: u64,
    next_minor: u32,
    /// For each namespace, the number of nodes that have mounted it.
    mounts: BTreeMap<NamespaceId, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FakeNamespace {
    owner: NamespaceOwner,
    members: u16,
    size: u64,
    access: BTreeMap<Endpoint, NodeName>,
    minor: Option<u32>,
    content: Signature,
    erased: bool,
    /// Whether the namespace may hold data of earlier owners.
    is_unzeroed: bool,
}

impl FakeNamespace {
    fn attached(&self) -> BTreeSet<Attached> {
        let host = |(endpoint, node): (&Endpoint, &NodeName)| Attached {
            endpoint: Some(*endpoint),
            node: node.clone(),
        };
        self.access.iter().map(host).collect()
    }

    fn reaches(&self, node: &NodeName) -> bool {
        self.access.values().any(|name| name == node)
    }
}

impl Default for FakeDrives {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl FakeDrives {
    pub(super) fn new(count: u16, capacity: u64) -> Self {
        Self {
            drives: (0..count.into()).map(|slot| FakeDrive::new(slot, "", capacity)).collect(),
            namespaces: BTreeMap::new(),
            available: u64::MAX,
            next_minor: 0,
            mounts: BTreeMap::new(),
        }
    }

    pub(super) fn inventory(&self) -> Observed {
        let here = |id: &NamespaceId| self.drive(&id.subsystem).is_some_and(FakeDrive::is_here);
        // On an absent drive, only namespaces with a record are known.
        let is_known = |id: &NamespaceId, namespace: &FakeNamespace| {
            here(id) || namespace.owner != NamespaceOwner::Unknown
        };
        let has_any = |drive: &&FakeDrive| {
            drive.is_here() || self.on(&drive.nqn).any(|(id, namespace)| is_known(id, namespace))
        };
        let drives = self.drives.iter().filter(has_any).map(|drive| self.describe(drive));
        let known = self.namespaces.iter().filter(|(id, namespace)| is_known(id, namespace));
        let namespaces = known.map(|(id, namespace)| Namespace {
            id: id.clone(),
            owner: namespace.owner.clone(),
            size: namespace.size,
            access: if here(id) { namespace.attached() } else { BTreeSet::new() },
            device: namespace.minor.filter(|_| here(id)).map(path),
            members: namespace.members,
            needs_erasure: !namespace.erased,
            needs_zeroing: namespace.is_unzeroed,
        });
        let replaced = self.drives.iter().filter(|drive| drive.presence == Presence::Replaced);
        let promised = self.promised();
        Observed {
            drives: drives.collect(),
            namespaces: namespaces.collect(),
            replaced: replaced.map(|drive| drive.nqn.clone()).collect(),
            pool: Some(Pool { available: self.available, promised }),
            ..Observed::default()
        }
    }

    fn describe(&self, drive: &FakeDrive) -> Drive {
        let here = drive.is_here();
        let allocated = self.on(&drive.nqn).map(|(_, namespace)| namespace.size).sum();
        Drive {
            serial: format!("FAKE{:04}", drive.slot),
            model: "Warren fake drive".to_owned(),
            firmware: "1".to_owned(),
            slot: drive.slot,
            capacity: if here { drive.capacity } else { 0 },
            allocated: if here { allocated } else { 0 },
            fault: (!here).then(|| "it is not plugged in".to_owned()),
            unready: drive.unready(),
            ..Drive::with_nqn(drive.nqn.clone())
        }
    }

    fn drive(&self, nqn: &Nqn) -> Option<&FakeDrive> {
        self.drives.iter().find(|drive| drive.nqn == *nqn)
    }

    /// Returns the drive that a command should change; fails when the drive is absent or refuses commands.
    fn working(&self, nqn: &Nqn) -> Result<&FakeDrive, StepError> {
        let drive = self.drive(nqn);
        let drive = drive.ok_or_else(|| StepError::Changed(format!("drive {nqn} is gone")))?;
        match (drive.is_here(), drive.refuses) {
            (false, _) => Err(refused("find drive", nqn, errno::ENODEV)),
            (true, true) => Err(refused("ask drive", nqn, errno::EIO)),
            (true, false) => Ok(drive),
        }
    }

    /// Removes all records of namespaces.
    pub(super) fn lose_records(&mut self) {
        for namespace in self.namespaces.values_mut() {
            (namespace.owner, namespace.members) = (NamespaceOwner::Unknown, 0);
        }
    }

    /// Deletes every namespace.
    pub(super) fn erase(&mut self) {
        self.namespaces.clear();
        self.mounts.clear();
    }

    fn promised(&self) -> u64 {
        self.namespaces.values().map(|namespace| namespace.size).sum()
    }

    fn on<'a>(
        &'a self,
        nqn: &'a Nqn,
    ) -> impl Iterator<Item = (&'a NamespaceId, &'a FakeNamespace)> {
        self.namespaces.iter().filter(move |(id, _)| id.subsystem == *nqn)
    }

    /// Returns the device of a namespace on a node; `None` while its drive is absent or the node does not reach it.
    pub(super) fn device(&self, id: &NamespaceId, node: &NodeName) -> Option<BlockDevice> {
        let is_there =
            |drive: &FakeDrive| drive.nqn == id.subsystem && drive.is_here() && drive.is_up();
        self.drives.iter().find(|drive| is_there(drive))?;
        let namespace = self.namespaces.get(id).filter(|namespace| namespace.reaches(node))?;
        let minor = namespace.minor?;
        Some(BlockDevice {
            namespace: id.clone(),
            path: path(minor),
            number: DeviceNumber { major: 7, minor },
        })
    }

    /// Returns the device of a namespace, if the namespace was made for that allocation.
    pub(super) fn device_of(
        &self,
        id: &NamespaceId,
        node: &NodeName,
        made_for: Option<AllocationId>,
    ) -> Option<BlockDevice> {
        let owner = self.namespaces.get(id)?.owner.allocation();
        self.device(id, node).filter(|_| made_for.is_none() || owner == made_for)
    }

    pub(super) fn by_path(&self, device: &str) -> Option<NamespaceId> {
        let found = self.namespaces.iter().find(|(_, namespace)| {
            namespace.minor.is_some_and(|minor| path(minor).to_str() == Some(device))
        });
        found.map(|(id, _)| id.clone())
    }

    pub(super) fn exists(&self, id: &NamespaceId) -> bool {
        self.namespaces.contains_key(id)
    }

    pub(super) fn signature(&self, id: &NamespaceId) -> Signature {
        self.namespaces.get(id).map_or(Signature::Blank, |namespace| namespace.content.clone())
    }

    pub(super) fn set_signature(&mut self, id: &NamespaceId, signature: Signature) {
        if let Some(namespace) = self.namespaces.get_mut(id) {
            namespace.content = signature;
        }
    }

    pub(super) fn count_mount(&mut self, id: &NamespaceId) {
        *self.mounts.entry(id.clone()).or_default() += 1;
    }

    pub(super) fn count_unmount(&mut self, id: &NamespaceId) {
        if let Some(count) = self.mounts.get_mut(id) {
            *count = count.saturating_sub(1);
        }
    }

    pub(super) fn is_mounted(&self, id: &NamespaceId) -> bool {
        self.mounts.get(id).is_some_and(|count| *count > 0)
    }

    pub(super) fn plant_signature(&mut self, id: &NamespaceId, signature: Signature) {
        self.set_signature(id, signature);
    }

    pub(super) fn plant_namespace(&mut self, size: u64) {
        let Some(drive) = self.drives.first().map(|drive| drive.nqn.clone()) else { return };
        let owner = NamespaceOwner::Foreign("planted".to_owned());
        let id = self.free_id(&drive);
        let content = Signature::Foreign { kind: "ext4".to_owned(), uuid: None };
        self.namespaces.insert(
            id,
            FakeNamespace {
                owner,
                members: 0,
                size,
                access: BTreeMap::new(),
                minor: None,
                content,
                erased: false,
                is_unzeroed: false,
            },
        );
    }

    pub(super) fn reboot(&mut self, mounts: &[FakeMount]) {
        for id in mounts.iter().filter_map(|mount| mount.thing.namespace.as_ref()) {
            self.count_unmount(id);
        }
        for namespace in self.namespaces.values_mut() {
            namespace.minor = None;
        }
    }

    pub(super) fn foreign(&self) -> Vec<String> {
        let foreign = |namespace: &FakeNamespace| has_no_allocation(&namespace.owner);
        let written =
            |namespace: &FakeNamespace| matches!(namespace.content, Signature::Foreign { .. });
        self.namespaces
            .iter()
            .filter(|(_, namespace)| foreign(namespace) || written(namespace))
            .map(|(id, namespace)| format!("{id} {:?} {:?}", namespace.owner, namespace.content))
            .collect()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.namespaces.values().all(|namespace| has_no_allocation(&namespace.owner))
    }
}

fn has_no_allocation(owner: &NamespaceOwner) -> bool {
    matches!(owner, NamespaceOwner::Foreign(_) | NamespaceOwner::Unknown)
}

fn path(minor: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{minor}"))
}
