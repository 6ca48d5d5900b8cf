//! Simulates how namespaces are created, adopted, attached and deleted, with the refusals of real drives.

use std::collections::BTreeMap;

use super::{
    FakeDrives, FakeNamespace,
    slot::{FakeDrive, Presence},
};
use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    fake::errno,
    fake::refused,
    host::StepError,
    observed::{NamespaceOwner, Signature},
};

impl FakeDrives {
    pub(in crate::fake) fn create(
        &mut self,
        owner: NamespaceOwner,
        drive: &Nqn,
        size: u64,
        members: u16,
    ) -> Result<(), StepError> {
        let FakeDrive { capacity, returns_old_data, .. } = *self.working(drive)?;
        if self.on(drive).any(|(_, namespace)| namespace.owner == owner) {
            return Ok(());
        }
        let allocated: u64 = self.on(drive).map(|(_, namespace)| namespace.size).sum();
        if capacity.saturating_sub(allocated) < size {
            return Err(StepError::Changed(format!("drive {drive} is full")));
        }
        if self.available.saturating_sub(self.promised()) < size {
            return Err(StepError::Changed("the disk beneath the drives is full".to_owned()));
        }
        let id = self.free_id(drive);
        let content = Signature::Blank;
        self.namespaces.insert(
            id,
            FakeNamespace {
                owner,
                members,
                size,
                access: BTreeMap::new(),
                minor: None,
                content,
                erased: false,
                is_unzeroed: returns_old_data,
            },
        );
        Ok(())
    }

    pub(in crate::fake) fn zero(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        self.working(&id.subsystem)?;
        let ours = NamespaceOwner::Ours(allocation);
        let namespace = self.namespaces.get_mut(id).filter(|namespace| namespace.owner == ours);
        let namespace = namespace.ok_or_else(|| refused("zero namespace", id, errno::EPERM))?;
        namespace.is_unzeroed = false;
        Ok(())
    }

    pub(in crate::fake) fn adopt(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
        size: u64,
        members: u16,
    ) -> Result<(), StepError> {
        let owner = NamespaceOwner::Ours(allocation);
        let namespace = self.namespaces.get_mut(id);
        match namespace.filter(|namespace| {
            namespace.size == size && namespace.owner == NamespaceOwner::Unknown
        }) {
            Some(namespace) => (namespace.owner, namespace.members) = (owner, members),
            None => return Err(refused("adopt namespace", id, errno::EPERM)),
        }
        Ok(())
    }

    pub(in crate::fake) fn record_replaced(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        let ours = NamespaceOwner::Ours(allocation);
        let namespace = self.namespaces.get_mut(id).filter(|namespace| namespace.owner == ours);
        let namespace = namespace.ok_or_else(|| refused("replace namespace", id, errno::EPERM))?;
        namespace.owner = NamespaceOwner::Replaced(allocation);
        Ok(())
    }

    /// Removes the record of a namespace whose drive was replaced. When the drive comes back, observations
    /// show the namespace again.
    pub(in crate::fake) fn forget(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        if self.drive(&id.subsystem).is_none_or(|drive| drive.presence != Presence::Replaced) {
            return Err(refused("forget namespace", id, errno::EPERM));
        }
        let namespace = self.namespaces.get_mut(id);
        namespace
            .filter(|namespace| namespace.owner.allocation() == Some(allocation))
            .into_iter()
            .for_each(|namespace| namespace.owner = NamespaceOwner::Unknown);
        Ok(())
    }

    pub(super) fn free_id(&self, drive: &Nqn) -> NamespaceId {
        let id = |nsid| NamespaceId { subsystem: drive.clone(), nsid };
        (1..)
            .map(id)
            .find(|id| !self.namespaces.contains_key(id))
            .expect("fewer than 2^32 namespaces")
    }

    pub(in crate::fake) fn erase_namespace(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        self.working(&id.subsystem)?;
        let mounted = self.is_mounted(id);
        let Some(namespace) = self.namespaces.get_mut(id) else { return Ok(()) };
        if namespace.owner.allocation() != Some(allocation) {
            return Err(refused("erase namespace", id, errno::EPERM));
        }
        if mounted {
            return Err(refused("erase namespace", id, errno::EBUSY));
        }
        namespace.access.clear();
        namespace.minor = None;
        (namespace.content, namespace.erased) = (Signature::Blank, true);
        Ok(())
    }

    pub(in crate::fake) fn delete(
        &mut self,
        id: &NamespaceId,
        allocation: AllocationId,
    ) -> Result<(), StepError> {
        let Some(namespace) = self.namespaces.get(id) else { return Ok(()) };
        self.working(&id.subsystem)?;
        if namespace.owner.allocation() != Some(allocation) {
            return Err(refused("delete namespace", id, errno::EPERM));
        }
        if self.is_mounted(id) {
            return Err(refused("delete namespace", id, errno::EBUSY));
        }
        if !namespace.erased {
            return Err(refused("delete namespace with data", id, errno::EPERM));
        }
        self.namespaces.remove(id);
        Ok(())
    }

    /// Applies the effect of a crash in the middle of a deletion.
    pub(in crate::fake) fn half_delete(&mut self, id: &NamespaceId, allocation: AllocationId) {
        let mounted = self.is_mounted(id);
        if let Some(namespace) = self.namespaces.get_mut(id).filter(|_| !mounted)
            && namespace.owner == NamespaceOwner::Ours(allocation)
        {
            namespace.owner = NamespaceOwner::Partial(allocation);
            namespace.minor = None;
            namespace.access.clear();
        }
    }

    pub(in crate::fake) fn attach(
        &mut self,
        id: &NamespaceId,
        endpoint: Endpoint,
        node: &NodeName,
    ) -> Result<(), StepError> {
        let minor = self.next_minor;
        self.working(&id.subsystem)?;
        let Some(namespace) = self.namespaces.get_mut(id) else {
            return Err(refused("attach namespace", id, errno::ENOENT));
        };
        // A host at another port that was recorded under this name keeps its access and loses the name.
        for (place, known) in namespace.access.iter_mut().filter(|(_, known)| *known == node) {
            *known = place.name();
        }
        namespace.access.insert(endpoint, node.clone());
        namespace.erased = false;
        if namespace.minor.is_none() {
            namespace.minor = Some(minor);
            self.next_minor += 1;
        }
        Ok(())
    }

    pub(in crate::fake) fn detach(
        &mut self,
        id: &NamespaceId,
        node: &NodeName,
    ) -> Result<(), StepError> {
        let mounted = self.is_mounted(id);
        let Some(namespace) = self.namespaces.get_mut(id) else {
            return Err(refused("detach namespace", id, errno::ENOENT));
        };
        let last = namespace.access.values().all(|other| other == node);
        if last && mounted {
            return Err(refused("detach namespace", id, errno::EBUSY));
        }
        namespace.access.retain(|_, other| other != node);
        if last {
            namespace.minor = None;
        }
        Ok(())
    }
}
