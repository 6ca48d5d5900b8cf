//! Plans Lustre targets: a target is created once, and is mounted while it is wanted, also after a restart of the node.
//!
//! The device of a Lustre mount is known only after the mount. Hooks that need the mounted file system are therefore
//! planned after another observation.

use std::collections::BTreeMap;

use super::{Rejection, hooks, mount, unmount, zpool::Pool};
use crate::{
    Step,
    desired::{FileSystemKind, HookPoint, LustreClient, LustreTarget},
    observed::{DatasetState, MountedThing, Observed},
    step::Mountable,
};

pub(super) fn ready(target: &LustreTarget, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let pool = Pool::new(target, observed);
    let building = pool.build()?;
    if !building.is_empty() {
        return Ok(building);
    }
    let formatting = pool.format();
    let mounting = mount_steps(target, observed)?;

    let (mut steps, observed) =
        hooks::begin(&target.scope(), &target.hooks, observed, !formatting.is_empty());
    let observed = &*observed;
    steps.extend(formatting);
    steps.extend(mounting);
    steps.extend(hooks::due(&target.hooks, HookPoint::PostActivate, observed, &pool.variables()));
    if let Some(client) = &target.client {
        steps.extend(run_hooks_on_client(
            target,
            client,
            observed,
            Some(HookPoint::PostSetup),
            &pool,
        )?);
    }
    if steps.is_empty() {
        // Replace lost devices last: a failed replacement must not keep the target from serving.
        steps = pool.replace();
    }
    if steps.is_empty() {
        pool.check_resilvered()?;
    }
    Ok(steps)
}

pub(super) fn remove(target: &LustreTarget, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let pool = Pool::new(target, observed);
    let importing = pool.import_for_destruction()?;
    if !importing.is_empty() {
        return Ok(importing);
    }
    let is_whole = pool.dataset() == Some(DatasetState::Whole);
    let showing = mount_for_hooks(target, observed, &pool, is_whole)?;
    if !showing.is_empty() {
        return Ok(showing);
    }
    let more = pool.variables();
    let mut steps = Vec::new();
    let runs_hooks = observed.hooks_open;
    if let Some(client) = &target.client {
        // The PreTeardown hooks need the target: without a complete target they do not run.
        let client_phase = (runs_hooks && is_whole).then_some(HookPoint::PreTeardown);
        steps.extend(run_hooks_on_client(target, client, observed, client_phase, &pool)?);
    }
    if runs_hooks && is_whole {
        steps.extend(hooks::due(&target.hooks, HookPoint::PreDeactivate, observed, &more));
    }
    steps.extend(unmount_steps(target, observed, &more)?);
    steps.extend(pool.destroy());
    if runs_hooks {
        steps.extend(hooks::due(&target.hooks, HookPoint::PostTeardown, observed, &more));
        steps.push(Step::ForgetHooks { scope: target.scope() });
    }
    Ok(steps)
}

/// Plans to mount the target, and the client mount if it is needed, for tear-down hooks that are due: after a restart
/// of the node neither is mounted. Empty when no due hook needs a mount that is missing.
fn mount_for_hooks(
    target: &LustreTarget,
    observed: &Observed,
    pool: &Pool<'_>,
    is_whole: bool,
) -> Result<Vec<Step>, Rejection> {
    let client = target.client.as_ref().filter(|client| client.mount.is_some());
    let is_due = |phase| hooks::is_due(&target.hooks, phase, observed);
    let is_client_due = client.is_some() && is_due(HookPoint::PreTeardown);
    let wanted = is_due(HookPoint::PreDeactivate) || is_client_due;
    if !(wanted && observed.hooks_open && is_whole) {
        return Ok(Vec::new());
    }
    let mounting = mount_steps(target, observed)?;
    let Some(client) = client else { return Ok(mounting) };
    let showing = if is_client_due { mount_client(client, observed, pool)? } else { Vec::new() };
    Ok(mounting.into_iter().chain(showing).collect())
}

/// Plans the steps that mount the target; empty when it is mounted.
fn mount_steps(target: &LustreTarget, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &target.lines.mount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.target.as_ref());
    let source = Mountable::Name(target.dataset.to_string());
    let line = command.expand(&BTreeMap::new());
    mount::mount_on(&target.target, FileSystemKind::Lustre, source, line, &state, |existing| {
        is_target(target, existing)
    })
}

fn unmount_steps(
    target: &LustreTarget,
    observed: &Observed,
    more: &BTreeMap<String, String>,
) -> Result<Vec<Step>, Rejection> {
    // A site that leaves the line for the unmount empty unmounts the target in its hooks.
    let Some(command) = &target.lines.unmount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.target.as_ref());
    let line = command.expand(more);
    unmount::unmount_and_remove(&target.target, &state, Some(line), |existing| {
        is_target(target, existing)
    })
}

/// Returns whether the mount is a mount of the target. Lustre names the type of its servers' mounts `lustre` or
/// `lustre_tgt`, so the source decides: a target's source is its dataset. Apart from Lustre, only ZFS itself mounts
/// datasets; the type of such a mount is `zfs`.
fn is_target(target: &LustreTarget, existing: &MountedThing) -> bool {
    existing.source == target.dataset.to_string() && existing.kind != "zfs"
}

/// Plans to mount the file system as a client, run the hooks of the hook point and unmount the file system.
fn run_hooks_on_client(
    target: &LustreTarget,
    client: &LustreClient,
    observed: &Observed,
    phase: Option<HookPoint>,
    pool: &Pool<'_>,
) -> Result<Vec<Step>, Rejection> {
    let more = pool.variables();
    let due = phase.into_iter().flat_map(|phase| hooks::due(&target.hooks, phase, observed, &more));
    let due: Vec<_> = due.collect();
    let state = mount::target_state(observed.temporary.as_ref());
    let ours = |existing: &MountedThing| mount::is_client(&client.source, existing);
    let is_mounted =
        !unmount::uncovered_mounts(&client.temporary, &state, |existing| Ok(ours(existing)))?
            .is_empty();
    if !due.is_empty() && client.mount.is_some() && !is_mounted {
        return mount_client(client, observed, pool);
    }
    let mut steps = if client.mount.is_some() { due } else { Vec::new() };
    steps.extend(unmount::unmount_and_remove(&client.temporary, &state, None, ours)?);
    Ok(steps)
}

/// Plans mounting the file system at its temporary mount point; empty when it is mounted there.
fn mount_client(
    client: &LustreClient,
    observed: &Observed,
    pool: &Pool<'_>,
) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &client.mount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.temporary.as_ref());
    let source = Mountable::Name(client.source.clone());
    let line = command.expand(&pool.variables());
    mount::mount_on(&client.temporary, FileSystemKind::Lustre, source, line, &state, |existing| {
        mount::is_client(&client.source, existing)
    })
}
