//! Plans an unmount, but only of a mount that is provably the desired mount.

use std::borrow::Cow;

use super::{Rejection, hooks, lvm::Lvm, mount as mounting};
use crate::{
    Step,
    desired::{FileSystemKind, HookPoint, Mount, MountPoint, MountSource, Owner},
    observed::{DeviceNumber, Holders, MountedThing, Observed, PathState, TargetState, Use},
};

const ROOT: Owner = Owner { uid: 0, gid: 0 };

pub(super) fn unmount(mount: &Mount, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let mount = &as_found(mount, observed);
    if let Some(step) = resume_step(mount, observed) {
        return Ok(vec![step]);
    }
    let target = mounting::target_state(observed.target.as_ref());
    let more = mounting::variables(mount, observed);
    let run = |phase| hooks::due(&mount.hooks, phase, observed, &more);
    let unmounting = unmount_steps(mount, observed, &target)?;
    // If another mount of Warren's uses the volume, do not release the volume: the last of these mounts releases it.
    let is_used_by_another_mount = observed.in_use == Use::MountedHere;
    let releasing =
        if is_used_by_another_mount { Vec::new() } else { release_volume(mount, observed) };

    let mut steps = Vec::new();
    // If the hook scope is closed and nothing is to be unmounted or released, no hook is due: either the volume was
    // never mounted, or all its tear-down hooks have run.
    let due = observed.hooks_open || !unmounting.is_empty() || !releasing.is_empty();
    let opening = hooks::open(&mount.scope, &mount.hooks, observed).filter(|_| due);
    let runs_hooks = due && (observed.hooks_open || opening.is_some());
    if runs_hooks {
        steps.extend(opening);
        steps.extend(run(HookPoint::PreUnmount));
    }
    steps.extend(return_to_root(mount, &target).filter(|_| !unmounting.is_empty()));
    let removal = remove(&mount.target, &target, unmounting.len());
    let is_unmounting = !unmounting.is_empty();
    steps.extend(unmounting);
    steps.extend(removal);
    if is_unmounting {
        // Release the device only in a later round: the agent can see only after the unmount whether the device is
        // free.
        return Ok(steps);
    }
    if let Use::HeldBy(holders) = &observed.in_use {
        return Err(still_in_use(mount, holders));
    }
    if runs_hooks {
        steps.extend(run(HookPoint::PostUnmount));
    }
    if runs_hooks && !is_used_by_another_mount {
        steps.extend(run(HookPoint::PreDeactivate));
    }
    steps.extend(releasing);
    if runs_hooks && !is_used_by_another_mount {
        steps.extend(run(HookPoint::PostDeactivate));
    }
    if runs_hooks {
        steps.push(Step::ForgetHooks { scope: mount.scope.clone() });
    }
    Ok(steps)
}

fn still_in_use(mount: &Mount, holders: &Holders) -> Rejection {
    let what = match &mount.source {
        MountSource::Volume { volume, .. } => volume.to_string(),
        MountSource::Bind(from) => from.to_string(),
        MountSource::Lustre(source) => source.clone(),
    };
    Rejection::StillInUse { what, target: mount.target.clone(), holders: holders.clone() }
}

/// Returns the mount with the names of the volume that was found, if the desired names were a guess.
fn as_found<'a>(mount: &'a Mount, observed: &Observed) -> Cow<'a, Mount> {
    let lvm_state = observed.volume.as_ref().and_then(|state| state.lvm.as_ref());
    let names = lvm_state.and_then(|lvm_state| lvm_state.names.as_ref());
    match &mount.source {
        MountSource::Volume { volume, id } if names.is_some() => {
            let source = MountSource::Volume { volume: volume.with_names(names), id: *id };
            Cow::Owned(Mount { source, ..mount.clone() })
        }
        _ => Cow::Borrowed(mount),
    }
}

fn resume_step(mount: &Mount, observed: &Observed) -> Option<Step> {
    let MountSource::Volume { volume, .. } = &mount.source else { return None };
    Lvm::new(volume, observed.volume.as_ref())?.resume()
}

/// Plans the steps that release the mount's logical volume.
fn release_volume(mount: &Mount, observed: &Observed) -> Vec<Step> {
    let MountSource::Volume { volume, .. } = &mount.source else { return Vec::new() };
    Lvm::new(volume, observed.volume.as_ref())
        .map_or_else(Vec::new, |lvm| lvm.deactivate_and_stop_locks())
}

fn unmount_steps(
    mount: &Mount,
    observed: &Observed,
    target: &TargetState,
) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &mount.unmount else { return Ok(Vec::new()) };
    let open = uncovered_mounts(&mount.target, target, |existing| {
        if mounting::may_be_desired(mount, existing) {
            let (from, kind) = (existing.source.clone(), existing.kind.clone());
            return Err(Rejection::Unproved { target: mount.target.clone(), from, kind });
        }
        Ok(mounting::is_desired(mount, existing, observed))
    })?;
    let line = command.expand(&mounting::variables(mount, observed));
    let step = |existing: &MountedThing| Step::Unmount {
        target: mount.target.clone(),
        device: existing.device,
        line: line.clone(),
    };
    Ok(open.into_iter().map(step).collect())
}

/// Plans to unmount the mounts at a mount point that `is_ours` accepts, by the site's `line` if there is one, and to
/// remove the mount point. If the mount point is absent and has no such mounts, plans nothing.
pub(super) fn unmount_and_remove(
    target: &MountPoint,
    state: &TargetState,
    line: Option<String>,
    is_ours: impl Fn(&MountedThing) -> bool,
) -> Result<Vec<Step>, Rejection> {
    let open = uncovered_mounts(target, state, |existing| Ok(is_ours(existing)))?;
    let is_left = !open.is_empty() || state.path == PathState::Directory { empty: true };
    let removal = remove(target, state, open.len()).filter(|_| is_left);
    let line = line.unwrap_or_else(|| plain_line(target));
    let unmounting = open.into_iter().map(|existing| Step::Unmount {
        target: target.clone(),
        device: existing.device,
        line: line.clone(),
    });
    Ok(unmounting.chain(removal).collect())
}

/// Plans an unmount for which the site has no line.
pub(super) fn plain_unmount(target: &MountPoint, device: DeviceNumber) -> Step {
    Step::Unmount { target: target.clone(), device, line: plain_line(target) }
}

fn plain_line(target: &MountPoint) -> String {
    shell_words::quote(&target.to_string()).into_owned()
}

/// Returns the mounts at a target that `ours` accepts, topmost first. All other mounts stay; if one of them covers an
/// accepted mount, returns a rejection.
pub(super) fn uncovered_mounts<'a>(
    target: &MountPoint,
    state: &'a TargetState,
    ours: impl Fn(&MountedThing) -> Result<bool, Rejection>,
) -> Result<Vec<&'a MountedThing>, Rejection> {
    let mut open = Vec::new();
    let mut covered_by = match &state.path {
        PathState::ThroughMount { at } => Some(at.clone()),
        _ if state.mounted.is_none() => Some(target.root().to_owned()),
        _ => None,
    };
    for existing in state.mounted.iter().chain(&state.beneath) {
        match (ours(existing)?, &covered_by) {
            (true, None) => open.push(existing),
            (true, Some(at)) => {
                return Err(Rejection::Covered { target: target.clone(), at: at.clone() });
            }
            (false, _) => covered_by = covered_by.or_else(|| Some(target.path())),
        }
    }
    Ok(open)
}

/// Plans to make root the owner of a raw volume again. The owner of a raw volume is the owner of its device node, and
/// the device node outlives the mount and serves another job next.
fn return_to_root(mount: &Mount, target: &TargetState) -> Option<Step> {
    let has_other_owner =
        mount.kind == FileSystemKind::Raw && target.owner.is_some_and(|owner| owner != ROOT);
    has_other_owner.then(|| Step::SetOwner { target: mount.target.clone(), owner: ROOT })
}

/// Plans the removal of the mount point if no mount remains on it. Beneath a mount the planner cannot see whether the
/// mount point is empty, so the step checks that.
pub(super) fn remove(target: &MountPoint, state: &TargetState, unmounted: usize) -> Option<Step> {
    let empty = matches!(
        state.path,
        PathState::Directory { empty: true } | PathState::File { empty: true }
    );
    let mounts = state.mounted.iter().chain(&state.beneath).count();
    let removable = if mounts > 0 { unmounted == mounts } else { empty };
    let orphaned = state.path == PathState::Absent && state.parent_empty;
    (removable || orphaned).then(|| Step::RemoveMountPoint { target: target.clone() })
}
