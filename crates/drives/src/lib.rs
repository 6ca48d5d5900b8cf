//! The drives of a node, as sources of namespaces: one backend for each kind of drive.
//!
//! * [`NvmeDrives`]: NVMe drives whose physical functions this node reaches, on its own PCI bus or through
//!   [`Switches`]. A ledger on disk records the owner of each namespace.
//! * [`ReachedNamespaces`]: namespaces of NVMe drives that another node manages.
//! * [`FilePool`]: simulated drives in files.
//!
//! # Guarantees
//! * [`Drives::inventory`], [`Drives::device`], [`Drives::namespace_of`], [`Drives::reached_namespaces`] and [`Drives::links`] change neither a drive nor
//!   a switch nor a file.
//! * [`Drives::apply`] takes one step, and changes nothing that the step does not name.
//! * A drive that hangs delays only the calls that need this drive.

pub mod nvme;
mod pool;

use std::{collections::BTreeSet, fmt::Debug};

pub use nvme::{NvmeConfig, NvmeDrives, ReachedNamespaces, Switches};
pub use pool::FilePool;
use storage::{
    Observed, Step,
    desired::{AllocationId, NamespaceId},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber, PortLink},
};

/// A backend: drives of one kind.
pub trait Drives: Debug + Send + Sync {
    /// Observes the drives, the namespaces, and the space of the file system beneath file-backed drives; all other
    /// fields of the result stay empty.
    ///
    /// # Errors
    /// When the list of drives cannot be read. A drive that does not answer is no error: it is observed as faulty.
    fn inventory(&self) -> Result<Observed, ObserveError>;

    /// Returns the links between hosts and drives, as PCIe switches report them; none on a node without a switch.
    ///
    /// # Errors
    /// When it is unknown whether the node has switches.
    fn links(&self) -> Result<Vec<PortLink>, ObserveError> {
        Ok(Vec::new())
    }

    /// Returns the device of a namespace that this node reaches. With `made_for`, returns the device only if the
    /// namespace is recorded for that allocation.
    ///
    /// # Errors
    /// When the devices of this node cannot be read.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;

    /// Returns the namespace of a block device, regardless of which hosts have access to the namespace.
    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId>;

    /// Returns all namespaces that this node reaches, whatever they are for. Other drives of the node are included.
    ///
    /// # Errors
    /// When the devices of this node cannot be read.
    fn reached_namespaces(&self) -> Result<BTreeSet<NamespaceId>, ObserveError>;

    /// Takes a step that changes a drive or the record of a namespace ([`Step::drive`]), or rescans for namespaces.
    ///
    /// # Errors
    /// When the drive refuses the step or does not answer, or the state that the step starts from has changed.
    fn apply(&self, step: &Step) -> Result<(), StepError>;
}

/// Returns the error for a step that this backend does not carry out.
fn unsupported(step: &Step, why: &str) -> StepError {
    StepError::Changed(format!("{step}: {why}"))
}
