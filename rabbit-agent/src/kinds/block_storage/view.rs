//! The part of the cache that concerns a NnfNodeBlockStorage, and the work that it asks for. Does no I/O.

use std::{collections::BTreeMap, sync::Arc};

use api::{NnfNodeBlockStorage, names::finalizer};
use controller::{describe, has_finalizer};
use daemon::chain;
use fence::{Fences, chassis::Chassis};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use storage::{
    Observed,
    desired::{Allocation, AllocationId, NamespaceId, ObjectUid},
    observed::NamespaceOwner,
};

use super::{
    desired::{AllocationPolicy, BlockStorageError, Elsewhere, from_status, without_fenced},
    report,
};
use crate::core::Cache;

/// The part of the cache that a pass over a NnfNodeBlockStorage reads.
#[derive(Debug)]
pub struct BlockStorageView {
    pub object: Arc<NnfNodeBlockStorage>,
    pub chassis: Chassis,
    pub elsewhere: Elsewhere,
    /// Whether a NnfNodeStorage uses the block storage.
    pub in_use: bool,
    /// Names of the ClientMounts of this rabbit that use the block storage's allocations.
    pub mounts: Vec<String>,
}

/// The work of a pass over a NnfNodeBlockStorage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Makes the allocations, and attaches their namespaces.
    Allocate,
    /// The object is being deleted, but file systems lie on its devices: waits for their tear-down. With `to_refresh`,
    /// attaches the namespaces again and looks up their device paths.
    Keep { to_refresh: bool },
    /// Removes the finalizer of a NnfNodeStorage that is gone.
    Unlock,
    /// Releases all namespaces.
    Release,
    /// The object is being deleted, and the agent has released all namespaces.
    Nothing,
}

impl BlockStorageView {
    /// Returns the view of the object with this name; `None` if the cache has no such object.
    pub fn new(cache: &Cache, name: &str) -> Option<Self> {
        Some(Self {
            object: Arc::clone(cache.block_storage(name)?),
            chassis: cache.chassis(),
            elsewhere: cache.reported_elsewhere(name),
            in_use: cache.is_in_use(name),
            mounts: cache.mounts_on(name),
        })
    }

    /// Returns the work of a pass of the agent that started at `started`.
    pub fn work(&self, started: &Time) -> Work {
        let object = &*self.object;
        if object.metadata.deletion_timestamp.is_none() {
            return Work::Allocate;
        }
        if !has_finalizer(object, finalizer::NNF_NODE_BLOCK_STORAGE) {
            return Work::Nothing;
        }
        if !has_finalizer(object, finalizer::NNF_NODE_STORAGE) {
            return Work::Release;
        }
        if !self.in_use {
            return Work::Unlock;
        }
        // Devices that failed may be back, and the tear-down of the file systems needs them.
        let to_refresh = object.status.as_ref().is_some_and(|status| {
            let is_seen = report::is_observed_by(status, started) && status.error.is_none();
            report::has_devices(status) && !is_seen
        });
        Work::Keep { to_refresh }
    }

    /// Returns the allocations that the object asks for.
    pub fn allocations(
        &self,
        fences: &Fences,
        policy: AllocationPolicy,
    ) -> Result<Vec<Allocation>, BlockStorageError> {
        without_fenced(&self.object, &self.chassis, policy, &self.elsewhere, fences)
    }
}

/// Returns the allocations in the object's status that have a namespace without an entry in the ledger.
pub fn without_record(
    view: &BlockStorageView,
    policy: AllocationPolicy,
    seen: &Observed,
) -> BTreeMap<AllocationId, Allocation> {
    let mut lost = BTreeMap::new();
    match from_status(&view.object, policy, &view.elsewhere) {
        Ok(reported) => {
            lost.extend(reported.into_iter().map(|allocation| (allocation.id, allocation)));
        }
        Err(error) => log::warn!(
            "{}: namespaces without a record cannot be found through the status: {}",
            describe(&*view.object),
            chain(&error)
        ),
    }
    lost.retain(|_, allocation| {
        allocation.reported.iter().any(|reported| has_no_record(&reported.id, seen))
    });
    lost
}

fn has_no_record(id: &NamespaceId, seen: &Observed) -> bool {
    let mut same_id = seen.namespaces.iter().filter(|namespace| namespace.id == *id);
    same_id.any(|namespace| namespace.owner == NamespaceOwner::Unknown)
}

/// Returns the object's allocations that have an entry in a ledger. An allocation counts even if its namespace is gone
/// from the drive: otherwise the entry would outlive the object.
pub fn owned(seen: &Observed, owner: ObjectUid) -> impl Iterator<Item = AllocationId> {
    let owners =
        seen.namespaces.iter().map(|namespace| &namespace.owner).chain(seen.vanished.values());
    owners.filter_map(NamespaceOwner::allocation).filter(move |id| id.owner == owner)
}

#[cfg(test)]
mod tests;
