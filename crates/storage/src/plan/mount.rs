//! Plans a mount: from the source device to the owner of the mount's root.

use std::collections::BTreeMap;

use super::{Rejection, hooks, lvm::Lvm, volume};
use crate::{
    Step,
    desired::{FileSystemId, FileSystemKind, HookPoint, Mount, MountPoint, MountSource, Volume},
    observed::{MountedThing, Observed, PathState, Superblock, TargetState},
    step::Mountable,
};

pub(super) fn mount(mount: &Mount, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let Source { steps: reaching, what } = source(mount, observed)?;
    let more = variables(mount, observed);
    let is_reached = reaching.is_empty();
    let mounting = match what {
        Some(what) => mount_steps(mount, observed, what, &more)?,
        None => Vec::new(),
    };

    let (mut steps, observed) = hooks::begin(&mount.scope, &mount.hooks, observed, false);
    let observed = &*observed;
    steps.extend(hooks::due(&mount.hooks, HookPoint::PreActivate, observed, &more));
    steps.extend(reaching);
    if !is_reached {
        // Plan the mount in a later round: the signature can be read only once the device exists.
        return Ok(steps);
    }
    for phase in [HookPoint::PostActivate, HookPoint::PreMount] {
        steps.extend(hooks::due(&mount.hooks, phase, observed, &more));
    }
    steps.extend(mounting);
    steps.extend(change_owner(mount, observed));
    steps.extend(write_root_file(mount, observed));
    steps.extend(hooks::due(&mount.hooks, HookPoint::PostMount, observed, &more));
    Ok(steps)
}

/// The source of a mount, and the steps that are needed before it can be mounted.
struct Source {
    steps: Vec<Step>,
    what: Option<Mountable>,
}

impl From<Mountable> for Source {
    fn from(what: Mountable) -> Self {
        Self { steps: Vec::new(), what: Some(what) }
    }
}

/// Checks the facts that prove that the source is the right one, and returns the source.
fn source(mount: &Mount, observed: &Observed) -> Result<Source, Rejection> {
    match &mount.source {
        MountSource::Volume { volume, id } => on_volume(mount, volume, *id, observed),
        MountSource::Bind(from) => {
            let source_mount = observed.source.as_ref().and_then(|source| source.mounted.as_ref());
            match source_mount {
                Some(_) => Ok(Mountable::Name(from.to_string()).into()),
                None => Err(Rejection::SourceNotMounted {
                    from: from.clone(),
                    target: mount.target.clone(),
                }),
            }
        }
        MountSource::Lustre(source) => Ok(Mountable::Name(source.clone()).into()),
    }
}

fn on_volume(
    mount: &Mount,
    volume: &Volume,
    id: FileSystemId,
    observed: &Observed,
) -> Result<Source, Rejection> {
    let lvm = Lvm::new(volume, observed.volume.as_ref());
    let is_raw = mount.kind == FileSystemKind::Raw;
    if let Some(lvm) = lvm.filter(|_| !is_raw) {
        lvm.check_finished(id)?;
    }
    let device = match (volume::device(volume, observed)?, lvm) {
        (Some(device), _) => device,
        // A volume group without volumes, whose lock space the sites keep open on computes.
        (None, Some(lvm)) if mount.mount.is_none() && is_raw && lvm.is_only_a_group() => {
            return Ok(Source { steps: lvm.join_group()?, what: None });
        }
        (None, Some(lvm)) => return Ok(Source { steps: lvm.activate()?, what: None }),
        (None, None) => return Ok(Source { steps: Vec::new(), what: None }),
    };
    if !is_raw
        && let Some(state) = &observed.volume
        && volume::completeness(&device, volume, state, (id, mount.kind))?
            != volume::Completeness::Complete
    {
        return Err(Rejection::NotMade { device: device.path.clone(), wanted: id });
    }
    Ok(Mountable::Device(device).into())
}

fn mount_steps(
    mount: &Mount,
    observed: &Observed,
    source: Mountable,
    more: &BTreeMap<String, String>,
) -> Result<Vec<Step>, Rejection> {
    let Some(command) = &mount.mount else { return Ok(Vec::new()) };
    let target = target_state(observed.target.as_ref());
    let line = command.expand(more);
    mount_on(&mount.target, mount.kind, source, line, &target, |existing| {
        is_desired(mount, existing, observed)
    })
}

/// Plans the steps that mount `source` on `target`, whose observed state is `state`. Empty when a mount is there
/// already and `is_desired` accepts it.
pub(super) fn mount_on(
    target: &MountPoint,
    kind: FileSystemKind,
    source: Mountable,
    line: String,
    state: &TargetState,
    is_desired: impl Fn(&MountedThing) -> bool,
) -> Result<Vec<Step>, Rejection> {
    if let Some(existing) = &state.mounted {
        return if is_desired(existing) {
            Ok(Vec::new())
        } else {
            Err(occupied_by(target, existing))
        };
    }
    let mut steps = prepare_mount_point(target, kind, &state.path)?;
    steps.push(Step::Mount { source, target: target.clone(), kind, line });
    Ok(steps)
}

/// Plans the creation of an absent mount point. Rejects a mount point that cannot be used for this kind of mount.
fn prepare_mount_point(
    target: &MountPoint,
    kind: FileSystemKind,
    path: &PathState,
) -> Result<Vec<Step>, Rejection> {
    let file = kind == FileSystemKind::Raw;
    let wrong = |found| {
        let wanted = if file { "an empty file" } else { "an empty directory" };
        Err(Rejection::WrongType { target: target.clone(), kind, found, wanted })
    };
    match path {
        PathState::Absent => Ok(vec![Step::CreateMountPoint { target: target.clone(), file }]),
        PathState::Directory { empty: true } if !file => Ok(Vec::new()),
        PathState::File { empty: true } if file => Ok(Vec::new()),
        PathState::Directory { .. } if file => wrong("a directory"),
        PathState::File { .. } if !file => wrong("a file"),
        PathState::Directory { .. } | PathState::File { .. } => {
            Err(Rejection::NotEmpty { target: target.clone() })
        }
        PathState::BlockDevice => wrong("a block device"),
        PathState::Other => wrong("a special file"),
        PathState::Symlink { .. }
        | PathState::NotDirectory { .. }
        | PathState::ThroughMount { .. } => Err(Rejection::through(target, path)),
    }
}

/// Returns whether the mount is the desired one, and not just another mount at the same path.
pub(super) fn is_desired(mount: &Mount, existing: &MountedThing, observed: &Observed) -> bool {
    match &mount.source {
        MountSource::Volume { volume, id } => {
            let by_device = is_on(volume, existing, observed);
            match mount.kind {
                FileSystemKind::Raw => by_device && existing.kind == mount.kind.as_str(),
                FileSystemKind::Xfs | FileSystemKind::Gfs2 | FileSystemKind::Lustre => {
                    existing.kind == mount.kind.as_str()
                        && existing.root == "/"
                        && match existing.superblock {
                            Superblock::Ours(found) => found == *id,
                            Superblock::Unknown => by_device,
                            // An earlier agent may have made the file system on this volume: its UUID is then one that
                            // Warren did not derive.
                            Superblock::Foreign => by_device && volume.layer.lines().is_some(),
                        }
                }
            }
        }
        MountSource::Bind(_) => {
            match observed.source.as_ref().and_then(|source| source.mounted.as_ref()) {
                Some(shown) => shown.device == existing.device && shown.root == existing.root,
                // The source of the bind mount is unmounted already; the UUID still shows that the bind mount is
                // Warren's.
                None => {
                    matches!(existing.superblock, Superblock::Ours(_))
                        || existing.namespace.is_some()
                }
            }
        }
        MountSource::Lustre(source) => is_client(source, existing),
    }
}

/// Returns whether the mount is a Lustre client's mount of this source. Only Lustre has an LNet address as its source;
/// such an address contains an `@`, which no host name contains.
pub(super) fn is_client(source: &str, existing: &MountedThing) -> bool {
    existing.source == source && (existing.kind == "lustre" || source.contains('@'))
}

/// Returns whether the mount is on the volume's device: the only namespace, or the logical volume's mapping.
fn is_on(volume: &Volume, existing: &MountedThing, observed: &Observed) -> bool {
    let lies_on = || {
        existing.namespace.as_ref().is_some_and(|namespace| volume.namespaces.contains(namespace))
    };
    if volume.layer.lines().is_none() {
        return lies_on();
    }
    let lvm = Lvm::new(volume, observed.volume.as_ref());
    if lvm.is_some_and(|lvm| lvm.is_suspended_at(existing.device)) {
        return true;
    }
    let device = volume::device(volume, observed).ok().flatten();
    // Without the profile it is unknown whether LVM lies between the file system and the namespaces.
    device.is_some_and(|device| device.number == existing.device)
        || volume.is_guessed() && lies_on()
}

/// Returns whether the mount could be the desired one: its type is right, and its superblock and namespace, which would
/// decide, are unknown.
pub(super) fn may_be_desired(mount: &Mount, existing: &MountedThing) -> bool {
    matches!(mount.source, MountSource::Volume { .. })
        && mount.kind != FileSystemKind::Raw
        && existing.kind == mount.kind.as_str()
        && existing.root == "/"
        && existing.superblock == Superblock::Unknown
        && existing.namespace.is_none()
}

fn occupied_by(target: &MountPoint, existing: &MountedThing) -> Rejection {
    Rejection::Occupied {
        target: target.clone(),
        from: existing.source.clone(),
        kind: existing.kind.clone(),
    }
}

fn change_owner(mount: &Mount, observed: &Observed) -> Option<Step> {
    let owner = mount.owner?;
    let state = observed.target.as_ref();
    let mounted = state.is_some_and(|state| state.mounted.is_some());
    let is_owner = mounted && state.and_then(|state| state.owner) == Some(owner);
    let will_be_mounted = mounted || mount.mount.is_some();
    (will_be_mounted && !is_owner).then(|| Step::SetOwner { target: mount.target.clone(), owner })
}

/// Plans to write the root file, but only into a mounted file system. In the bare mount point, the file would be hidden
/// by a later mount, and would keep the mount point from being empty.
fn write_root_file(mount: &Mount, observed: &Observed) -> Option<Step> {
    let file = mount.file.as_ref().filter(|wanted| observed.file.as_ref() != Some(wanted))?;
    let mounted = observed.target.as_ref().is_some_and(|state| state.mounted.is_some());
    (mounted || mount.mount.is_some())
        .then(|| Step::WriteFile { target: mount.target.clone(), file: file.clone() })
}

pub(super) fn variables(mount: &Mount, observed: &Observed) -> BTreeMap<String, String> {
    let device = match &mount.source {
        MountSource::Volume { volume, .. } => volume::device(volume, observed)
            .ok()
            .flatten()
            .map(|device| device.path.display().to_string()),
        MountSource::Bind(from) => Some(from.to_string()),
        MountSource::Lustre(source) => Some(source.clone()),
    };
    let devices = observed.volume.as_ref().map_or(&[][..], |state| &state.devices);
    let device = device.map(|device| ("$DEVICE".to_owned(), device));
    let target = ("$MOUNT_PATH".to_owned(), mount.target.to_string());
    volume::variables(volume::of_devices(devices).into_iter().chain(device).chain([target]))
}

pub(super) fn target_state(state: Option<&TargetState>) -> TargetState {
    state.cloned().unwrap_or_default()
}
