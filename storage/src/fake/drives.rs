//! A rabbit's drives in memory, shared by the nodes of a chassis.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{FakeMount, refused};
use crate::{
    desired::{AllocationId, NamespaceId, NodeName, Nqn},
    host::StepError,
    observed::{
        BlockDevice, DeviceNumber, Drive, Namespace, NamespaceOwner, Observed, Pool, Signature,
    },
};

#[derive(Debug)]
pub(super) struct FakeDrives {
    drives: Vec<FakeDrive>,
    namespaces: BTreeMap<NamespaceId, FakeNamespace>,
    /// Bytes of the disk beneath.
    pub(super) available: u64,
    next_minor: u32,
    /// How many nodes have mounted each.
    mounts: BTreeMap<NamespaceId, usize>,
}

#[derive(Debug, Clone)]
struct FakeDrive {
    nqn: Nqn,
    slot: u32,
    capacity: u64,
    place: Place,
    /// It carries out nothing that makes or erases a namespace.
    refuses: bool,
}

/// Where a drive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    InItsSlot,
    /// Its slot is empty.
    Away,
    /// Another drive is in its slot.
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FakeNamespace {
    owner: NamespaceOwner,
    of: u16,
    size: u64,
    access: BTreeSet<NodeName>,
    minor: Option<u32>,
    content: Signature,
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
        // Of a drive that is not here only what is recorded is known.
        let is_known = |id: &NamespaceId, namespace: &FakeNamespace| {
            here(id) || namespace.owner != NamespaceOwner::Unknown
        };
        let has_any = |it: &&FakeDrive| {
            it.is_here() || self.on(&it.nqn).any(|(id, namespace)| is_known(id, namespace))
        };
        let drives = self.drives.iter().filter(has_any).map(|it| self.shown(it));
        let known = self.namespaces.iter().filter(|(id, namespace)| is_known(id, namespace));
        let namespaces = known.map(|(id, namespace)| Namespace {
            id: id.clone(),
            owner: namespace.owner.clone(),
            size: namespace.size,
            access: if here(id) { namespace.access.clone() } else { BTreeSet::new() },
            device: namespace.minor.filter(|_| here(id)).map(path),
            of: namespace.of,
        });
        let replaced = self.drives.iter().filter(|it| it.place == Place::Replaced);
        let promised = self.promised();
        Observed {
            drives: drives.collect(),
            namespaces: namespaces.collect(),
            replaced: replaced.map(|it| it.nqn.clone()).collect(),
            pool: Some(Pool { available: self.available, promised }),
            ..Observed::default()
        }
    }

    fn shown(&self, drive: &FakeDrive) -> Drive {
        let here = drive.is_here();
        let allocated = self.on(&drive.nqn).map(|(_, namespace)| namespace.size).sum();
        Drive {
            nqn: drive.nqn.clone(),
            serial: format!("FAKE{:04}", drive.slot),
            model: "Warren fake drive".to_owned(),
            firmware: "1".to_owned(),
            slot: drive.slot,
            label: String::new(),
            capacity: if here { drive.capacity } else { 0 },
            allocated: if here { allocated } else { 0 },
            most_namespaces: None,
            wear: 0,
            warnings: Vec::new(),
            fault: (!here).then(|| "it is not plugged in".to_owned()),
        }
    }

    fn drive(&self, nqn: &Nqn) -> Option<&FakeDrive> {
        self.drives.iter().find(|it| it.nqn == *nqn)
    }

    /// The drive, to make or erase a namespace on it.
    fn working(&self, nqn: &Nqn) -> Result<&FakeDrive, StepError> {
        let drive = self.drive(nqn);
        let drive = drive.ok_or_else(|| StepError::Changed(format!("drive {nqn} is gone")))?;
        match (drive.is_here(), drive.refuses) {
            (false, _) => Err(refused("find drive", nqn, libc::ENODEV)),
            (true, true) => Err(refused("ask drive", nqn, libc::EIO)),
            (true, false) => Ok(drive),
        }
    }

    fn in_slot(&mut self, slot: u32) -> Option<&mut FakeDrive> {
        self.drives.iter_mut().find(|it| it.slot == slot && it.place != Place::Replaced)
    }

    pub(super) fn set_refusing(&mut self, slot: u32, refuses: bool) {
        self.in_slot(slot).into_iter().for_each(|it| it.refuses = refuses);
    }

    pub(super) fn pull(&mut self, slot: u32) {
        self.in_slot(slot).into_iter().for_each(|it| it.place = Place::Away);
    }

    pub(super) fn put_back(&mut self, slot: u32) {
        self.in_slot(slot).into_iter().for_each(|it| it.place = Place::InItsSlot);
    }

    pub(super) fn swap(&mut self, slot: u32) {
        let Some(old) = self.in_slot(slot) else { return };
        old.place = Place::Replaced;
        let new = FakeDrive::new(slot, "-new", old.capacity);
        self.drives.push(new);
    }

    /// Nothing is known any more of any namespace but what the drives tell.
    pub(super) fn lose_records(&mut self) {
        for namespace in self.namespaces.values_mut() {
            (namespace.owner, namespace.of) = (NamespaceOwner::Unknown, 0);
        }
    }

    /// Somebody deletes every namespace.
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

    /// A drive that is not in its slot takes its devices along.
    pub(super) fn device(&self, id: &NamespaceId, node: &NodeName) -> Option<BlockDevice> {
        let is_there = |it: &FakeDrive| it.nqn == id.subsystem && it.place == Place::InItsSlot;
        self.drives.iter().find(|it| is_there(it))?;
        let namespace =
            self.namespaces.get(id).filter(|namespace| namespace.access.contains(node))?;
        let minor = namespace.minor?;
        Some(BlockDevice {
            namespace: id.clone(),
            path: path(minor),
            number: DeviceNumber { major: 7, minor },
        })
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

    pub(super) fn create(
        &mut self,
        owner: NamespaceOwner,
        drive: &Nqn,
        size: u64,
        of: u16,
    ) -> Result<(), StepError> {
        let capacity = self.working(drive)?.capacity;
        if self.on(drive).any(|(_, namespace)| namespace.owner == owner) {
            return Ok(());
        }
        let allocated: u64 = self.on(drive).map(|(_, namespace)| namespace.size).sum();
        if capacity.saturating_sub(allocated) < size {
            return Err(StepError::Changed(format!("drive {drive} is full by now")));
        }
        if self.available.saturating_sub(self.promised()) < size {
            return Err(StepError::Changed(
                "the disk beneath the drives is full by now".to_owned(),
            ));
        }
        let id = self.free_id(drive);
        let content = Signature::Blank;
        self.namespaces.insert(
            id,
            FakeNamespace { owner, of, size, access: BTreeSet::new(), minor: None, content },
        );
        Ok(())
    }

    pub(super) fn adopt(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
        size: u64,
        of: u16,
    ) -> Result<(), StepError> {
        let owner = NamespaceOwner::Ours(allocation);
        let namespace = self.namespaces.get_mut(id);
        match namespace.filter(|it| it.size == size && it.owner == NamespaceOwner::Unknown) {
            Some(namespace) => (namespace.owner, namespace.of) = (owner, of),
            None => return Err(refused("adopt namespace", id, libc::EPERM)),
        }
        Ok(())
    }

    pub(super) fn replaced(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        let ours = NamespaceOwner::Ours(allocation);
        let namespace = self.namespaces.get_mut(id).filter(|it| it.owner == ours);
        let namespace = namespace.ok_or_else(|| refused("replace namespace", id, libc::EPERM))?;
        namespace.owner = NamespaceOwner::Replaced(allocation);
        Ok(())
    }

    /// The drive is not here: what is on it is seen again only when it comes back.
    pub(super) fn forget(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        if self.drive(&id.subsystem).is_none_or(|it| it.place != Place::Replaced) {
            return Err(refused("forget namespace", id, libc::EPERM));
        }
        let whose = [
            NamespaceOwner::Ours(allocation),
            NamespaceOwner::Partial(allocation),
            NamespaceOwner::Replaced(allocation),
        ];
        let namespace = self.namespaces.get_mut(id).filter(|it| whose.contains(&it.owner));
        namespace.into_iter().for_each(|it| it.owner = NamespaceOwner::Unknown);
        Ok(())
    }

    fn free_id(&self, drive: &Nqn) -> NamespaceId {
        let id = |nsid| NamespaceId { subsystem: drive.clone(), nsid };
        (1..)
            .map(id)
            .find(|id| !self.namespaces.contains_key(id))
            .expect("fewer than 2^32 namespaces")
    }

    pub(super) fn delete(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        let Some(namespace) = self.namespaces.get(id) else { return Ok(()) };
        self.working(&id.subsystem)?;
        let ours = [
            NamespaceOwner::Ours(allocation),
            NamespaceOwner::Partial(allocation),
            NamespaceOwner::Replaced(allocation),
        ];
        if !ours.contains(&namespace.owner) {
            return Err(refused("delete namespace", id, libc::EPERM));
        }
        if self.is_mounted(id) {
            return Err(refused("delete namespace", id, libc::EBUSY));
        }
        self.namespaces.remove(id);
        Ok(())
    }

    /// A crash in the middle of deleting.
    pub(super) fn half_delete(&mut self, id: &NamespaceId, allocation: AllocationId) {
        let mounted = self.is_mounted(id);
        if let Some(namespace) = self.namespaces.get_mut(id).filter(|_| !mounted)
            && namespace.owner == NamespaceOwner::Ours(allocation)
        {
            namespace.owner = NamespaceOwner::Partial(allocation);
            namespace.minor = None;
            namespace.access.clear();
        }
    }

    pub(super) fn attach(&mut self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError> {
        let minor = self.next_minor;
        self.working(&id.subsystem)?;
        let Some(namespace) = self.namespaces.get_mut(id) else {
            return Err(refused("attach namespace", id, libc::ENOENT));
        };
        namespace.access.insert(node.clone());
        if namespace.minor.is_none() {
            namespace.minor = Some(minor);
            self.next_minor += 1;
        }
        Ok(())
    }

    pub(super) fn detach(&mut self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError> {
        let mounted = self.is_mounted(id);
        let Some(namespace) = self.namespaces.get_mut(id) else {
            return Err(refused("detach namespace", id, libc::ENOENT));
        };
        let last = namespace.access.iter().all(|other| other == node);
        if last && mounted {
            return Err(refused("detach namespace", id, libc::EBUSY));
        }
        namespace.access.remove(node);
        if last {
            namespace.minor = None;
        }
        Ok(())
    }

    pub(super) fn plant_signature(&mut self, id: &NamespaceId, signature: Signature) {
        self.set_signature(id, signature);
    }

    pub(super) fn plant_namespace(&mut self, size: u64) {
        let Some(drive) = self.drives.first().map(|it| it.nqn.clone()) else { return };
        let owner = NamespaceOwner::Foreign("planted".to_owned());
        let id = self.free_id(&drive);
        let content = Signature::Foreign { kind: "ext4".to_owned(), uuid: None };
        self.namespaces.insert(
            id,
            FakeNamespace { owner, of: 0, size, access: BTreeSet::new(), minor: None, content },
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
        let foreign = |namespace: &FakeNamespace| is_nobodys(&namespace.owner);
        let written =
            |namespace: &FakeNamespace| matches!(namespace.content, Signature::Foreign { .. });
        self.namespaces
            .iter()
            .filter(|(_, namespace)| foreign(namespace) || written(namespace))
            .map(|(id, namespace)| format!("{id} {:?} {:?}", namespace.owner, namespace.content))
            .collect()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.namespaces.values().all(|namespace| is_nobodys(&namespace.owner))
    }
}

impl FakeDrive {
    fn new(slot: u32, generation: &str, capacity: u64) -> Self {
        let nqn = format!("nqn.2026-01.io.warren:fake:drive-{slot}{generation}");
        let nqn = nqn.parse().expect("printable, without '/'");
        Self { nqn, slot, capacity, place: Place::InItsSlot, refuses: false }
    }

    fn is_here(&self) -> bool {
        self.place == Place::InItsSlot
    }
}

fn is_nobodys(owner: &NamespaceOwner) -> bool {
    matches!(owner, NamespaceOwner::Foreign(_) | NamespaceOwner::Unknown)
}

fn path(minor: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{minor}"))
}
