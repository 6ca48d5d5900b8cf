//! Plans the creation, set-up and tear-down of a file system on a rabbit; each happens once.

use std::collections::BTreeMap;

use super::{
    Rejection, hooks,
    lvm::Lvm,
    mount, unmount,
    volume::{self, Completeness},
};
use crate::{
    Step,
    desired::{FileSystem, FileSystemKind, HookPoint},
    observed::{MountedThing, Observed, Signature, Superblock, VolumeDevice},
    step::Mountable,
};

pub(super) fn ready(fs: &FileSystem, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let Some(lvm) = Lvm::new(&fs.volume, observed.volume.as_ref()) else {
        let device = volume::device(&fs.volume, observed)?;
        return device.map_or(Ok(Vec::new()), |device| ready_on(fs, observed, &device));
    };
    let building = lvm.build()?;
    if !building.is_empty() || lvm.is_without_volume() {
        return Ok(building);
    }
    let is_tagged_complete =
        lvm.has_made(fs.id) || (fs.kind == FileSystemKind::Raw && !lvm.is_raid());
    let Some(device) = lvm.device()? else {
        let idle = is_tagged_complete
            && ready_on(fs, &as_complete(fs, observed), &lvm.device_to_be())?.is_empty();
        return if idle { Ok(lvm.resume_or_remove_leftovers()) } else { lvm.activate() };
    };
    lvm.check_synchronised()?;
    let steps = ready_on(fs, observed, &device)?;
    if !steps.is_empty() {
        return Ok(steps);
    }
    let note = (!is_tagged_complete).then(|| lvm.tag_complete(fs.id)).flatten();
    Ok(note.into_iter().chain(lvm.deactivate_if_idle()).collect())
}

/// Returns the observation as it would be if the volume were active. Use this only for a volume whose tag says that its
/// file system is complete: the signature of an inactive volume cannot be read.
fn as_complete(fs: &FileSystem, observed: &Observed) -> Observed {
    let mut observed = observed.clone();
    if let Some(state) = &mut observed.volume {
        state.signature = Some(Signature::Ours(fs.id));
    }
    observed
}

/// Plans the steps that make and set up the file system on an existing device.
fn ready_on(
    fs: &FileSystem,
    observed: &Observed,
    device: &VolumeDevice,
) -> Result<Vec<Step>, Rejection> {
    let more = variables(fs, observed, Some(device));
    let making = mkfs_steps(fs, observed, device, &more)?;
    let (mut steps, observed) = hooks::begin(&fs.scope(), &fs.hooks, observed, !making.is_empty());
    let observed = &*observed;
    steps.extend(making);
    steps.extend(hooks::due(&fs.hooks, HookPoint::PostActivate, observed, &more));
    steps.extend(with_temporary_mount(fs, observed, Some(device), Some(HookPoint::PostSetup))?);
    Ok(steps)
}

pub(super) fn remove(fs: &FileSystem, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let lvm = Lvm::new(&fs.volume, observed.volume.as_ref());
    if let Some(lvm) = lvm {
        let temporary = observed.temporary.as_ref();
        lvm.check_unused(temporary.and_then(|target| target.mounted.as_ref()))?;
    }
    let device = volume::device(&fs.volume, observed).ok().flatten();
    // A volume that lost a device may never become active again, so it is released whatever its contents are.
    let is_lost = device.is_none() && lvm.is_some_and(|lvm| lvm.has_lost_a_device());
    let whole = !is_lost && is_whole(fs, observed, device.as_ref());
    // The PreTeardown hooks need the file system: without a complete file system they do not run.
    let tear_down_phase = whole.then_some(HookPoint::PreTeardown);
    let wanted = observed.hooks_open
        && tear_down_phase.is_some_and(|phase| hooks::is_due(&fs.hooks, phase, observed));
    if let (Some(lvm), None, true) = (lvm, &device, wanted) {
        return lvm.activate();
    }
    let removing = lvm.map_or_else(|| Ok(Vec::new()), |lvm| lvm.remove())?;
    if !observed.hooks_open {
        return Ok(clear_temporary(fs, observed)?.into_iter().chain(removing).collect());
    }
    let more = variables(fs, observed, device.as_ref());
    let mut steps = with_temporary_mount(fs, observed, device.as_ref(), tear_down_phase)?;
    steps.extend(hooks::due(&fs.hooks, HookPoint::PreDeactivate, observed, &more));
    steps.extend(removing);
    steps.extend(hooks::due(&fs.hooks, HookPoint::PostTeardown, observed, &more));
    steps.push(Step::ForgetHooks { scope: fs.scope() });
    Ok(steps)
}

/// Returns whether the file system is known to be complete: by its superblock or, if the volume is not active,
/// by the volume's tag.
fn is_whole(fs: &FileSystem, observed: &Observed, device: Option<&VolumeDevice>) -> bool {
    let Some(state) = &observed.volume else { return false };
    match device {
        Some(device) => {
            volume::completeness(device, &fs.volume, state, (fs.id, fs.kind))
                == Ok(Completeness::Complete)
        }
        None => Lvm::new(&fs.volume, Some(state)).is_some_and(|lvm| lvm.has_made(fs.id)),
    }
}

fn mkfs_steps(
    fs: &FileSystem,
    observed: &Observed,
    device: &VolumeDevice,
    more: &BTreeMap<String, String>,
) -> Result<Vec<Step>, Rejection> {
    let (Some(command), Some(state)) = (&fs.mkfs, &observed.volume) else { return Ok(Vec::new()) };
    match fs.kind {
        FileSystemKind::Raw => return Ok(Vec::new()),
        FileSystemKind::Lustre => {
            return Err(Rejection::Unsupported {
                what: "Lustre on a logical volume".to_owned(),
                remedy: "Lustre targets lie on ZFS; for a logical volume use a profile with xfs, gfs2 or raw",
            });
        }
        FileSystemKind::Xfs | FileSystemKind::Gfs2 => {}
    }
    let line = command.expand(more);
    if sets_uuid(&line, fs.kind) {
        return Err(Rejection::MkfsSetsUuid { line });
    }
    let make = Step::MakeFileSystem { device: device.clone(), kind: fs.kind, id: fs.id, line };
    Ok(match volume::completeness(device, &fs.volume, state, (fs.id, fs.kind))? {
        Completeness::Complete => Vec::new(),
        Completeness::Missing => vec![make],
        Completeness::Interrupted => {
            vec![Step::WipeSignature { device: device.clone(), id: fs.id }, make]
        }
    })
}

/// Returns whether options in `line` set the UUID: `-m uuid=…`, `-mcrc=1,uuid=…` of mkfs.xfs(8),
/// `-U …` of mkfs.gfs2(8).
fn sets_uuid(line: &str, kind: FileSystemKind) -> bool {
    let words = shell_words::split(line).unwrap_or_default();
    if kind == FileSystemKind::Gfs2 {
        return words.iter().any(|word| word.starts_with("-U"));
    }
    words.iter().any(|word| {
        let options = word.strip_prefix("-m").unwrap_or(word);
        options.split(',').any(|option| option.starts_with("uuid="))
    })
}

/// Plans to mount the file system at its temporary mount point, run the hooks of the hook point and unmount the file
/// system. If a crash left this file system mounted there, the hooks use that mount. If no hook is due, plans only to
/// unmount the file system.
fn with_temporary_mount(
    fs: &FileSystem,
    observed: &Observed,
    device: Option<&VolumeDevice>,
    phase: Option<HookPoint>,
) -> Result<Vec<Step>, Rejection> {
    let mut more = variables(fs, observed, device);
    more.insert("$MOUNT_PATH".to_owned(), fs.temporary.to_string());
    let due = phase.into_iter().flat_map(|phase| hooks::due(&fs.hooks, phase, observed, &more));
    let due: Vec<_> = due.collect();
    let (Some(command), Some(device), false) =
        (&fs.mount, device, due.is_empty() || fs.kind == FileSystemKind::Raw)
    else {
        return clear_temporary(fs, observed);
    };
    let temporary = mount::target_state(observed.temporary.as_ref());
    let mounted_device =
        temporary.mounted.as_ref().map_or(device.number, |existing| existing.device);
    let (source, line) = (Mountable::Device(device.clone()), command.expand(&more));
    let mut steps =
        mount::mount_on(&fs.temporary, fs.kind, source, line, &temporary, |existing| {
            is_ours(fs, existing)
        })?;
    steps.extend(due);
    steps.push(unmount::plain_unmount(&fs.temporary, mounted_device));
    if temporary.beneath.is_empty() {
        steps.push(Step::RemoveMountPoint { target: fs.temporary.clone() });
    }
    Ok(steps)
}

fn clear_temporary(fs: &FileSystem, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let temporary = mount::target_state(observed.temporary.as_ref());
    unmount::unmount_and_remove(&fs.temporary, &temporary, None, |existing| is_ours(fs, existing))
}

fn is_ours(fs: &FileSystem, existing: &MountedThing) -> bool {
    existing.superblock == Superblock::Ours(fs.id) && existing.kind == fs.kind.as_str()
}

fn variables(
    fs: &FileSystem,
    observed: &Observed,
    device: Option<&VolumeDevice>,
) -> BTreeMap<String, String> {
    let devices = observed.volume.as_ref().map_or(&[][..], |state| &state.devices);
    let device = device.map(|device| ("$DEVICE".to_owned(), device.path.display().to_string()));
    let kind = ("$FSTYPE".to_owned(), fs.kind.as_str().to_owned());
    volume::variables(volume::of_devices(devices).into_iter().chain(device).chain([kind]))
}
