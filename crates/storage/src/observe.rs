//! Observes the facts about a node that the planner needs for a given [`Desired`], and no others.

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

/// The observations that an implementation of [`Host`](crate::Host) offers. Each method reads one part of the node.
pub trait Observer {
    /// Reads the drives, the namespaces, and the space of the file system beneath file-backed drives; all other fields
    /// of the result stay empty.
    fn inventory(&self) -> Result<Observed, ObserveError>;
    /// Returns the block device of a namespace on this node; `None` when there is no device, or when the namespace is
    /// recorded for an allocation other than `made_for`.
    fn device(
        &self,
        id: &NamespaceId,
        made_for: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError>;
    /// Reads the signature at the beginning of the device that carries a file system.
    fn signature(&self, device: &VolumeDevice) -> Result<Signature, ObserveError>;
    /// Reads the active mappings of a logical volume on this node; the field for LVM's report stays empty.
    fn mapped(&self, volume: &Volume, devices: &[BlockDevice]) -> Result<LvmState, ObserveError>;
    /// Reads the state of a logical volume that is not active, with all device-mapper mappings that interrupted
    /// commands left. In contrast to [`Observer::mapped`], also finds mappings without a table.
    fn unfinished(&self, volume: &Volume) -> Result<Activation, ObserveError>;
    /// Returns the mappings that an interrupted repair of an active RAID left.
    fn unused_raid_parts(&self, volume: &Volume) -> Result<Vec<Unfinished>, ObserveError>;
    /// Reads LVM's report on these devices; LVM reads no other device.
    fn lvm(&self, devices: &[BlockDevice]) -> Result<LvmReport, ObserveError>;
    /// Lists all of device-mapper's devices.
    fn mappings(&self) -> Result<Vec<Mapping>, ObserveError>;
    /// Lists the volume groups whose lock space the node has joined.
    fn lock_spaces(&self) -> Result<Vec<String>, ObserveError>;
    /// Reads the target's pool and its dataset; `None` when the pool is not imported.
    fn zpool(
        &self,
        target: &LustreTarget,
        devices: &[BlockDevice],
    ) -> Result<Option<Zpool>, ObserveError>;
    /// Lists the pools that could be imported from these devices; ZFS searches no other device.
    fn pools_on(&self, devices: &[BlockDevice]) -> Result<Vec<FoundPool>, ObserveError>;
    fn target(&self, target: &MountPoint) -> Result<TargetState, ObserveError>;
    /// Returns how a device that is no longer mounted at its mount point is used.
    fn users(&self, device: &VolumeDevice, kind: FileSystemKind) -> Result<Use, ObserveError>;
    /// Returns the holders of a Lustre file system that is no longer mounted at `target`.
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

pub fn observe(observer: &impl Observer, desired: &Desired) -> Result<Observed, ObserveError> {
    match desired {
        Desired::Allocated(_)
        | Desired::Adopted(_)
        | Desired::Released(_)
        | Desired::Withdrawn { .. }
        | Desired::Inventory => observer.inventory(),
        Desired::FileSystemReady(fs) => file_system(observer, fs, true),
        // Only the hooks of the hook point PreTeardown need the contents; without such hooks, the agent releases even
        // an unreadable device.
        Desired::FileSystemGone(fs) => {
            let needs_contents = |hook: &Hook| hook.id.phase == HookPoint::PreTeardown;
            file_system(observer, fs, fs.hooks.iter().any(needs_contents))
        }
        Desired::TargetReady(target) => lustre(observer, target, |_| false),
        // Without open hook records no tear-down hook is due, so nothing needs the pool's contents.
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

/// Observes a Lustre target. Where ZFS is not installed, the pools on the target's devices count as absent if
/// `may_be_missed` returns true; otherwise the observation fails.
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

/// Returns the devices of the namespaces that this node reaches, and the namespaces that it does not reach.
fn devices(
    observer: &impl Observer,
    namespaces: &[NamespaceId],
    made_for: Option<AllocationId>,
) -> Result<(Vec<BlockDevice>, Vec<NamespaceId>), ObserveError> {
    let (mut devices, mut missing) = (Vec::new(), Vec::new());
    for namespace in namespaces {
        match observer.device(namespace, made_for)? {
            Some(device) => devices.push(device),
            None => missing.push(namespace.clone()),
        }
    }
    Ok((devices, missing))
}

/// The desired state of the mount.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToBe {
    Mounted,
    Unmounted,
}

fn mounted(observer: &impl Observer, mount: &Mount, to_be: ToBe) -> Result<Observed, ObserveError> {
    // An unmount does not depend on the contents of the device.
    let signed = mount.kind != FileSystemKind::Raw && to_be == ToBe::Mounted;
    let mut observed = hooks(observer, &mount.scope, &mount.hooks)?;
    observed.target = Some(observer.target(&mount.target)?);
    let is_mounted = observed.target.as_ref().is_some_and(|target| target.mounted.is_some());
    if let Some(wanted) = mount.file.as_ref().filter(|_| is_mounted && to_be == ToBe::Mounted) {
        observed.file = observer.file(&mount.target, &wanted.name)?;
    }
    match &mount.source {
        MountSource::Volume { volume: wanted, .. } => {
            // sysfs shows the devices beneath a mount. Only a volume that must be activated or deactivated needs LVM's
            // report too.
            let needs_report = |lvm_state: &LvmState| match to_be {
                ToBe::Mounted => lvm_state.active().is_none() || !is_mounted,
                ToBe::Unmounted => {
                    lvm_state.activation != Activation::Inactive || lvm_state.in_lock_space
                }
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

/// Returns how the volume's device is used while nothing is mounted at the mount point.
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
        (Some(lvm_state), _) => lvm_state.active().map(|active| active.device(volume)),
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
        return observe_unnamed(observer, volume, devices);
    }
    let mut lvm_state = observer.mapped(volume, devices)?;
    if needs_report(&lvm_state) {
        // Without a device list, LVM would read every disk of the node.
        let nothing = || Ok(LvmReport::default());
        lvm_state.report =
            Some(if devices.is_empty() { nothing() } else { observer.lvm(devices) }?);
        complete(observer, volume, &mut lvm_state)?;
    }
    Ok(lvm_state)
}

/// Adds the mappings that an interrupted command may have left and that sysfs does not show.
fn complete(
    observer: &impl Observer,
    volume: &Volume,
    lvm_state: &mut LvmState,
) -> Result<(), ObserveError> {
    let group = lvm_state.report.as_ref().and_then(|report| report.group(&volume.group));
    let logical = group.and_then(|group| group.volume(&volume.logical));
    match &mut lvm_state.activation {
        Activation::Active(mapped) if logical.is_some_and(LogicalVolume::is_partial) => {
            mapped.unused_parts = observer.unused_raid_parts(volume)?;
        }
        Activation::Active(_) => {}
        activation => *activation = observer.unfinished(volume)?,
    }
    Ok(())
}

/// Observes a volume whose names are known only from LVM's metadata on the devices.
fn observe_unnamed(
    observer: &impl Observer,
    volume: &Volume,
    devices: &[BlockDevice],
) -> Result<LvmState, ObserveError> {
    let report = observer.lvm(devices)?;
    let names = report.names_of(volume);
    let volume = volume.with_names(names.as_ref());
    let lvm_state = observer.mapped(&volume, devices)?;
    let mut lvm_state = LvmState { report: Some(report), names, ..lvm_state };
    complete(observer, &volume, &mut lvm_state)?;
    Ok(lvm_state)
}

fn hooks(
    observer: &impl Observer,
    scope: &HookScope,
    wanted: &[Hook],
) -> Result<Observed, ObserveError> {
    let mut observed = Observed { hooks_open: observer.hooks_open(scope)?, ..Observed::default() };
    for hook in wanted {
        if observer.hook_ran(&hook.id)? {
            observed.hooks.insert(hook.id.clone());
        }
    }
    Ok(observed)
}
