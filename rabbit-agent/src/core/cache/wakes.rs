//! Decides which objects to wake after an event: the objects that wait for it.

use std::sync::Arc;

use api::{
    ClientMount, NnfDataMovement, NnfNodeBlockStorage, NnfNodeStorage, NnfNodeStorageStatus,
    nnf_data_movement::DataMovementState,
    nnf_node_storage::{FileSystemType, NnfStorageHealth},
};
use fence::is_shared;
use kube::ResourceExt;

use super::{Cache, Cached, Key, Wake, refers_to};
use crate::kinds::movement::{self, movers::News};

impl Cache {
    /// Returns the objects to wake when the set of fenced computes changed. The set decides which computes get a GFS2,
    /// and the NnfNode lists the fenced computes.
    pub(crate) fn fences_changed(&self) -> Vec<Wake> {
        let shared = self.block_storages.iter().filter(|block| is_shared(&block.metadata));
        let shared = shared.filter_map(related);
        shared.chain([Wake::Related(Key::Node)]).collect()
    }

    /// Returns the objects to wake after a device event: the NnfNode is reported again, and failed block storages
    /// are retried, because a missing drive may be back. Lustre targets that serve are checked, because no event
    /// reports the state of their pools. Failed targets are retried by the timer alone, because each retry may
    /// itself cause a device event.
    pub(crate) fn devices_changed(&mut self) -> Vec<Wake> {
        self.had_device_event = true;
        let failed = self.block_storages.iter().filter(has_failed).filter_map(related);
        let serves = |storage: &&Arc<NnfNodeStorage>| {
            storage.spec.file_system_type == FileSystemType::Lustre
                && storage.status.as_ref().is_some_and(|status| status.error.is_none())
        };
        let serving = self.node_storages.iter().filter(serves);
        let serving = serving.filter_map(related);
        [Wake::Related(Key::Node)].into_iter().chain(failed).chain(serving).collect()
    }

    /// Returns the objects to wake when the set of usable drives changed: an allocation may have lost a drive, or a new
    /// drive may complete or repair it.
    pub(crate) fn drives_changed(&self) -> Vec<Wake> {
        let blocks = self.block_storages.iter().filter_map(related);
        blocks.chain(self.node_storages.iter().filter_map(related)).collect()
    }

    /// Returns the NodeContainers to wake when a storage was mounted or a job package was fetched.
    pub(crate) fn waiting_containers(&self) -> Vec<Wake> {
        self.containers.iter().filter_map(related).collect()
    }

    /// Returns the movements to wake when a running movement ended or storage was mounted: those that do not run yet.
    pub(crate) fn waiting_movements(&self) -> Vec<Wake> {
        let waits = |movement: &&Arc<NnfDataMovement>| {
            let state = movement.status.as_ref().and_then(|status| status.state.as_ref());
            movement::is_wanted(movement) && state != Some(&DataMovementState::Running)
        };
        self.movements.iter().filter(waits).filter_map(related).collect()
    }

    /// Returns the movements to wake after a `datamover` process reported progress or ended.
    pub(crate) fn movement_news(&self, news: &News) -> Vec<Wake> {
        match news {
            News::Changed(name) => vec![Wake::Related(Key::Movement(name.clone()))],
            News::Freed => self.waiting_movements(),
        }
    }

    /// Returns the ClientMounts that match `concerned`, and that are not ready or have failed.
    pub(super) fn waiting_mounts(&self, concerned: impl Fn(&ClientMount) -> bool) -> Vec<Wake> {
        let is_waiting = |mount: &ClientMount| {
            mount.status.as_ref().is_none_or(|status| !status.all_ready || status.error.is_some())
        };
        let mounts =
            self.client_mounts.iter().filter(|mount| is_waiting(mount) && concerned(mount));
        mounts.filter_map(related).collect()
    }

    /// Returns the NnfNodeStorages that are being deleted and wait for this ClientMount to disappear.
    pub(crate) fn deleted_storages_of(&self, mount: &ClientMount) -> Vec<Wake> {
        self.waiting_storages(|storage| {
            storage.metadata.deletion_timestamp.is_some() && refers_to(mount, &storage.name_any())
        })
    }

    /// Returns the NnfNodeStorages that match `concerned`, and that are not ready, have failed, or are degraded. Lustre
    /// targets are always included: after a restart the agent mounts them again when their devices are back.
    pub(super) fn waiting_storages(
        &self,
        concerned: impl Fn(&NnfNodeStorage) -> bool,
    ) -> Vec<Wake> {
        let is_waiting = |storage: &NnfNodeStorage| {
            let whole = |status: &NnfNodeStorageStatus| {
                let is_degraded = status.health == Some(NnfStorageHealth::Degraded);
                status.ready && status.error.is_none() && !is_degraded
            };
            let done = storage.status.as_ref().is_some_and(whole);
            let serves = storage.spec.file_system_type == FileSystemType::Lustre;
            !done || serves || storage.metadata.deletion_timestamp.is_some()
        };
        let storages =
            self.node_storages.iter().filter(|storage| is_waiting(storage) && concerned(storage));
        storages.filter_map(related).collect()
    }
}

pub(super) fn related<K: Cached>(object: &Arc<K>) -> Option<Wake> {
    object.key().map(Wake::Related)
}

pub(super) fn has_failed(block: &&Arc<NnfNodeBlockStorage>) -> bool {
    block.status.as_ref().is_some_and(|status| status.error.is_some())
}
