//! Where namespaces come from: one backend per kind of drive.

mod loop_device;
mod nvme;
mod pool;
mod pool_files;

pub(super) use nvme::{NvmeDrives, ReachedNamespaces};
pub(super) use pool::FilePool;

use std::fmt::Debug;

use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber, Drive, Namespace, Pool},
};

/// All drives of a rabbit and the namespaces on them.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) drives: Vec<Drive>,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) pool: Option<Pool>,
}

/// A backend: drives of one kind.
pub(super) trait Drives: Debug + Send + Sync {
    fn inventory(&self) -> Result<Inventory, ObserveError>;

    /// The device of a namespace that this node reaches.
    fn device(&self, id: &NamespaceId) -> Result<Option<BlockDevice>, ObserveError>;

    /// The namespace behind a device, whoever may reach it.
    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId>;

    fn create(&self, allocation: AllocationId, drive: &Nqn, size: u64) -> Result<(), StepError>;

    fn delete(&self, id: &NamespaceId, allocation: AllocationId) -> Result<(), StepError>;

    fn attach(
        &self,
        id: &NamespaceId,
        endpoint: Endpoint,
        node: &NodeName,
    ) -> Result<(), StepError>;

    fn detach(&self, id: &NamespaceId, node: &NodeName) -> Result<(), StepError>;
}
