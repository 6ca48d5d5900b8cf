//! Waits until the kernel of this rabbit shows the block device of a namespace, or has removed it. Usually a drive
//! announces its namespaces to the kernel; if an announcement was lost, the kernel notices the change at a rescan.

use std::{
    io, slice,
    time::{Duration, Instant},
};

use storage::{desired::NamespaceId, host::StepError, observed::BlockDevice};

use super::{NvmeDrives, sysfs::BlockNode};
use crate::busy::pause_for;

/// Time within which the kernel must show a new block device, or remove the block device of a deleted namespace.
const CHANGES_WITHIN: Duration = Duration::from_secs(10);
/// Time to wait for the drive's announcement before a rescan is started.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

const PAUSE: Duration = Duration::from_millis(20);

impl NvmeDrives {
    /// Waits until the kernel shows the block device of a namespace that was attached to the rabbit.
    pub(super) fn wait_for_device(&self, id: &NamespaceId) -> Result<BlockDevice, StepError> {
        let system = StepError::system("find the block device of", id);
        let managed = self.drive(&id.subsystem)?;
        let begun = Instant::now();
        while begun.elapsed() < CHANGES_WITHIN {
            let is_it = |block: &BlockNode| managed.is_recorded(block);
            let found = if begun.elapsed() < ANNOUNCED_WITHIN {
                self.reach.find(id, is_it)
            } else {
                let found = self.reach.find_with_rescan(slice::from_ref(id), is_it);
                found.map(|devices| devices.into_iter().flatten().next())
            };
            if let Some(found) = found.map_err(system)? {
                return Ok(found.device);
            }
            pause_for(PAUSE);
        }
        Err(system(io::Error::new(
            io::ErrorKind::TimedOut,
            "the namespace is attached to the rabbit's controller, but the kernel shows no block device for it",
        )))
    }

    /// Waits until the kernel has removed the block device of a deleted namespace, whose NGUID was `nguid`. To be erased,
    /// the namespace was attached to this rabbit, even if no host used it.
    pub(super) fn wait_until_gone(&self, id: &NamespaceId, nguid: &str) -> Result<(), StepError> {
        let system = StepError::system("wait for the removal of the block device of", id);
        let begun = Instant::now();
        loop {
            let found = self.reach.find(id, |block| block.may_be(nguid)).map_err(system)?;
            let Some(block) = found else { return Ok(()) };
            if begun.elapsed() >= CHANGES_WITHIN {
                let why = format!(
                    "the namespace is deleted, but the kernel still shows {} for it: nvme ns-rescan on the drive's controllers",
                    block.device.path.display()
                );
                return Err(system(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            if begun.elapsed() >= ANNOUNCED_WITHIN {
                self.reach.rescan_drive(&id.subsystem).map_err(system)?;
            }
            pause_for(PAUSE);
        }
    }
}
