//! What the planner needs to see of a node for each desire, and nothing else.

mod volumes;

use crate::{
    Desired, Observed,
    desired::{
        AllocationId, FileSystem, FileSystemKind, Hook, HookId, HookPoint, HookScope, IndexTree,
        LustreTarget, Mount, MountPoint, MountSource, NamespaceId, RootFile, Volume, VolumeLayer,
    },
    host::ObserveError,
    observed::{
        Activation, BlockDevice, FoundPool, Holders, LogicalVolume, LvmReport, LvmState, Mapping,
        MountedThing, PoolState, Signature, TargetState, TreeState, Unfinished, Use, VolumeDevice,
        VolumeState, Zpool,
    },
};

/// What a host can observe. Each method reads one thing.
pub(crate) trait Observer {
    /// Drives, namespaces and the file-backed pool; the rest stays empty.
    fn inventory(&self) -> Result<Observed, ObserveError>;
    /// The block device of a namespace here; `None` also when it is recorded for another allocation than `made_for`.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;
    /// The same for many namespaces, in the order given.
    fn devices(
        &self,
        ids: &[NamespaceId],
        made_for: Option<AllocationId>,
    ) -> Result<Vec<Option<BlockDevice>>, ObserveError>;
    /// The signature at the beginning of the device that carries a file system.
    fn signature(&self, device: &VolumeDevice) -> Result<Signature, ObserveError>;
    /// The active part of a logical volume on this node; the LVM report stays empty.
    fn mapped(&self, volume: &Volume, devices: &[BlockDevice]) -> Result<LvmState, ObserveError>;
    /// The state of a logical volume that is not active, with all that interrupted commands left of it.
    /// [`Observer::mapped`] does not see mappings without a table.
    fn unfinished(&self, volume: &Volume) -> Result<Activation, ObserveError>;
    /// What an interrupted repair left of an active RAID.
    fn beside(&self, volume: &Volume) -> Result<Vec<Unfinished>, ObserveError>;
    /// LVM's report on these devices, and on these alone.
    fn lvm(&self, devices: &[BlockDevice]) -> Result<LvmReport, ObserveError>;
    /// All of device-mapper's devices.
    fn mappings(&self) -> Result<Vec<Mapping>, ObserveError>;
    /// Volume groups in whose lock space the node is.
    fn lock_spaces(&self) -> Result<Vec<String>, ObserveError>;
    /// The target's pool when it is imported, and what is in it.
    fn zpool(
        &self,
        target: &LustreTarget,
        devices: &[BlockDevice],
    ) -> Result<Option<Zpool>, ObserveError>;
    /// Pools that could be imported from these devices, and from these alone.
    fn pools_on(&self, devices: &[BlockDevice]) -> Result<Vec<FoundPool>, ObserveError>;
    fn target(&self, target: &MountPoint) -> Result<TargetState, ObserveError>;
    /// Who uses a device that is no longer mounted at its mount point.
    fn users(&self, device: &VolumeDevice, kind: FileSystemKind) -> Result<Use, ObserveError>;
    /// Who uses a Lustre file system that is not mounted at `target` any more.
    fn lustre_users(
        &self,
        source: &str,
        target: &MountPoint,
    ) -> Result<Option<Holders>, ObserveError>;
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
        // Only hooks before the tear-down need the contents; a device that cannot be read any more is released all the
        // same.
        Desired::FileSystemGone(fs) => {
            let shows = |hook: &Hook| hook.id.phase == HookPoint::PreTeardown;
            file_system(observer, fs, fs.hooks.iter().any(shows))
        }
        Desired::TargetReady(target) => lustre(observer, target, |_| false),
        // Without open records no hook has to see what a pool holds before it goes.
        Desired::TargetGone(target) => lustre(observer, target, |observed| !observed.hooks_open),
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
    let observed = hooks(observer, &fs.scope(), &fs.hooks)?;
    let signed = signed && fs.kind != FileSystemKind::Raw;
    let volume = volume(observer, &fs.volume, signed, |_| true)?;
    let temporary = observer.target(&fs.temporary)?;
    Ok(Observed { volume: Some(volume), temporary: Some(temporary), ..observed })
}

/// Looks at a target. Where ZFS is not installed and pools on its devices `may_be_missed`, they count as absent.
fn lustre(
    observer: &impl Observer,
    target: &LustreTarget,
    may_be_missed: impl Fn(&Observed) -> bool,
) -> Result<Observed, ObserveError> {
    let client = target.client.as_ref();
    let mut observed = hooks(observer, &target.scope(), &target.hooks)?;
    let (devices, missing) = devices(observer, &target.namespaces, target.made_for)?;
    let imported = observer.zpool(target, &devices)?;
    let look_for = imported.is_none() && !devices.is_empty();
    let found = match look_for.then(|| observer.pools_on(&devices)).transpose() {
        Err(ObserveError::Command(error))
            if error.is_not_installed() && may_be_missed(&observed) =>
        {
            None
        }
        found => found?,
    };
    let found = found.unwrap_or_default();
    observed.zpool = Some(PoolState { devices, missing, imported, found });
    observed.target = Some(observer.target(&target.target)?);
    observed.temporary = client.map(|client| observer.target(&client.temporary)).transpose()?;
    Ok(observed)
}

/// The devices of the namespaces that this node reaches, and the namespaces that it does not reach.
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

/// Whether the mount should exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToBe {
    Mounted,
    Unmounted,
}

fn mounted(observer: &impl Observer, mount: &Mount, to_be: ToBe) -> Result<Observed, ObserveError> {
    // Unmounting does not depend on what is on the device.
    let signed = mount.kind != FileSystemKind::Raw && to_be == ToBe::Mounted;
    let mut observed = hooks(observer, &mount.scope, &mount.hooks)?;
    observed.target = Some(observer.target(&mount.target)?);
    let is_mounted = observed.target.as_ref().is_some_and(|target| target.mounted.is_some());
    if let Some(wanted) = mount.file.as_ref().filter(|_| is_mounted && to_be == ToBe::Mounted) {
        observed.file = observer.file(&mount.target, &wanted.name)?;
    }
    match &mount.source {
        MountSource::Volume { volume: wanted, .. } => {
            // sysfs names the devices beneath a mount. LVM is asked only about a volume that must be activated or
            // deactivated.
            let needs_report = |seen: &LvmState| match to_be {
                ToBe::Mounted => seen.active().is_none() || !is_mounted,
                ToBe::Unmounted => seen.activation != Activation::Inactive || seen.in_lock_space,
            };
            let state = volume(observer, wanted, signed, needs_report)?;
            if to_be == ToBe::Unmounted {
                observed.in_use = users(observer, mount, wanted, &state, observed.target.as_ref())?;
            }
            observed.volume = Some(state);
        }
        MountSource::Bind(from) => observed.source = Some(observer.target(from)?),
        MountSource::Lustre(source) if to_be == ToBe::Unmounted && !is_mounted => {
            observed.in_use = observer.lustre_users(source, &mount.target)?.into();
        }
        MountSource::Lustre(_) => {}
    }
    Ok(observed)
}

/// Who uses the volume's device, once nothing is mounted at the mount point any more.
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
    needs_report: impl Fn(&LvmState) -> bool,
) -> Result<VolumeState, ObserveError> {
    let (devices, missing) = devices(observer, &volume.namespaces, volume.made_for)?;
    let mut state = VolumeState { devices, missing, ..VolumeState::default() };
    match volume.layer {
        VolumeLayer::Plain => {}
        VolumeLayer::Lvm(_) => {
            state.lvm = Some(logical(observer, volume, &state.devices, needs_report)?);
        }
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
    needs_report: impl Fn(&LvmState) -> bool,
) -> Result<LvmState, ObserveError> {
    if volume.is_guessed() && !devices.is_empty() {
        return guessed(observer, volume, devices);
    }
    let mut seen = observer.mapped(volume, devices)?;
    if needs_report(&seen) {
        // LVM without a device list would read every disk of the node.
        let nothing = || Ok(LvmReport::default());
        seen.report = Some(if devices.is_empty() { nothing() } else { observer.lvm(devices) }?);
        complete(observer, volume, &mut seen)?;
    }
    Ok(seen)
}

/// Adds what sysfs does not show, where an interrupted command may have left something.
fn complete(
    observer: &impl Observer,
    volume: &Volume,
    seen: &mut LvmState,
) -> Result<(), ObserveError> {
    let group = seen.report.as_ref().and_then(|report| report.group(&volume.group));
    let logical = group.and_then(|group| group.volume(&volume.logical));
    match &mut seen.activation {
        Activation::Active(mapped) if logical.is_some_and(LogicalVolume::is_partial) => {
            mapped.unused_parts = observer.beside(volume)?;
        }
        Activation::Active(_) => {}
        activation => *activation = observer.unfinished(volume)?,
    }
    Ok(())
}

/// Only LVM's metadata on the devices tells the volume's names.
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

fn hooks(
    observer: &impl Observer,
    scope: &HookScope,
    asked: &[Hook],
) -> Result<Observed, ObserveError> {
    let mut observed = Observed { hooks_open: observer.hooks_open(scope)?, ..Observed::default() };
    for hook in asked {
        if observer.hook_ran(&hook.id)? {
            observed.hooks.insert(hook.id.clone());
        }
    }
    Ok(observed)
}
