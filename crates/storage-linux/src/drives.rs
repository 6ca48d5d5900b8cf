//! The sources of namespaces: one backend for each kind of drive.

mod loop_device;
mod nvme;
mod pool;

use std::fmt::Debug;

pub(super) use nvme::{ControllerNode, NvmeDrives, ReachedNamespaces, Sysfs, attribute, is_gone};
pub(super) use pool::FilePool;
use storage::{
    Observed, Step,
    desired::{AllocationId, NamespaceId},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber, PortLink},
};

/// A backend: drives of one kind.
pub(super) trait Drives: Debug + Send + Sync {
    /// Observes the drives, the namespaces, and the space of the file system beneath file-backed drives; all other
    /// fields of the result stay empty.
    fn inventory(&self) -> Result<Observed, ObserveError>;

    /// Returns the links between hosts and drives, as PCIe switches report them; none on a node without a switch.
    fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        Ok(Vec::new())
    }

    /// Returns the device of a namespace that this node reaches. With `made_for`, returns the device only if the
    /// namespace is recorded for that allocation.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;

    /// Returns the namespace of a block device, regardless of which hosts have access to the namespace.
    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId>;

    /// Takes a step that changes a drive or the record of a namespace ([`Step::drive`]), or rescans for namespaces.
    fn apply(&self, step: &Step) -> Result<(), StepError>;
}

/// Returns the error for a step that this backend does not carry out.
fn unsupported(step: &Step, why: &str) -> StepError {
    StepError::Changed(format!("{step}: {why}"))
}
