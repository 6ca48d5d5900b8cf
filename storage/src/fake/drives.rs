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
    drives: Vec<(Nqn, u64)>,
    namespaces: BTreeMap<NamespaceId, FakeNamespace>,
    /// Bytes of the disk beneath.
    pub(super) available: u64,
    next_minor: u32,
    /// How many nodes have mounted each.
    mounts: BTreeMap<NamespaceId, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FakeNamespace {
    owner: NamespaceOwner,
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
        let nqn = |slot| {
            format!("nqn.2026-01.io.warren:fake:drive-{slot}")
                .parse()
                .expect("printable, without '/'")
        };
        Self {
            drives: (0..count).map(|slot| (nqn(slot), capacity)).collect(),
            namespaces: BTreeMap::new(),
            available: u64::MAX,
            next_minor: 0,
            mounts: BTreeMap::new(),
        }
    }

    pub(super) fn inventory(&self) -> Observed {
        let drives = (0..).zip(&self.drives).map(|(slot, (nqn, capacity))| Drive {
            nqn: nqn.clone(),
            serial: format!("FAKE{slot:04}"),
            model: "Warren fake drive".to_owned(),
            firmware: "1".to_owned(),
            slot,
            capacity: *capacity,
            allocated: self.on(nqn).map(|(_, namespace)| namespace.size).sum(),
            wear: 0,
            warnings: Vec::new(),
            fault: None,
        });
        let namespaces = self.namespaces.iter().map(|(id, namespace)| Namespace {
            id: id.clone(),
            owner: namespace.owner.clone(),
            size: namespace.size,
            access: namespace.access.clone(),
            device: namespace.minor.map(path),
        });
        let promised = self.promised();
        Observed {
            drives: drives.collect(),
            namespaces: namespaces.collect(),
            pool: Some(Pool { available: self.available, promised }),
            ..Observed::default()
        }
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

    pub(super) fn device(&self, id: &NamespaceId, node: &NodeName) -> Option<BlockDevice> {
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
    ) -> Result<(), StepError> {
        if self.namespaces.values().any(|namespace| namespace.owner == owner) {
            return Ok(());
        }
        let capacity =
            self.drives.iter().find(|(nqn, _)| nqn == drive).map(|(_, capacity)| *capacity);
        let capacity =
            capacity.ok_or_else(|| StepError::Changed(format!("drive {drive} is gone")))?;
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
            FakeNamespace { owner, size, access: BTreeSet::new(), minor: None, content },
        );
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
        let ours = [NamespaceOwner::Ours(allocation), NamespaceOwner::Partial(allocation)];
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
        let Some((drive, _)) = self.drives.first().cloned() else { return };
        let owner = NamespaceOwner::Foreign("planted".to_owned());
        let id = self.free_id(&drive);
        let content = Signature::Foreign { kind: "ext4".to_owned(), uuid: None };
        self.namespaces.insert(
            id,
            FakeNamespace { owner, size, access: BTreeSet::new(), minor: None, content },
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
        let foreign =
            |namespace: &FakeNamespace| matches!(namespace.owner, NamespaceOwner::Foreign(_));
        let written =
            |namespace: &FakeNamespace| matches!(namespace.content, Signature::Foreign { .. });
        self.namespaces
            .iter()
            .filter(|(_, namespace)| foreign(namespace) || written(namespace))
            .map(|(id, namespace)| format!("{id} {:?} {:?}", namespace.owner, namespace.content))
            .collect()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.namespaces
            .values()
            .all(|namespace| matches!(namespace.owner, NamespaceOwner::Foreign(_)))
    }
}

fn path(minor: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{minor}"))
}
