//! Namespaces as a host has them that was given access: a compute, and the rabbit's own half.

use std::{io, path::Path, time::Duration};

use super::{
    super::{Drives, Inventory},
    ioctl::Controller,
    sysfs::{BlockNode, Sysfs},
};
use crate::{
    desired::{AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    host::{ObserveError, StepError},
    linux::busy::pause_for,
    observed::{BlockDevice, DeviceNumber},
};

/// The kernel looks for a new namespace when the drive announces it. When the announcement got lost it must be asked, and then
/// there is no event for the end of its look: these pauses sum up to half a second.
const PAUSES_MS: [u16; 5] = [10, 40, 100, 150, 200];

/// Namespaces of drives that another node manages.
#[derive(Debug)]
pub(in crate::linux) struct ReachedNamespaces {
    reach: Reach,
}

impl ReachedNamespaces {
    pub(in crate::linux) fn new() -> Self {
        Self { reach: Reach::new(Path::new("/sys")) }
    }

    fn refuse<T>(what: &impl std::fmt::Display) -> Result<T, StepError> {
        Err(StepError::Changed(format!("{what}: this node manages no drives")))
    }
}

impl Drives for ReachedNamespaces {
    fn inventory(&self) -> Result<Inventory, ObserveError> {
        Ok(Inventory::default())
    }

    /// Whose namespaces are is recorded on the rabbit.
    fn device(
        &self,
        id: &NamespaceId,
        _: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError> {
        let found = self.reach.find_patiently(id, |_| true).map_err(unreadable)?;
        Ok(found.map(|it| it.device))
    }

    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId> {
        self.reach.sysfs.of_number(device)
    }

    fn create(&self, _: AllocationId, drive: &Nqn, _: u64, _: u16) -> Result<(), StepError> {
        Self::refuse(drive)
    }

    fn adopt(&self, id: &NamespaceId, _: AllocationId, _: u64, _: u16) -> Result<(), StepError> {
        Self::refuse(id)
    }

    fn replaced(&self, id: &NamespaceId, _: AllocationId) -> Result<(), StepError> {
        Self::refuse(id)
    }

    fn forget(&self, id: &NamespaceId, _: AllocationId) -> Result<(), StepError> {
        Self::refuse(id)
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

/// The way from a namespace's identity to its device.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    pub(super) sysfs: Sysfs,
}

impl Reach {
    pub(super) fn new(sysfs: &Path) -> Self {
        Self { sysfs: Sysfs::new(sysfs) }
    }

    /// The namespace's block device, when there is one that `is_it` takes for it.
    pub(super) fn find(
        &self,
        id: &NamespaceId,
        is_it: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Option<BlockNode>> {
        Ok(self.sysfs.blocks_of(id)?.into_iter().find(is_it))
    }

    /// The same, after the kernel was asked to look at the drive's controllers.
    pub(super) fn find_patiently(
        &self,
        id: &NamespaceId,
        is_it: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Option<BlockNode>> {
        if let Some(found) = self.find(id, &is_it)? {
            return Ok(Some(found));
        }
        let all = self.sysfs.controllers()?;
        let mut asked = 0;
        for controller in all.iter().filter(|it| it.nqn == id.subsystem) {
            // One that is going cannot be asked; another may still have it.
            asked += usize::from(Controller::new(&controller.name).rescan().is_ok());
        }
        for pause in PAUSES_MS.iter().take(if asked == 0 { 0 } else { PAUSES_MS.len() }) {
            pause_for(Duration::from_millis((*pause).into()));
            if let Some(found) = self.find(id, &is_it)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

pub(super) fn unreadable(source: io::Error) -> ObserveError {
    ObserveError::Read { path: "/sys/class/nvme".to_owned(), source }
}
