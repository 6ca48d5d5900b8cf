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

/// All drives of a rabbit and their namespaces.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    pub(super) drives: Vec<Drive>,
    pub(super) namespaces: Vec<Namespace>,
    /// Records of namespaces that their drives, which list all they have, do not have.
    pub(super) vanished: BTreeMap<NamespaceId, NamespaceOwner>,
    /// Drives whose slot holds another drive now.
    pub(super) replaced: BTreeSet<Nqn>,
    /// Drives whose ledger cannot be read.
    pub(super) unreadable: BTreeSet<Nqn>,
    pub(super) pool: Option<Pool>,
    /// SMART logs of the drives that could be asked.
    pub(super) smart: BTreeMap<Nqn, Smart>,
}

/// A backend: drives of one kind.
pub(super) trait Drives: Debug + Send + Sync {
    fn inventory(&self) -> Result<Inventory, ObserveError>;

    /// The links between hosts and drives, from PCIe switches; none where there is no switch.
    fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        Ok(Vec::new())
    }

    /// The device of a namespace that this node reaches; with `made_for`, only one recorded for that allocation.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;

    /// The same for many namespaces, in the order given. Where another node attaches namespaces, this waits for all of
    /// them together.
    fn devices(
        &self,
        ids: &[NamespaceId],
        made_for: Option<AllocationId>,
    ) -> Result<Vec<Option<BlockDevice>>, ObserveError> {
        ids.iter().map(|id| self.device(id, made_for)).collect()
    }

    /// The namespace behind a device, whichever hosts have access to it.
    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId>;

    /// Creates a namespace of `size` bytes. The drive may have one of the allocation already; then nothing happens.
    fn create(
        &self,
        allocation: AllocationId,
        drive: &Nqn,
        size: u64,
        members: u16,
    ) -> Result<(), StepError>;

    /// Records the owner of a namespace that has no record.
    fn adopt(
        &self,
        id: &NamespaceId,
        allocation: AllocationId,
        size: u64,
        members: u16,
    ) -> Result<(), StepError>;

    /// Records that another namespace replaced this one, whose drive is gone for good.
    fn record_replaced(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError>;

    /// Removes the record of a namespace whose drive is gone for good; succeeds when there is none.
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
