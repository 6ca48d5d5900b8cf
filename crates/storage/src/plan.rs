//! Plans the steps from the observed state to the desired state. Pure: no I/O, no clock.

mod allocation;
mod drive;
mod file_system;
mod hooks;
mod index_tree;
mod lustre;
mod lvm;
mod mount;
mod own_mounts;
mod own_volumes;
mod reject;
mod unmount;
mod volume;
mod zpool;

#[cfg(test)]
mod tests;

pub use allocation::{Absence, Missing, allocatable, missing_namespaces};
pub use drive::{bring_up, prepare};
pub use reject::{Rejection, RejectionClass, without_remedy};

use crate::{Desired, Observed, Step};

/// Plans the first steps of a convergence: those that make drives ready, then those of the unit.
///
/// # Errors
/// The rejection of [`plan`], unless the steps that come first may remove its reason.
pub fn first_steps(desired: &Desired, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let mut steps = prepare(desired, observed);
    match plan(desired, observed) {
        Ok(planned) => steps.extend(planned),
        Err(rejection) if steps.is_empty() => return Err(rejection),
        Err(_) => {}
    }
    Ok(steps)
}

/// Plans the steps from `observed` to `desired`, up to the first step whose result must be observed; empty when the
/// node is as desired.
///
/// # Errors
/// When the node must not be changed; the error names the action that an admin or user must take first.
pub fn plan(desired: &Desired, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    match desired {
        Desired::Allocated(allocation) => allocation::allocate(allocation, observed),
        Desired::Adopted(allocation) => Ok(allocation::adopt(allocation, observed)),
        Desired::Released(id) => Ok(allocation::release(*id, observed)),
        Desired::Withdrawn { allocation, host } => {
            Ok(allocation::cut_off(*allocation, host, observed))
        }
        Desired::FileSystemReady(file_system) => file_system::ready(file_system, observed),
        Desired::FileSystemGone(file_system) => file_system::remove(file_system, observed),
        Desired::TargetReady(target) => lustre::ready(target, observed),
        Desired::TargetGone(target) => lustre::remove(target, observed),
        Desired::Mounted(mount) => mount::mount(mount, observed),
        Desired::Unmounted(mount) => unmount::unmount(mount, observed),
        Desired::IndexTree(tree) => index_tree::show(tree, observed),
        Desired::NoIndexTree(tree) => Ok(index_tree::hide(tree, observed)),
        Desired::OnlyMounts(keep) => own_mounts::unmount_all_except(keep, observed),
        Desired::OnlyVolumes(keep) => Ok(own_volumes::remove_leftovers_except(keep, observed)),
        Desired::Inventory => Ok(Vec::new()),
    }
}
