//! Where namespaces come from: one backend per kind of drive.

mod loop_device;
mod nvme;
mod pool;

pub(super) use nvme::{ControllerNode, NvmeDrives, ReachedNamespaces, Sysfs, attribute};
pub(super) use pool::FilePool;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    health::Smart,
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber, Drive, Namespace, NamespaceOwner, Pool, PortLink},
};

/// All drives of a rabbit and the namespaces on them.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    pub(super) drives: Vec<Drive>,
    pub(super) namespaces: Vec<Namespace>,
    /// What is recorded of namespaces that their drives, which tell all that they have, do not have.
    pub(super) lost: BTreeMap<NamespaceId, NamespaceOwner>,
    /// Those whose slot holds another one by now.
    pub(super) replaced: BTreeSet<Nqn>,
    /// Those whose records cannot be read.
    pub(super) unread: BTreeSet<Nqn>,
    pub(super) pool: Option<Pool>,
    /// Of those drives that have a SMART log and could be asked.
    pub(super) smart: BTreeMap<Nqn, Smart>,
}

/// A backend: drives of one kind.
pub(super) trait Drives: Debug + Send + Sync {
    fn inventory(&self) -> Result<Inventory, ObserveError>;

    /// The links between hosts and drives, as PCIe switches see them; none where there is no switch.
    fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        Ok(Vec::new())
    }

    /// The device of a namespace that this node reaches; where it is recorded whose namespaces are, one of `made_for`.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;

    /// The devices of those namespaces that this node reaches, in the order asked for. Where namespaces come from another node they
    /// are waited for, all together.
    fn devices(
        &self,
        ids: &[NamespaceId],
        made_for: Option<AllocationId>,
    ) -> Result<Vec<Option<BlockDevice>>, ObserveError> {
        ids.iter().map(|id| self.device(id, made_for)).collect()
    }

    /// The namespace behind a device, whoever may reach it.
    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId>;

    /// Makes a namespace of `size` bytes, one of `of`; that the drive has one of the allocation is fine.
    fn create(
        &self,
        allocation: AllocationId,
        drive: &Nqn,
        size: u64,
        members: u16,
    ) -> Result<(), StepError>;

    /// Records whose a namespace without a record is.
    fn adopt(
        &self,
        id: &NamespaceId,
        allocation: AllocationId,
        size: u64,
        members: u16,
    ) -> Result<(), StepError>;

    /// Records that another took the place of a namespace whose drive is gone for good.
    fn replaced(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError>;

    /// Strikes out what is recorded of a namespace whose drive is gone for good; that nothing is recorded is fine.
    fn forget(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError>;

    fn delete(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError>;

    fn attach(
        &self,
        id: &NamespaceId,
        endpoint: Endpoint,
        node: &NodeName,
    ) -> Result<(), StepError>;

    fn detach(&self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError>;
}
