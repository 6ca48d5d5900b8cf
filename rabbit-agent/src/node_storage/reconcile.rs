//! Brings one NnfNodeStorage to its desired state.

use controller::{Retry, describe, has_finalizer, patch::WriteError};
use std::sync::Arc;

use super::{
    desired::{check_block, desired},
    progress::progress,
    report::{self, UnitState, is_syncing},
    targets::{MountRoots, targets},
    unit::{self, Outcome, Unit},
};
use crate::{
    block_storage::report::is_current,
    cache::{Cache, NoProfile, block_name},
    failure::combined,
    pass::{Context, Pass},
};
use agent::error::Failure;
use api::{
    NnfNodeBlockStorage, NnfNodeStorage, NnfNodeStorageStatus, NnfStorageProfile, names::finalizer,
    nnf_node_storage::FileSystemType,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use storage::{ConvergeError, Rejection};

/// The part of the cache that a pass over a NnfNodeStorage reads.
#[derive(Debug)]
pub struct NodeStorageView {
    pub object: Arc<NnfNodeStorage>,
    /// The block storage under the object, if the cache has this block storage.
    pub block: Option<Arc<NnfNodeBlockStorage>>,
    /// Whether the block storage exists but cannot be decoded; `block` is then its last readable version, if any.
    pub is_unreadable: bool,
    /// The profile to which the object is pinned, or the reason why it has none.
    pub profile: Result<Arc<NnfStorageProfile>, NoProfile>,
    /// Names of the ClientMounts of this rabbit that may have the object's file systems mounted.
    pub mounts: Vec<String>,
}

/// The block storage under an object whose file systems are to be made.
#[derive(Debug)]
pub enum Base<'a> {
    /// The cache has no such block storage.
    Missing,
    /// The block storage has no devices that this agent has found, or is being deleted.
    Unreported,
    Reported(&'a NnfNodeBlockStorage),
}

/// The work of a pass over an object that is being deleted, once no ClientMount has its file systems mounted.
#[derive(Debug)]
pub enum Removal<'a> {
    /// The agent has torn everything down.
    Nothing,
    /// The devices are unknown, because the block storage cannot be decoded.
    Unreadable(Failure),
    /// The cache has no block storage, so there is nothing to tear down.
    NoBlock,
    /// Tears down the file systems on this block storage.
    TearDown(&'a NnfNodeBlockStorage),
    /// Nothing is left on the block storage.
    Release,
}

impl NodeStorageView {
    /// Returns the view of the object with this name; `None` if the cache has no such object.
    pub fn new(cache: &Cache, name: &str) -> Option<Self> {
        let object = Arc::clone(cache.node_storage(name)?);
        let block = block_name(&object);
        Some(Self {
            block: cache.block_storage(&block).cloned(),
            is_unreadable: cache.is_unreadable_block(&block),
            profile: cache.profile(&*object),
            mounts: cache.mounts_on(name),
            object,
        })
    }

    /// Returns the block storage on which the agent that started at `started` makes the file systems.
    pub fn base(&self, started: &Time) -> Base<'_> {
        let Some(block) = &self.block else { return Base::Missing };
        let is_current = block.status.as_ref().is_some_and(|status| is_current(status, started));
        if is_current && block.metadata.deletion_timestamp.is_none() {
            Base::Reported(block)
        } else {
            Base::Unreported
        }
    }

    /// Returns the work on an object that is being deleted.
    pub fn removal(&self) -> Removal<'_> {
        if !has_finalizer(&*self.object, finalizer::NNF_NODE_STORAGE) {
            return Removal::Nothing;
        }
        match self.block.as_deref() {
            None if self.is_unreadable => Removal::Unreadable(unreadable(&self.object)),
            None => Removal::NoBlock,
            Some(block) if has_finalizer(block, finalizer::NNF_NODE_STORAGE) => {
                Removal::TearDown(block)
            }
            Some(_) => Removal::Release,
        }
    }

    /// Returns why the tear-down must wait; `None` if no ClientMount may have the file systems mounted.
    pub fn still_mounted(&self) -> Option<Failure> {
        // Site hooks assume that no process uses the file systems that they tear down.
        let names = self.mounts.join(", ");
        let is_mounted = !self.mounts.is_empty();
        is_mounted
            .then(|| Failure::waiting(format!("waiting until ClientMount {names} is unmounted")))
    }
}

/// Makes and sets up the file systems; if the object is deleted, tears them down.
pub async fn reconcile(
    context: &Context,
    view: &NodeStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if view.object.metadata.deletion_timestamp.is_some() {
        return delete(context, view, pass).await;
    }
    let object = pass.with_finalizer(context, &*view.object, finalizer::NNF_NODE_STORAGE).await?;
    let block = match view.base(&context.started) {
        Base::Missing => return report_no_block(context, &object, pass).await,
        // The pass over the block storage will report the devices, and its report wakes this object. Until then the
        // status has no error.
        Base::Unreported => {
            let waiting =
                object.status.clone().map(|status| NnfNodeStorageStatus { error: None, ..status });
            let waiting = NnfNodeStorage { status: waiting, ..object.clone() };
            return pass.status(context, &object, &waiting).await;
        }
        Base::Reported(block) => block,
    };
    if let Err(no_profile) = &view.profile
        && context.profile_exists(no_profile).await?
    {
        pass.wait_for_watch();
        return Ok(());
    }
    pass.with_finalizer(context, block, finalizer::NNF_NODE_STORAGE).await?;
    match units(context, view, block, true) {
        Ok(units) => make(context, &object, units, pass).await,
        Err(failure) => pass.refuse(context, &object, &failure, report::with_error).await,
    }
}

async fn report_no_block(
    context: &Context,
    object: &NnfNodeStorage,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let namespace = object.namespace().unwrap_or_default();
    if context.exists::<NnfNodeBlockStorage>(&namespace, &block_name(object)).await? {
        pass.wait_for_watch();
        return Ok(());
    }
    pass.refuse(context, object, &no_block(object), report::with_error).await
}

/// Returns the failure of an object whose block storage does not exist.
pub fn no_block(object: &NnfNodeStorage) -> Failure {
    let text = format!(
        "could not find storage allocation: NnfNodeBlockStorage {}/{} does not exist",
        object.namespace().unwrap_or_default(),
        block_name(object)
    );
    Failure { severity: api::Severity::Major, ..Failure::waiting(text) }
}

/// Returns the failure of a tear-down whose block storage cannot be decoded: the agent does not know the devices
/// of the file systems.
fn unreadable(object: &NnfNodeStorage) -> Failure {
    let text = format!(
        "NnfNodeBlockStorage {}/{} cannot be decoded, so the agent does not know the devices to tear down: \
         make it fit its definition, or delete it if nothing was ever made on it",
        object.namespace().unwrap_or_default(),
        block_name(object)
    );
    Failure { severity: api::Severity::Major, retry: Retry::Later, ..Failure::waiting(text) }
}

/// Returns the units that the object asks for: its file systems or targets. With `to_make`, the devices of
/// the units must exist.
pub fn units(
    context: &Context,
    view: &NodeStorageView,
    block: &NnfNodeBlockStorage,
    to_make: bool,
) -> Result<Vec<Unit>, Failure> {
    let profile = view.profile.as_ref().map_err(|why| Failure::input(why.to_string()))?;
    if !profile.data().pinned {
        let name = describe(&**profile);
        return Err(Failure::input(format!(
            "{name} is not pinned: set data.pinned to true, or name the pinned copy in the labels"
        )));
    }
    if to_make {
        check_block(&view.object, block).map_err(|error| Failure::from(&error))?;
    }
    let (object, temporary) = (&view.object, &context.temporary);
    let units = if object.spec.file_system_type == FileSystemType::Lustre {
        let mount_roots = MountRoots { roots: &context.site.roots, temporary };
        targets(object, profile, block, mount_roots)
            .map(|units| units.into_iter().map(|target| Unit::Target(Box::new(target))).collect())
    } else {
        desired(object, profile, block, temporary, context.site.volumes).map(|units| {
            units.into_iter().map(|file_system| Unit::FileSystem(Box::new(file_system))).collect()
        })
    };
    units.map_err(|error| Failure::from(&error))
}

async fn make(
    context: &Context,
    object: &NnfNodeStorage,
    units: Vec<Unit>,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let results = unit::make(context, units.clone()).await;
    let reported = object.status.iter().flat_map(|status| &status.allocations);
    let was_ready: Vec<_> = reported.map(|allocation| allocation.ready).collect();
    let state = |(index, (unit, outcome))| {
        UnitState::of_unit(unit, was_ready.get(index) == Some(&true), outcome)
    };
    let states: Vec<_> = units.iter().zip(&results).enumerate().map(state).collect();
    let failure = failure(object, &results);
    pass.progress = Some(progress(&results));
    if results.iter().flatten().any(|result| result.as_ref().is_err_and(is_syncing)) {
        pass.wait_for_watch();
    }
    if let Some(failure) = &failure {
        pass.add_failure(object, failure);
    }
    let error =
        failure.map(|failure| context.resource_error(&failure, "unable to create file system"));
    pass.report(context, object, report::status(&states, error)).await
}

/// Tears down the file systems, then removes the finalizers from the block storage and the object.
async fn delete(
    context: &Context,
    view: &NodeStorageView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = &*view.object;
    let removal = view.removal();
    if let Removal::Nothing = removal {
        return Ok(());
    }
    if let Some(failure) = view.still_mounted() {
        return pass.refuse(context, object, &failure, report::with_error).await;
    }
    match removal {
        Removal::Nothing | Removal::Release => {}
        Removal::Unreadable(failure) => {
            return pass.refuse(context, object, &failure, report::with_error).await;
        }
        Removal::NoBlock => {
            let namespace = object.namespace().unwrap_or_default();
            if context.exists::<NnfNodeBlockStorage>(&namespace, &block_name(object)).await? {
                pass.wait_for_watch();
                return Ok(());
            }
        }
        Removal::TearDown(block) => match tear_down(context, view, block).await {
            Ok(TearDown::Done) => {
                pass.without_finalizer(context, block, finalizer::NNF_NODE_STORAGE).await?;
            }
            Ok(TearDown::NotYet) => return Ok(()),
            Err(failure) => {
                return pass.refuse(context, object, &failure, report::with_error).await;
            }
        },
    }
    pass.without_finalizer(context, object, finalizer::NNF_NODE_STORAGE).await
}

enum TearDown {
    Done,
    /// The block storage does not report its devices yet; its next status wakes this object.
    NotYet,
}

async fn tear_down(
    context: &Context,
    view: &NodeStorageView,
    block: &NnfNodeBlockStorage,
) -> Result<TearDown, Failure> {
    let Some(units) = units_to_tear_down(context, view, block)? else {
        return Ok(TearDown::NotYet);
    };
    let results = unit::tear_down(context, units).await;
    failure(&view.object, &results).map_or(Ok(TearDown::Done), Err)
}

/// Returns the units of a deleted object that may exist; `None` if the block storage does not report its devices yet.
pub fn units_to_tear_down(
    context: &Context,
    view: &NodeStorageView,
    block: &NnfNodeBlockStorage,
) -> Result<Option<Vec<Unit>>, Failure> {
    let status = block.status.as_ref();
    if status.is_some_and(|status| status.ready && !is_current(status, &context.started)) {
        return devices_missing(block).map_or(Ok(None), Err);
    }
    let units = match units(context, view, block, false) {
        Ok(units) => units,
        // No pass has ever worked on the object, so the object has no file systems.
        Err(_) if !report::was_ever_worked_on(&view.object) => return Ok(Some(Vec::new())),
        Err(failure) => return Err(Failure { retry: Retry::OnChange, ..failure }),
    };
    Ok(Some(units.into_iter().filter(|unit| !unit.namespaces().is_empty()).collect()))
}

/// Returns the reason why the devices are not reported; `None` if the pass over the block storage is still to come.
fn devices_missing(block: &NnfNodeBlockStorage) -> Option<Failure> {
    let error = block.status.as_ref()?.error.as_ref()?;
    let waits = |why: &str| format!("waiting for the devices of {}: {why}", describe(block));
    let user = waits(error.user_message.as_ref().unwrap_or(&error.debug_message));
    Some(Failure { user, ..Failure::waiting(waits(&error.debug_message)) })
}

fn failure(object: &NnfNodeStorage, results: &[Outcome]) -> Option<Failure> {
    let errors = results.iter().enumerate();
    let errors =
        errors.filter_map(|(index, outcome)| Some((index, outcome.as_ref()?.as_ref().err()?)));
    let failed = errors.filter(|(_, error)| !is_syncing(error)).map(|(index, error)| {
        (describe_unit(object, index, error), Failure::of_convergence(error))
    });
    combined(&failed.collect::<Vec<_>>())
}

/// Returns the index of the file system, and if its size is too small, the field with the size.
fn describe_unit(object: &NnfNodeStorage, index: usize, error: &ConvergeError) -> String {
    match error {
        ConvergeError::Rejected(Rejection::TooSmall(_)) => {
            format!("spec.capacity is {} bytes: file system {index}", object.spec.capacity)
        }
        _ => format!("file system {index}"),
    }
}

#[cfg(test)]
mod tests {
    use api::Severity;
    use storage::{desired::FileSystemKind, host::TooSmall};

    use super::*;
    use crate::samples;

    #[test]
    fn the_error_for_too_small_a_capacity_names_field_value_and_remedy() {
        let mut object = samples::node_storage(1, "xfs");
        object.spec.capacity = 1;
        let refused = TooSmall {
            device: "/dev/loop7".into(),
            kind: FileSystemKind::Xfs,
            size: 4096,
            least: FileSystemKind::Xfs.least(),
            why: "size 1 of data subvolume is too small, minimum 4096 blocks".into(),
        };
        let refused = ConvergeError::Rejected(Rejection::TooSmall(refused));
        let failure = failure(&object, &[Some(Err(refused))]).unwrap();
        assert_eq!((failure.severity, failure.retry), (Severity::Fatal, Retry::OnChange));
        let reported = "spec.capacity is 1 bytes: file system 0: /dev/loop7 has 4096 bytes, on which no xfs can be made (size 1 of \
                    data subvolume is too small, minimum 4096 blocks): ask for at least 314572800 bytes";
        assert_eq!(failure.user, reported);
    }
}
