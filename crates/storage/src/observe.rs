//! What each desire needs to see of a node, and nothing else.

mod volumes;

use crate::{
    Desired, Observed,
    desired::{
        AllocationId, FileSystem, FileSystemKind, Hook, HookId, HookScope, IndexTree, LustreTarget,
        Mount, MountHooks, MountPoint, MountSource, NamespaceId, RootFile, Volume, VolumeLayer,
    },
    host::ObserveError,
    observed::{
        Activation, BlockDevice, FoundPool, Holders, LogicalVolume, LvmReport, LvmState, Mapping,
        MountedThing, PoolState, Signature, TargetState, TreeState, Unfinished, Use, VolumeDevice,
        VolumeState, Zpool,
    },
};

/// The looks that a host can take.
pub(crate) trait Observer {
    /// Drives, namespaces and the pool; the rest stays empty.
    fn inventory(&self) -> Result<Observed, ObserveError>;
    /// What is recorded for another allocation than `made_for` is not reached.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;
    /// The same of many, in the order asked for.
    fn devices(
        &self,
        ids: &[NamespaceId],
        made_for: Option<AllocationId>,
    ) -> Result<Vec<Option<BlockDevice>>, ObserveError>;
    /// What the device that carries a file system begins with.
    fn signature(&self, device: &VolumeDevice) -> Result<Signature, ObserveError>;
    /// What this node has active of a logical volume; the report stays empty.
    fn mapped(&self, volume: &Volume, devices: &[BlockDevice]) -> Result<LvmState, ObserveError>;
    /// What a logical volume is that is not active, and all that commands left of it that were cut off: the look at what is
    /// mapped does not see mappings without a table.
    fn unfinished(&self, volume: &Volume) -> Result<Activation, ObserveError>;
    /// What a repair that was cut off left of a RAID that is active.
    fn beside(&self, volume: &Volume) -> Result<Vec<Unfinished>, ObserveError>;
    /// What LVM has on these devices, and on these alone.
    fn lvm(&self, devices: &[BlockDevice]) -> Result<LvmReport, ObserveError>;
    /// All of device-mapper's devices.
    fn mappings(&self) -> Result<Vec<Mapping>, ObserveError>;
    /// Volume groups in whose lock space the node is.
    fn lock_spaces(&self) -> Result<Vec<String>, ObserveError>;
    /// The target's pool, when it is imported, and what is in it.
    fn zpool(
        &self,
        target: &LustreTarget,
        devices: &[BlockDevice],
    ) -> Result<Option<Zpool>, ObserveError>;
    /// Pools that could be imported from these devices, and from these alone.
    fn pools_on(&self, devices: &[BlockDevice]) -> Result<Vec<FoundPool>, ObserveError>;
    fn target(&self, target: &MountPoint) -> Result<TargetState, ObserveError>;
    /// Who uses a device that is not mounted at the place that it is to go from.
    fn users(&self, device: &VolumeDevice, kind: FileSystemKind) -> Result<Use, ObserveError>;
    /// Who uses a Lustre file system that this node has mounted nowhere.
    fn lustre_users(&self, source: &str) -> Result<Option<Holders>, ObserveError>;
    /// A file in the root of what is mounted at a place.
    fn file(&self, target: &MountPoint, name: &str) -> Result<Option<RootFile>, ObserveError>;
    fn tree(&self, tree: &IndexTree) -> Result<TreeState, ObserveError>;
    fn mounts(&self) -> Result<Vec<(MountPoint, MountedThing)>, ObserveError>;
    fn hooks_open(&self, scope: &HookScope) -> Result<bool, ObserveError>;
    fn hook_ran(&self, id: &HookId) -> Result<bool, ObserveError>;
}

pub(crate) fn observe(
    observer: &impl Observer,
    desired: &Desired,
) -> Result<Observed, ObserveError> {
    match desired {
        Desired::Allocated(_)
        | Desired::Adopted(_)
        | Desired::Released(_)
        | Desired::Withdrawn { .. }
        | Desired::Inventory => observer.inventory(),
        Desired::FileSystemReady(fs) => file_system(observer, fs, true),
        // What is on the device matters only to those who are shown it: what cannot be read any more goes all the same.
        Desired::FileSystemGone(fs) => file_system(observer, fs, !fs.pre_teardown.is_empty()),
        Desired::TargetReady(target) | Desired::TargetGone(target) => lustre(observer, target),
        Desired::Mounted(mount) => mounted(observer, mount, ToBe::Mounted),
        Desired::Unmounted(mount) => mounted(observer, mount, ToBe::Unmounted),
        Desired::IndexTree(tree) | Desired::NoIndexTree(tree) => {
            Ok(Observed { tree: Some(observer.tree(tree)?), ..Observed::default() })
        }
        Desired::OnlyVolumes(_) => volumes::volumes(observer),
        Desired::OnlyMounts(_) => {
            Ok(Observed { mounts: observer.mounts()?, ..Observed::default() })
        }
    }
}

fn file_system(
    observer: &impl Observer,
    fs: &FileSystem,
    signed: bool,
) -> Result<Observed, ObserveError> {
    let lists = [
        &fs.post_activate,
        &fs.post_setup,
        &fs.pre_teardown,
        &fs.pre_deactivate,
        &fs.post_teardown,
    ];
    let observed = hooks(observer, &fs.scope(), lists.into_iter().flatten())?;
    let signed = signed && fs.kind != FileSystemKind::Raw;
    let volume = volume(observer, &fs.volume, signed, |_| true)?;
    let temporary = observer.target(&fs.temporary)?;
    Ok(Observed { volume: Some(volume), temporary: Some(temporary), ..observed })
}

fn lustre(observer: &impl Observer, target: &LustreTarget) -> Result<Observed, ObserveError> {
    let client = target.client.as_ref();
    let of_client =
        client.map(|client| [&client.post_setup, &client.pre_teardown, &client.post_teardown]);
    let own = [&target.post_activate, &target.pre_deactivate];
    let lists = own.into_iter().chain(of_client.into_iter().flatten());
    let mut observed = hooks(observer, &target.scope(), lists.flatten())?;
    let (devices, missing) = devices(observer, &target.namespaces, target.made_for)?;
    let imported = observer.zpool(target, &devices)?;
    let look_for = imported.is_none() && !devices.is_empty();
    let found = if look_for { observer.pools_on(&devices)? } else { Vec::new() };
    observed.zpool = Some(PoolState { devices, missing, imported, found });
    observed.target = Some(observer.target(&target.target)?);
    observed.temporary = client.map(|client| observer.target(&client.temporary)).transpose()?;
    Ok(observed)
}

/// The devices of those namespaces that this node reaches, and the namespaces that it does not.
fn devices(
    observer: &impl Observer,
    namespaces: &[NamespaceId],
    made_for: Option<AllocationId>,
) -> Result<(Vec<BlockDevice>, Vec<NamespaceId>), ObserveError> {
    let (mut devices, mut missing) = (Vec::new(), Vec::new());
    for (namespace, device) in namespaces.iter().zip(observer.devices(namespaces, made_for)?) {
        match device {
            Some(device) => devices.push(device),
            None => missing.push(namespace.clone()),
        }
    }
    Ok((devices, missing))
}

/// What a mount is looked at for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToBe {
    Mounted,
    Unmounted,
}

fn mounted(observer: &impl Observer, mount: &Mount, to_be: ToBe) -> Result<Observed, ObserveError> {
    // What is on the device does not matter for taking it away.
    let signed = mount.kind != FileSystemKind::Raw && to_be == ToBe::Mounted;
    let mut observed = hooks(observer, &mount.scope, every(&mount.hooks))?;
    observed.target = Some(observer.target(&mount.target)?);
    let is_mounted = observed.target.as_ref().is_some_and(|target| target.mounted.is_some());
    if let Some(wanted) = mount.file.as_ref().filter(|_| is_mounted && to_be == ToBe::Mounted) {
        observed.file = observer.file(&mount.target, &wanted.name)?;
    }
    match &mount.source {
        MountSource::Volume { volume: wanted, .. } => {
            // What is mounted is known by its devices; LVM is asked only about what must be activated or taken down.
            let told = |seen: &LvmState| match to_be {
                ToBe::Mounted => seen.active().is_none() || !is_mounted,
                ToBe::Unmounted => seen.activation != Activation::Down || seen.in_lock_space,
            };
            let state = volume(observer, wanted, signed, told)?;
            if to_be == ToBe::Unmounted {
                observed.in_use = users(observer, mount, wanted, &state, observed.target.as_ref())?;
            }
            observed.volume = Some(state);
        }
        MountSource::Bind(from) => observed.source = Some(observer.target(from)?),
        MountSource::Lustre(source) if to_be == ToBe::Unmounted && !is_mounted => {
            observed.in_use = observer.lustre_users(source)?.into();
        }
        MountSource::Lustre(_) => {}
    }
    Ok(observed)
}

/// Who uses the device of a volume that is not mounted at its place: as long as it is, that place comes first.
fn users(
    observer: &impl Observer,
    mount: &Mount,
    volume: &Volume,
    state: &VolumeState,
    target: Option<&TargetState>,
) -> Result<Use, ObserveError> {
    let Some(device) = device_of(volume, state) else { return Ok(Use::Free) };
    let mut mounts =
        target.into_iter().flat_map(|target| target.mounted.iter().chain(&target.beneath));
    if mounts.any(|there| there.device == device.number) {
        return Ok(Use::Free);
    }
    observer.users(&device, mount.kind)
}

/// The one device of a volume, while it has one here.
fn device_of(volume: &Volume, state: &VolumeState) -> Option<VolumeDevice> {
    match (&state.lvm, &state.devices[..]) {
        (Some(seen), _) => seen.active().map(|active| active.device(volume)),
        (None, [device]) => Some(device.into()),
        (None, _) => None,
    }
}

fn volume(
    observer: &impl Observer,
    volume: &Volume,
    signed: bool,
    told: impl Fn(&LvmState) -> bool,
) -> Result<VolumeState, ObserveError> {
    let (devices, missing) = devices(observer, &volume.namespaces, volume.made_for)?;
    let mut state = VolumeState { devices, missing, ..VolumeState::default() };
    match volume.layer {
        VolumeLayer::Plain => {}
        VolumeLayer::Lvm(_) => state.lvm = Some(logical(observer, volume, &state.devices, told)?),
    }
    let device = device_of(volume, &state);
    if let Some(device) = device.filter(|_| signed) {
        state.signature = Some(observer.signature(&device)?);
    }
    Ok(state)
}

fn logical(
    observer: &impl Observer,
    volume: &Volume,
    devices: &[BlockDevice],
    told: impl Fn(&LvmState) -> bool,
) -> Result<LvmState, ObserveError> {
    if volume.is_guessed() && !devices.is_empty() {
        return guessed(observer, volume, devices);
    }
    let mut seen = observer.mapped(volume, devices)?;
    if told(&seen) {
        // LVM without a list would look at every disk of the node.
        let nothing = || Ok(LvmReport::default());
        seen.report = Some(if devices.is_empty() { nothing() } else { observer.lvm(devices) }?);
        complete(observer, volume, &mut seen)?;
    }
    Ok(seen)
}

/// What sysfs does not show, where something may have been left.
fn complete(
    observer: &impl Observer,
    volume: &Volume,
    seen: &mut LvmState,
) -> Result<(), ObserveError> {
    let group = seen.report.as_ref().and_then(|report| report.group(&volume.group));
    let logical = group.and_then(|group| group.volume(&volume.logical));
    match &mut seen.activation {
        Activation::Active(mapped) if logical.is_some_and(LogicalVolume::is_partial) => {
            mapped.beside = observer.beside(volume)?;
        }
        Activation::Active(_) => {}
        activation => *activation = observer.unfinished(volume)?,
    }
    Ok(())
}

/// Only what is written on the devices tells what their volume is called.
fn guessed(
    observer: &impl Observer,
    volume: &Volume,
    devices: &[BlockDevice],
) -> Result<LvmState, ObserveError> {
    let report = observer.lvm(devices)?;
    let names = report.names_of(volume);
    let named = volume.named(names.as_ref());
    let seen = observer.mapped(&named, devices)?;
    let mut seen = LvmState { report: Some(report), names, ..seen };
    complete(observer, &named, &mut seen)?;
    Ok(seen)
}

fn hooks<'a>(
    observer: &impl Observer,
    scope: &HookScope,
    asked: impl Iterator<Item = &'a Hook>,
) -> Result<Observed, ObserveError> {
    let mut observed = Observed { hooks_open: observer.hooks_open(scope)?, ..Observed::default() };
    for hook in asked {
        if observer.hook_ran(&hook.id)? {
            observed.hooks.insert(hook.id.clone());
        }
    }
    Ok(observed)
}

fn every(hooks: &MountHooks) -> impl Iterator<Item = &Hook> {
    [
        &hooks.pre_activate,
        &hooks.post_activate,
        &hooks.pre_mount,
        &hooks.post_mount,
        &hooks.pre_unmount,
        &hooks.post_unmount,
        &hooks.pre_deactivate,
        &hooks.post_deactivate,
    ]
    .into_iter()
    .flatten()
}
