//! What each desire needs to see of a node, and nothing else.

use crate::{
    Desired, Observed,
    desired::{
        FileSystem, FileSystemKind, Hook, HookId, HookScope, IndexTree, Mount, MountHooks,
        MountPoint, MountSource, NamespaceId, Volume,
    },
    host::ObserveError,
    observed::{BlockDevice, MountedThing, Signature, TargetState, TreeState, VolumeState},
};

/// The looks that a host can take.
pub(crate) trait Eyes {
    /// Drives, namespaces and the pool; the rest stays empty.
    fn inventory(&self) -> Result<Observed, ObserveError>;
    fn device(&self, id: &NamespaceId) -> Result<Option<BlockDevice>, ObserveError>;
    fn signature(&self, device: &BlockDevice) -> Result<Signature, ObserveError>;
    fn target(&self, target: &MountPoint) -> Result<TargetState, ObserveError>;
    fn tree(&self, tree: &IndexTree) -> Result<TreeState, ObserveError>;
    fn mounts(&self) -> Result<Vec<(MountPoint, MountedThing)>, ObserveError>;
    fn hooks_open(&self, scope: &HookScope) -> Result<bool, ObserveError>;
    fn hook_ran(&self, id: &HookId) -> Result<bool, ObserveError>;
}

pub(crate) fn look(eyes: &impl Eyes, desired: &Desired) -> Result<Observed, ObserveError> {
    match desired {
        Desired::Allocated(_) | Desired::Released(_) | Desired::Inventory => eyes.inventory(),
        Desired::FileSystemReady(fs) | Desired::FileSystemGone(fs) => file_system(eyes, fs),
        Desired::Mounted(mount) => mounted(eyes, mount, mount.kind != FileSystemKind::Raw),
        // What is on the device does not matter for taking it away.
        Desired::Unmounted(mount) => mounted(eyes, mount, false),
        Desired::IndexTree(tree) | Desired::NoIndexTree(tree) => {
            Ok(Observed { tree: Some(eyes.tree(tree)?), ..Observed::default() })
        }
        Desired::OnlyMounts(_) => Ok(Observed { mounts: eyes.mounts()?, ..Observed::default() }),
    }
}

fn file_system(eyes: &impl Eyes, fs: &FileSystem) -> Result<Observed, ObserveError> {
    let lists = [
        &fs.post_activate,
        &fs.post_setup,
        &fs.pre_teardown,
        &fs.pre_deactivate,
        &fs.post_teardown,
    ];
    let observed = hooks(eyes, &fs.scope(), lists.into_iter().flatten())?;
    let volume = volume(eyes, &fs.volume, fs.kind != FileSystemKind::Raw)?;
    let temporary = eyes.target(&fs.temporary)?;
    Ok(Observed { volume: Some(volume), temporary: Some(temporary), ..observed })
}

fn mounted(eyes: &impl Eyes, mount: &Mount, signed: bool) -> Result<Observed, ObserveError> {
    let mut observed = hooks(eyes, &mount.scope, every(&mount.hooks))?;
    observed.target = Some(eyes.target(&mount.target)?);
    match &mount.source {
        MountSource::Volume { volume: wanted, .. } => {
            observed.volume = Some(volume(eyes, wanted, signed)?);
        }
        MountSource::Bind(from) => observed.source = Some(eyes.target(from)?),
        MountSource::Lustre(_) => {}
    }
    Ok(observed)
}

fn volume(eyes: &impl Eyes, volume: &Volume, signed: bool) -> Result<VolumeState, ObserveError> {
    let mut state = VolumeState::default();
    for namespace in &volume.namespaces {
        match eyes.device(namespace)? {
            Some(device) => state.devices.push(device),
            None => state.missing.push(namespace.clone()),
        }
    }
    if let ([device], true) = (&state.devices[..], signed) {
        state.signature = Some(eyes.signature(device)?);
    }
    Ok(state)
}

fn hooks<'a>(
    eyes: &impl Eyes,
    scope: &HookScope,
    asked: impl Iterator<Item = &'a Hook>,
) -> Result<Observed, ObserveError> {
    let mut observed = Observed { hooks_open: eyes.hooks_open(scope)?, ..Observed::default() };
    for hook in asked {
        if eyes.hook_ran(&hook.id)? {
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
