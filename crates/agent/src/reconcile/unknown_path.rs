//! Determines whether a mount with an unknown path is still mounted.

use storage::{ConvergeError, Converger, Desired, host::ObserveError, observed::Use};

use super::Failed;
use crate::{
    desired::{Goal, MountError, MountProblem, UnknownPath},
    error::Failure,
};

/// Returns why an invalid mount may still be mounted; `None` if it is not mounted. If the mistake is an unknown path,
/// inspects all mounts of the node. A mount with any other mistake cannot have been made by this agent: it counts as
/// not mounted, and does not delay the deletion of its object.
pub(super) fn possibly_mounted(converger: &Converger, error: &MountError) -> Option<Failed> {
    let MountProblem::UnknownPath(unknown_path) = &error.problem else { return None };
    let mut failed = Failed::of_mount(error);
    match find_possible_mount(converger, unknown_path) {
        Ok(None) => return None,
        Ok(Some((text, processes))) => {
            let more = format!("; {text}");
            failed.failure.user.push_str(&more);
            failed.failure.debug.push_str(&more);
            failed.failure.holders = processes.into();
        }
        Err(error) => {
            let error = ConvergeError::Observe(error);
            failed.failure = Failure::of_mount(Goal::Unmounted, &error);
        }
    }
    Some(failed)
}

/// Returns a text that names the path at which the mount may be, or the processes that use its device, and the ids of
/// these processes. Returns `None` if the mount does not exist.
fn find_possible_mount(
    converger: &Converger,
    unknown_path: &UnknownPath,
) -> Result<Option<(String, Vec<i32>)>, ObserveError> {
    let observed = converger.observe(&Desired::OnlyMounts(Vec::new()))?;
    let candidates = observed.mounts.iter().filter(|(_, there)| unknown_path.may_be(there));
    let at: Vec<_> = candidates.map(|(target, _)| target.to_string()).collect();
    if !at.is_empty() {
        let text = format!("it may be the mount at {}", at.join(", "));
        return Ok(Some((text, Vec::new())));
    }
    // The mount may still exist in another mount namespace: an administrator may have unmounted it only in this
    // namespace.
    let Some(mount) = unknown_path.at_literal_path() else { return Ok(None) };
    Ok(match converger.observe(&Desired::Unmounted(mount))?.in_use {
        Use::HeldBy(holders) => {
            Some((format!("it is still in use, by {holders}"), holders.processes))
        }
        Use::Free | Use::MountedHere => None,
    })
}
