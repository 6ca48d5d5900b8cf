//! Unmounting: only what is provably the mount that was asked for.

use super::{Rejection, hooks, mount as mounting};
use crate::{
    Step,
    desired::{FileSystemKind, Mount, MountPoint, Owner},
    observed::{Observed, PathState, TargetState},
};

const ROOT: Owner = Owner { uid: 0, gid: 0 };

pub(super) fn unmount(mount: &Mount, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let target = mounting::target_state(observed.target.as_ref());
    let more = mounting::variables(mount, observed);
    let [pre_unmount, post_unmount, pre_deactivate, post_deactivate] =
        mounting::tear_down(&mount.hooks);
    let unmounting = unmounting(mount, observed, &target)?;

    let mut steps = Vec::new();
    // A closed scope with nothing mounted: it never was, or its tear-down hooks have all run.
    let due = observed.hooks_open || target.mounted.is_some() && mount.unmount.is_some();
    let opening = mounting::opened(mount, observed).filter(|_| due);
    let hooked = due && (observed.hooks_open || opening.is_some());
    if hooked {
        steps.extend(opening);
        steps.extend(hooks::due(pre_unmount, observed, &more));
    }
    steps.extend(take_back(mount, &target).filter(|_| unmounting.is_some()));
    steps.extend(unmounting);
    steps.extend(remove(&mount.target, &target, mount.unmount.is_some()));
    if hooked {
        for list in [post_unmount, pre_deactivate, post_deactivate] {
            steps.extend(hooks::due(list, observed, &more));
        }
        steps.push(Step::ForgetHooks { scope: mount.scope.clone() });
    }
    Ok(steps)
}

fn unmounting(
    mount: &Mount,
    observed: &Observed,
    target: &TargetState,
) -> Result<Option<Step>, Rejection> {
    let (Some(command), Some(there)) = (&mount.unmount, &target.mounted) else { return Ok(None) };
    if !mounting::is_asked(mount, there, observed) {
        return Err(mounting::occupied(&mount.target, there));
    }
    let line = command.expand(&mounting::variables(mount, observed));
    Ok(Some(Step::Unmount { target: mount.target.clone(), line }))
}

/// A raw volume's owner is the owner of the device node itself, which outlives the mount and serves another job next.
fn take_back(mount: &Mount, target: &TargetState) -> Option<Step> {
    let given =
        mount.kind == FileSystemKind::Raw && target.owner.is_some_and(|owner| owner != ROOT);
    given.then(|| Step::SetOwner { target: mount.target.clone(), owner: ROOT })
}

/// The mount point goes when it is empty; what beneath a mount looked like is seen when it is gone, so the step decides.
pub(super) fn remove(target: &MountPoint, state: &TargetState, unmounts: bool) -> Option<Step> {
    let empty = matches!(
        state.path,
        PathState::Directory { empty: true } | PathState::File { empty: true }
    );
    let removable = if state.mounted.is_some() { unmounts } else { empty };
    let orphaned = state.path == PathState::Absent && state.parent_empty && is_index(target);
    (removable || orphaned).then(|| Step::RemoveMountPoint { target: target.clone() })
}

/// Whether a mount point is one of an index tree's: `node-3`, `rabbit-7-3`.
pub(crate) fn is_index(target: &MountPoint) -> bool {
    let name = target
        .below()
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    name.rsplit_once('-')
        .is_some_and(|(_, index)| !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()))
}
