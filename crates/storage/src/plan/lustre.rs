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
    let mounting = mounting(target, observed)?;

    let (mut steps, observed) =
        hooks::begin(&target.scope(), &target.hooks, observed, !formatting.is_empty());
    let observed = &*observed;
    steps.extend(formatting);
    steps.extend(mounting);
    steps.extend(hooks::due(&target.hooks, HookPoint::PostActivate, observed, &pool.variables()));
    if let Some(client) = &target.client {
        steps.extend(with_client(target, client, observed, Some(HookPoint::PostSetup), &pool)?);
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
    let showing = show_again(target, observed, &pool, is_whole)?;
    if !showing.is_empty() {
        return Ok(showing);
    }
    let more = pool.variables();
    let mut steps = Vec::new();
    let hooked = observed.hooks_open;
    if let Some(client) = &target.client {
        // The PreTeardown hooks need the target: without a complete target they do not run.
        let shown = (hooked && is_whole).then_some(HookPoint::PreTeardown);
        steps.extend(with_client(target, client, observed, shown, &pool)?);
    }
    if hooked && is_whole {
        steps.extend(hooks::due(&target.hooks, HookPoint::PreDeactivate, observed, &more));
    }
    steps.extend(unmounting(target, observed, &more)?);
    steps.extend(pool.destroy());
    if hooked {
        steps.extend(hooks::due(&target.hooks, HookPoint::PostTeardown, observed, &more));
        steps.push(Step::ForgetHooks { scope: target.scope() });
    }
    Ok(steps)
}

/// Plans to mount the target again after a restart of the node, for tear-down hooks that need the mounted target.
fn show_again(
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
    let mounting = mounting(target, observed)?;
    let Some(client) = client else { return Ok(mounting) };
    let showing = if is_client_due { show(client, observed, pool)? } else { Vec::new() };
    Ok(mounting.into_iter().chain(showing).collect())
}

/// Plans the steps that mount the target; empty when it is mounted.
fn mounting(target: &LustreTarget, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &target.lines.mount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.target.as_ref());
    let source = Mountable::Name(target.dataset.to_string());
    let line = command.expand(&BTreeMap::new());
    mount::on(&target.target, FileSystemKind::Lustre, source, line, &state, |there| {
        is_target(target, there)
    })
}

fn unmounting(
    target: &LustreTarget,
    observed: &Observed,
    more: &BTreeMap<String, String>,
) -> Result<Vec<Step>, Rejection> {
    // A site that leaves this line empty unmounts the target in its hooks.
    let Some(command) = &target.lines.unmount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.target.as_ref());
    let line = command.expand(more);
    unmount::clear(&target.target, &state, Some(line), |there| is_target(target, there))
}

/// Returns whether the mount is a mount of the target. Lustre names the type of its servers' mounts `lustre` or
/// `lustre_tgt`, so the source decides: a target's source is its dataset. Apart from Lustre, only ZFS itself mounts
/// datasets; the type of such a mount is `zfs`.
fn is_target(target: &LustreTarget, there: &MountedThing) -> bool {
    there.source == target.dataset.to_string() && there.kind != "zfs"
}

/// Plans to mount the file system as a client, run the phase's hooks and unmount it.
fn with_client(
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
    let ours = |there: &MountedThing| mount::is_client(&client.source, there);
    let is_shown =
        !unmount::in_reach(&client.temporary, &state, |there| Ok(ours(there)))?.is_empty();
    if !due.is_empty() && client.mount.is_some() && !is_shown {
        return show(client, observed, pool);
    }
    let mut steps = if client.mount.is_some() { due } else { Vec::new() };
    steps.extend(unmount::clear(&client.temporary, &state, None, ours)?);
    Ok(steps)
}

/// Plans mounting the file system at its temporary mount point; empty when it is mounted there.
fn show(
    client: &LustreClient,
    observed: &Observed,
    pool: &Pool<'_>,
) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &client.mount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.temporary.as_ref());
    let source = Mountable::Name(client.source.clone());
    let line = command.expand(&pool.variables());
    mount::on(&client.temporary, FileSystemKind::Lustre, source, line, &state, |there| {
        mount::is_client(&client.source, there)
    })
}
