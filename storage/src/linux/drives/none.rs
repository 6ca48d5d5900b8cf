//! A node without drives.

use super::{Drives, Inventory};
use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber},
};

/// Has nothing and can make nothing.
#[derive(Debug)]
pub(in crate::linux) struct NoDrives;

impl NoDrives {
    fn refuse<T>(what: &impl std::fmt::Display) -> Result<T, StepError> {
        Err(StepError::Changed(format!("{what}: this node is configured without drives")))
    }
}

impl Drives for NoDrives {
    fn inventory(&self) -> Result<Inventory, ObserveError> {
        Ok(Inventory::default())
    }

    fn device(&self, _: &NamespaceId) -> Result<Option<BlockDevice>, ObserveError> {
        Ok(None)
    }

    fn namespace_of(&self, _: DeviceNumber) -> Option<NamespaceId> {
        None
    }

    fn create(&self, _: AllocationId, drive: &Nqn, _: u64) -> Result<(), StepError> {
        Self::refuse(drive)
    }

    fn delete(&self, id: &NamespaceId, _: AllocationId) -> Result<(), StepError> {
        Self::refuse(id)
    }

    fn attach(&self, id: &NamespaceId, _: Endpoint, _: &NodeName) -> Result<(), StepError> {
        Self::refuse(id)
    }

    fn detach(&self, id: &NamespaceId, _: &NodeName) -> Result<(), StepError> {
        Self::refuse(id)
    }
}
