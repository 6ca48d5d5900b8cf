//! The part of the cache that concerns a NnfNodeStorage, and the units of work that it asks for. Does no I/O.

use std::sync::Arc;

use agent::error::Failure;
use api::{
    NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, names::finalizer,
    nnf_node_storage::FileSystemType,
};
use controller::{Retry, describe, has_finalizer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{
    desired::{check_block, desired},
    report,
    targets::{MountRoots, targets},
    unit::Unit,
};
use crate::{
    core::{
        Cache, Context,
        cache::{NoProfile, block_name},
    },
    kinds::block_storage::report::is_current,
};

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
