//! Observes, creates and removes mount points, and the directories above them that were created for them.

use std::{io, iter};

use block_devices::mount_table;
use drives::Drives;
use nix::errno::Errno;
use storage::{
    desired::MountPoint,
    host::StepError,
    observed::{PathState, TargetState},
};

use super::{
    directory_entry::{DirectoryEntry, Walk, walk, walk_making},
    mounted,
};

pub(super) fn observe(target: &MountPoint, drives: &dyn Drives) -> io::Result<TargetState> {
    let mut state = TargetState::default();
    let mut top = None;
    match walk(target)? {
        Walk::Stopped(path) => state.path = path,
        Walk::Entry(entry) => {
            if let Some(leaf) = entry.leaf()? {
                state.path = entry.state(&leaf, target.path())?;
                state.owner = Some(leaf.owner);
                top = leaf.mount.map(|id| (id, leaf.bound));
            }
        }
    }
    if state.path == PathState::Absent {
        state.parent_empty = left_above(target)?.is_some();
    }
    let Some(root) = mount_table::real(target.root())? else { return Ok(state) };
    for entry in mount_table::at(&root.join(target.below()))? {
        match top {
            Some((id, bound)) if id == entry.id => {
                state.mounted = Some(mounted::describe(&entry, bound, drives));
            }
            _ => state.beneath.push(mounted::describe_covered(&entry, drives)),
        }
    }
    Ok(state)
}

/// Creates the mount point, and the directories above it.
pub(super) fn create(target: &MountPoint, file: bool) -> Result<(), StepError> {
    let failed = StepError::system("create mount point", target);
    // Try several times: another unit that unmounts at the same moment may remove a parent directory while it is still
    // empty.
    for _ in 0..8 {
        let entry = entry_of(walk_making(target).map_err(failed)?, target)?;
        match if file { entry.make_file() } else { entry.make_directory() } {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other.map_err(failed),
        }
    }
    Err(failed(Errno::ENOENT.into()))
}

/// Removes an empty mount point, and those directories above it that were created for it and are empty after that.
pub(super) fn remove(target: &MountPoint) -> Result<(), StepError> {
    let failed = StepError::system("remove mount point", target);
    if let Walk::Entry(entry) = walk(target).map_err(failed)? {
        entry.remove_empty().map_err(failed)?;
    }
    while let Some(above) = left_above(target).map_err(failed)? {
        above.remove_empty().map_err(failed)?;
    }
    Ok(())
}

/// Returns the nearest existing directory above an absent mount point, if it is empty and has the owner and
/// mode that [`create`] sets.
fn left_above(target: &MountPoint) -> io::Result<Option<DirectoryEntry>> {
    let above = iter::successors(Some(target.clone()), MountPoint::parent);
    for point in above {
        let entry = match walk(&point)? {
            Walk::Entry(entry) => entry,
            Walk::Stopped(PathState::Absent) => continue,
            Walk::Stopped(_) => return Ok(None),
        };
        let Some(leaf) = entry.leaf()? else { continue };
        let is_left = point != *target && entry.is_made_and_empty(&leaf)?;
        drop(leaf);
        return Ok(is_left.then_some(entry));
    }
    Ok(None)
}

/// Returns the entry at which the walk ended, or an error that says where the walk stopped.
pub(super) fn entry_of(walked: Walk, target: &MountPoint) -> Result<DirectoryEntry, StepError> {
    match walked {
        Walk::Entry(entry) => Ok(entry),
        Walk::Stopped(PathState::Absent) => {
            Err(StepError::Changed(format!("the parent of {target} is gone")))
        }
        Walk::Stopped(state) => {
            Err(StepError::Changed(format!("the path {target} can no longer be walked: {state:?}")))
        }
    }
}
