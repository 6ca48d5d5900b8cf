//! File systems on a rabbit: made once, set up once, torn down once.

use std::collections::BTreeMap;

use super::{
    Rejection, hooks, mount, unmount,
    volume::{self, Made},
};
use crate::{
    Step,
    desired::{FileSystem, FileSystemKind, Hook},
    observed::{BlockDevice, MountedThing, Observed, PathState, Superblock},
};

pub(super) fn ready(fs: &FileSystem, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    volume::supported(fs.kind)?;
    let device = volume::device(&fs.volume, observed)?;
    let more = variables(fs, Some(device));
    let making = making(fs, observed, device, &more)?;

    let mut steps = Vec::new();
    // Hooks of a file system that was not made yet, or was torn down since, count for nothing.
    let torn_down = tear_down(fs).iter().any(|list| hooks::any_ran(list, observed));
    let fresh = Observed { hooks: Default::default(), hooks_open: false, ..observed.clone() };
    let observed = if torn_down || (!making.is_empty() && !observed.hooks.is_empty()) {
        steps.push(Step::ForgetHooks { scope: fs.scope() });
        &fresh
    } else {
        observed
    };
    steps.extend(hooks::open(&fs.scope(), &every(fs), observed));
    steps.extend(making);
    steps.extend(hooks::due(&fs.post_activate, observed, &more));
    steps.extend(with_temporary_mount(fs, observed, Some(device), &fs.post_setup)?);
    Ok(steps)
}

pub(super) fn gone(fs: &FileSystem, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let device = volume::device(&fs.volume, observed).ok();
    let whole = device.is_some_and(|device| {
        observed
            .volume
            .as_ref()
            .is_some_and(|state| volume::made(device, state, fs.id) == Ok(Made::Whole))
    });
    if !observed.hooks_open {
        return clear_temporary(fs, observed);
    }
    let more = variables(fs, device);
    // Without the file system there is nothing that these hooks could be shown.
    let shown: &[Hook] = if whole { &fs.pre_teardown } else { &[] };
    let mut steps = with_temporary_mount(fs, observed, device, shown)?;
    steps.extend(hooks::due(&fs.pre_deactivate, observed, &more));
    steps.extend(hooks::due(&fs.post_teardown, observed, &more));
    steps.push(Step::ForgetHooks { scope: fs.scope() });
    Ok(steps)
}

fn making(
    fs: &FileSystem,
    observed: &Observed,
    device: &BlockDevice,
    more: &BTreeMap<String, String>,
) -> Result<Vec<Step>, Rejection> {
    let (Some(command), Some(state)) = (&fs.mkfs, &observed.volume) else { return Ok(Vec::new()) };
    match fs.kind {
        FileSystemKind::Raw => return Ok(Vec::new()),
        FileSystemKind::Lustre => {
            return Err(Rejection::Unsupported {
                what: "a lustre target".to_owned(),
                remedy: "use a profile with xfs or raw",
            });
        }
        FileSystemKind::Xfs | FileSystemKind::Gfs2 => {}
    }
    let line = command.expand(more);
    if sets_uuid(&line) {
        return Err(Rejection::MkfsSetsUuid { line });
    }
    let make = Step::MakeFileSystem {
        namespace: device.namespace.clone(),
        device: device.path.clone(),
        kind: fs.kind,
        id: fs.id,
        line,
    };
    Ok(match volume::made(device, state, fs.id)? {
        Made::Whole => Vec::new(),
        Made::No => vec![make],
        Made::Half => vec![
            Step::WipeSignature {
                namespace: device.namespace.clone(),
                device: device.path.clone(),
                id: fs.id,
            },
            make,
        ],
    })
}

/// Whether mkfs.xfs(8) options in `line` set the UUID: `-m uuid=…`, `-mcrc=1,uuid=…`.
fn sets_uuid(line: &str) -> bool {
    let words = shell_words::split(line).unwrap_or_default();
    words.iter().any(|word| {
        let options = word.strip_prefix("-m").unwrap_or(word);
        options.split(',').any(|option| option.starts_with("uuid="))
    })
}

/// `hooks` with the file system mounted at its temporary place, and that place left clean; a mount of ours that a crash
/// left there is used, or cleaned away.
fn with_temporary_mount(
    fs: &FileSystem,
    observed: &Observed,
    device: Option<&BlockDevice>,
    list: &[Hook],
) -> Result<Vec<Step>, Rejection> {
    let mut more = variables(fs, device);
    more.insert("$MOUNT_PATH".to_owned(), fs.temporary.to_string());
    let due: Vec<_> = hooks::due(list, observed, &more).collect();
    let (Some(command), Some(device), false) =
        (&fs.mount, device, due.is_empty() || fs.kind == FileSystemKind::Raw)
    else {
        return clear_temporary(fs, observed);
    };
    let temporary = mount::target_state(observed.temporary.as_ref());
    let mut steps = Vec::new();
    let shown = temporary.mounted.as_ref().map_or(device.number, |there| there.device);
    match &temporary.mounted {
        Some(there) if is_ours(fs, there) => {}
        Some(there) => return Err(mount::occupied(&fs.temporary, there)),
        None => {
            steps.extend(mount::usable(&fs.temporary, fs.kind, false, &temporary.path)?);
            steps.push(Step::Mount {
                source: device.path.display().to_string(),
                target: fs.temporary.clone(),
                kind: fs.kind,
                line: command.expand(&more),
            });
        }
    }
    steps.extend(due);
    steps.push(unmount::plainly(&fs.temporary, shown));
    if temporary.beneath.is_empty() {
        steps.push(Step::RemoveMountPoint { target: fs.temporary.clone() });
    }
    Ok(steps)
}

fn clear_temporary(fs: &FileSystem, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let temporary = mount::target_state(observed.temporary.as_ref());
    let left = unmount::in_reach(&fs.temporary, &temporary, |there| Ok(is_ours(fs, there)))?;
    let ours = !left.is_empty() || temporary.path == PathState::Directory { empty: true };
    let removal = unmount::remove(&fs.temporary, &temporary, left.len()).filter(|_| ours);
    let unmounting = left.iter().map(|there| unmount::plainly(&fs.temporary, there.device));
    Ok(unmounting.chain(removal).collect())
}

fn is_ours(fs: &FileSystem, there: &MountedThing) -> bool {
    there.superblock == Superblock::Ours(fs.id) && there.kind == fs.kind.as_str()
}

fn variables(fs: &FileSystem, device: Option<&BlockDevice>) -> BTreeMap<String, String> {
    let device = device.map(|device| ("$DEVICE", device.path.display().to_string()));
    volume::variables(device.into_iter().chain([("$FSTYPE", fs.kind.as_str().to_owned())]))
}

fn tear_down(fs: &FileSystem) -> [&[Hook]; 3] {
    [&fs.pre_teardown, &fs.pre_deactivate, &fs.post_teardown]
}

fn every(fs: &FileSystem) -> [&[Hook]; 5] {
    let [a, b, c] = tear_down(fs);
    [&fs.post_activate, &fs.post_setup, a, b, c]
}
