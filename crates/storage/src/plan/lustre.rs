//! Lustre targets: created once, mounted while they are wanted, mounted again after a restart of the node.
//!
//! The name of the mount is known only once it is mounted. Hooks that see the file system mounted are therefore planned
//! after another observation.

use std::collections::BTreeMap;

use super::{Rejection, hooks, mount, unmount, zpool::Pool};
use crate::{
    Step,
    desired::{FileSystemKind, Hook, LustreClient, LustreTarget},
    observed::{DatasetState, MountedThing, Observed, PathState},
    step::Mountable,
};

pub(super) fn ready(target: &LustreTarget, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let pool = Pool::of(target, observed);
    let building = pool.build()?;
    if !building.is_empty() {
        return Ok(building);
    }
    let formatting = pool.format();
    let mounting = mounting(target, observed)?;

    // Records of hooks count for nothing when the target was not made yet, or was torn down since.
    let torn_down = tear_down(target).iter().any(|list| hooks::any_ran(list, observed));
    let is_stale = torn_down || (!formatting.is_empty() && !observed.hooks.is_empty());
    let (mut steps, observed) = hooks::begin(&target.scope(), &every(target), observed, is_stale);
    let observed = &*observed;
    steps.extend(formatting);
    steps.extend(mounting);
    steps.extend(hooks::due(&target.post_activate, observed, &pool.variables()));
    if let Some(client) = &target.client {
        steps.extend(with_client(client, observed, &client.post_setup, &pool)?);
    }
    if steps.is_empty() {
        // Last: a device that does not fit must not keep the target from serving.
        steps = pool.replace();
    }
    if steps.is_empty() {
        pool.is_whole()?;
    }
    Ok(steps)
}

pub(super) fn gone(target: &LustreTarget, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let pool = Pool::of(target, observed);
    let importing = pool.take_up()?;
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
        // Without the target there is nothing to show to these hooks.
        let shown: &[Hook] = if hooked && is_whole { &client.pre_teardown } else { &[] };
        steps.extend(with_client(client, observed, shown, &pool)?);
    }
    if hooked && is_whole {
        steps.extend(hooks::due(&target.pre_deactivate, observed, &more));
    }
    steps.extend(unmounting(target, observed, &more)?);
    steps.extend(pool.destroy());
    if hooked {
        let after = target.client.as_ref().map_or(&[][..], |client| &client.post_teardown);
        steps.extend(hooks::due(after, observed, &more));
        steps.push(Step::ForgetHooks { scope: target.scope() });
    }
    Ok(steps)
}

/// After a restart of the node, mounts the target once more for tear-down hooks that still have to see it.
fn show_again(
    target: &LustreTarget,
    observed: &Observed,
    pool: &Pool<'_>,
    is_whole: bool,
) -> Result<Vec<Step>, Rejection> {
    let client = target.client.as_ref().filter(|client| client.mount.is_some());
    let lists = [&target.pre_deactivate[..], client.map_or(&[][..], |client| &client.pre_teardown)];
    let wanted =
        lists.iter().any(|list| hooks::due(list, observed, &BTreeMap::new()).next().is_some());
    if !(wanted && observed.hooks_open && is_whole) {
        return Ok(Vec::new());
    }
    let mounting = mounting(target, observed)?;
    let Some(client) = client else { return Ok(mounting) };
    let due = hooks::due(&client.pre_teardown, observed, &BTreeMap::new()).next().is_some();
    let showing = if due { show(client, observed, pool)? } else { Vec::new() };
    Ok(mounting.into_iter().chain(showing).collect())
}

/// The steps that mount the target; empty when it is mounted.
fn mounting(target: &LustreTarget, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &target.lines.mount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.target.as_ref());
    match &state.mounted {
        Some(there) if is_target(target, there) => return Ok(Vec::new()),
        Some(there) => return Err(mount::occupied(&target.target, there)),
        None => {}
    }
    let mut steps = mount::usable(&target.target, FileSystemKind::Lustre, false, &state.path)?;
    steps.push(Step::Mount {
        source: Mountable::Name(target.dataset.to_string()),
        target: target.target.clone(),
        kind: FileSystemKind::Lustre,
        line: command.expand(&BTreeMap::new()),
    });
    Ok(steps)
}

fn unmounting(
    target: &LustreTarget,
    observed: &Observed,
    more: &BTreeMap<String, String>,
) -> Result<Vec<Step>, Rejection> {
    // A site without the line unmounts in its hooks.
    let Some(command) = &target.lines.unmount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.target.as_ref());
    let ours = |there: &MountedThing| Ok(is_target(target, there));
    let open = unmount::in_reach(&target.target, &state, ours)?;
    let is_left = !open.is_empty() || state.path == PathState::Directory { empty: true };
    let removal = unmount::remove(&target.target, &state, open.len()).filter(|_| is_left);
    let line = command.expand(more);
    let unmount = |there: &MountedThing| Step::Unmount {
        target: target.target.clone(),
        device: there.device,
        line: line.clone(),
    };
    Ok(open.into_iter().map(unmount).chain(removal).collect())
}

/// Whether the mount is the target. Lustre names the type of its servers' mounts `lustre` or `lustre_tgt`, so the
/// source decides: a dataset, which apart from Lustre only ZFS itself mounts.
fn is_target(target: &LustreTarget, there: &MountedThing) -> bool {
    there.source == target.dataset.to_string() && there.kind != "zfs"
}

/// No other file system has an LNet address for a source: the `@` in it is in no host name.
fn is_client(client: &LustreClient, there: &MountedThing) -> bool {
    there.source == client.source
}

/// Runs `list` with the file system mounted, and unmounts it afterwards.
fn with_client(
    client: &LustreClient,
    observed: &Observed,
    list: &[Hook],
    pool: &Pool<'_>,
) -> Result<Vec<Step>, Rejection> {
    let due: Vec<_> = hooks::due(list, observed, &pool.variables()).collect();
    let state = mount::target_state(observed.temporary.as_ref());
    let ours = |there: &MountedThing| Ok(is_client(client, there));
    let left = unmount::in_reach(&client.temporary, &state, ours)?;
    if !due.is_empty() && client.mount.is_some() && left.is_empty() {
        return show(client, observed, pool);
    }
    let mut steps = if client.mount.is_some() { due } else { Vec::new() };
    let is_left = !left.is_empty() || state.path == PathState::Directory { empty: true };
    let removal = unmount::remove(&client.temporary, &state, left.len()).filter(|_| is_left);
    steps.extend(left.iter().map(|there| unmount::plainly(&client.temporary, there.device)));
    steps.extend(removal);
    Ok(steps)
}

/// Mounts the file system where hooks see it; empty when it is mounted there.
fn show(
    client: &LustreClient,
    observed: &Observed,
    pool: &Pool<'_>,
) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &client.mount else { return Ok(Vec::new()) };
    let state = mount::target_state(observed.temporary.as_ref());
    match &state.mounted {
        Some(there) if is_client(client, there) => return Ok(Vec::new()),
        Some(there) => return Err(mount::occupied(&client.temporary, there)),
        None => {}
    }
    let mut steps = mount::usable(&client.temporary, FileSystemKind::Lustre, false, &state.path)?;
    steps.push(Step::Mount {
        source: Mountable::Name(client.source.clone()),
        target: client.temporary.clone(),
        kind: FileSystemKind::Lustre,
        line: command.expand(&pool.variables()),
    });
    Ok(steps)
}

fn tear_down(target: &LustreTarget) -> [&[Hook]; 3] {
    let client = target.client.as_ref();
    [
        &target.pre_deactivate,
        client.map_or(&[], |client| &client.pre_teardown),
        client.map_or(&[], |client| &client.post_teardown),
    ]
}

fn every(target: &LustreTarget) -> [&[Hook]; 5] {
    let [a, b, c] = tear_down(target);
    let set_up = target.client.as_ref().map_or(&[][..], |client| &client.post_setup);
    [&target.post_activate, set_up, a, b, c]
}
