//! Where namespaces come from: one backend per kind of drive.

mod loop_device;
mod nvme;
mod pool;

pub(super) use nvme::{ControllerNode, NvmeDrives, ReachedNamespaces, Sysfs, attribute, is_gone};
pub(super) use pool::FilePool;

use std::fmt::Debug;

use crate::{
    Observed, Step,
    desired::{AllocationId, NamespaceId},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber, PortLink},
};

/// A backend: drives of one kind.
pub(super) trait Drives: Debug + Send + Sync {
    /// Observes drives, namespaces and the file-backed pool; the other fields of the result stay empty.
    fn inventory(&self) -> Result<Observed, ObserveError>;

    /// Returns the links between hosts and drives, from PCIe switches; none where there is no switch.
    fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        Ok(Vec::new())
    }

    /// Returns the device of a namespace that this node reaches; with `made_for`, only a namespace
    /// recorded for that allocation.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;

    /// Returns the devices of many namespaces, in the order given. Where another node attaches namespaces, this waits
    /// for all of them together.
    fn devices(
        &self,
        ids: &[NamespaceId],
        made_for: Option<AllocationId>,
    ) -> Result<Vec<Option<BlockDevice>>, ObserveError> {
        ids.iter().map(|id| self.device(id, made_for)).collect()
    }

    /// Returns the namespace behind a device, whichever hosts have access to it.
    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId>;

    /// Takes a step that changes a drive or the record of a namespace ([`Step::drive`]).
    fn apply(&self, step: &Step) -> Result<(), StepError>;
}

/// Returns the error for a step that this backend does not carry out.
fn unsupported(step: &Step, why: &str) -> StepError {
    StepError::Changed(format!("{step}: {why}"))
}
