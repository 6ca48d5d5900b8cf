//! Finds the objects of this rabbit that own its storage, that use it, and that may have it mounted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    ClientMount, NnfNodeBlockStorage, NnfNodeStorage,
    client_mount::{ClientMountInfoStatus, MountState},
    names::{finalizer, label},
};
use controller::has_finalizer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use storage::desired::{NamespaceId, ObjectUid};

use super::Cache;
use crate::kinds::block_storage::desired::Elsewhere;

impl Cache {
    /// Returns the uids of all NnfNodeBlockStorages of this rabbit, readable or not.
    pub fn block_storage_uids(&self) -> BTreeSet<ObjectUid> {
        let readable = self.block_storages.iter().map(|block| &block.metadata);
        let metadata = readable.chain(self.block_storages.unreadable());
        metadata.filter_map(|metadata| metadata.uid.as_deref()?.parse().ok()).collect()
    }

    /// Returns the uids that begin the names of the volume groups in use. The labels of this rabbit's NnfNodeStorages
    /// and ClientMounts have these uids; ClientMounts that disappeared count too.
    pub fn volume_owners(&self) -> BTreeSet<ObjectUid> {
        let storages = self.node_storages.iter().map(|storage| &storage.metadata);
        let mounts =
            self.client_mounts.iter().chain(self.vanished.values()).map(|mount| &mount.metadata);
        let readable = storages.chain(mounts).chain(self.node_storages.unreadable());
        let all = readable.chain(self.client_mounts.unreadable());
        let labels = all.filter_map(|metadata| metadata.labels.as_ref());
        let uids = labels.flat_map(|labels| {
            [label::OWNER_UID, label::TARGET_OWNER_UID]
                .into_iter()
                .filter_map(|key| labels.get(key))
        });
        uids.filter_map(|uid| uid.parse().ok()).collect()
    }

    /// Returns the namespaces in the statuses of the other NnfNodeBlockStorages of this rabbit.
    pub fn reported_elsewhere(&self, block_storage: &str) -> Elsewhere {
        if self.block_storages.unreadable().next().is_some() {
            return Elsewhere::Unreadable;
        }
        let others = self.block_storages.iter().filter(|block| self.is_ours(&***block));
        let others = others.filter(|block| block.name_any() != block_storage);
        Elsewhere::Reported(others.flat_map(|block| reported_by(block)).collect())
    }

    /// Returns the namespaces in the statuses of this rabbit's NnfNodeBlockStorages, with the names of the objects.
    /// Leaves out objects that are being deleted: some of their namespaces may be gone already.
    pub fn reported_namespaces(&self) -> BTreeMap<NamespaceId, String> {
        let stays = |block: &&Arc<NnfNodeBlockStorage>| {
            self.is_ours(&***block) && block.metadata.deletion_timestamp.is_none()
        };
        let mut reported = BTreeMap::new();
        for object in self.block_storages.iter().filter(stays) {
            reported.extend(reported_by(object).map(|id| (id, object.name_any())));
        }
        reported
    }

    pub fn is_unreadable_block(&self, name: &str) -> bool {
        let has_name = |metadata: &ObjectMeta| {
            metadata.namespace.as_deref() == Some(self.node.as_str())
                && metadata.name.as_deref() == Some(name)
        };
        self.block_storages.unreadable().any(has_name)
    }

    /// Returns whether a NnfNodeStorage uses this block storage, or may use it because the
    /// NnfNodeStorage cannot be decoded.
    pub fn is_in_use(&self, block_storage: &str) -> bool {
        self.node_storages.iter().any(|storage| block_name(storage) == block_storage)
            || self.node_storages.unreadable().next().is_some()
    }

    /// Returns the NnfNodeStorages on this block storage.
    pub fn storages_on(&self, block_storage: &str) -> impl Iterator<Item = &Arc<NnfNodeStorage>> {
        let storages = self.node_storages.iter().filter(|storage| self.is_ours(&***storage));
        storages.filter(move |storage| block_name(storage) == block_storage)
    }

    /// Returns the names of this rabbit's ClientMounts that may have a file system of this NnfNodeStorage mounted.
    pub fn mounts_on(&self, node_storage: &str) -> Vec<String> {
        let known = self
            .client_mounts
            .iter()
            .filter(|mount| self.is_ours(&***mount) && may_be_mounted(mount));
        let known = known.chain(self.vanished.values()).map(|mount| &**mount);
        let refer = known.chain(self.dropped.all()).filter(|mount| refers_to(mount, node_storage));
        refer.map(ResourceExt::name_any).collect()
    }

    /// Returns the block storages of this rabbit to which a ClientMount of the rabbit refers.
    pub fn blocks_under(&self, client_mount: &str) -> BTreeSet<String> {
        let mounts =
            self.client_mount(client_mount).into_iter().flat_map(|mount| &mount.spec.mounts);
        let names = mounts.filter_map(|mount| {
            mount.device.device_reference.as_ref()?.object_reference.name.as_ref()
        });
        names.filter(|name| self.block_storage(name).is_some()).cloned().collect()
    }

    /// Returns the first of `directories` in which nothing is mounted: no mounted ClientMount has a mount at it or
    /// beneath it. `mounted` has the uids of the mounted ClientMounts.
    pub fn unmounted(&self, directories: &[String], mounted: &BTreeSet<String>) -> Option<String> {
        let is_beneath = |path: &str, directory: &str| {
            path.strip_prefix(directory)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let has = |directory: &str| {
            let objects = self.client_mounts.iter();
            let mut objects =
                objects.filter(|object| object.uid().is_some_and(|uid| mounted.contains(&uid)));
            objects.any(|object| {
                object.spec.mounts.iter().any(|mount| is_beneath(&mount.mount_path, directory))
            })
        };
        directories.iter().find(|directory| !has(directory)).cloned()
    }
}

/// Returns the namespaces in the object's status.
fn reported_by(object: &NnfNodeBlockStorage) -> impl Iterator<Item = NamespaceId> {
    let allocations = object.status.iter().flat_map(|status| &status.allocations);
    let devices = allocations.flat_map(|allocation| &allocation.devices);
    devices.filter_map(|device| NamespaceId::parse(&device.nqn, &device.namespace_id).ok())
}

/// Returns whether the object's status allows that a mount of the object exists.
fn may_be_mounted(object: &ClientMount) -> bool {
    let reported = object.status.as_ref().map_or(&[][..], |status| &status.mounts);
    let not_gone = |reported: &ClientMountInfoStatus| match reported.state {
        MountState::Mounted => reported.ready,
        MountState::Unmounted | MountState::Other(_) => !reported.ready,
    };
    let is_complete = reported.len() == object.spec.mounts.len();
    has_finalizer(object, finalizer::CLIENT_MOUNT)
        && (!is_complete || reported.iter().any(not_gone))
}

pub(super) fn refers_to(mount: &ClientMount, name: &str) -> bool {
    let references =
        mount.spec.mounts.iter().filter_map(|mount| mount.device.device_reference.as_ref());
    references.into_iter().any(|reference| reference.object_reference.name.as_deref() == Some(name))
}

/// Returns the name of the block storage under a NnfNodeStorage: the name in the object's block reference, or else the
/// object's own name.
pub fn block_name(object: &NnfNodeStorage) -> String {
    let referred = object.spec.block_reference.name.clone();
    referred.filter(|name| !name.is_empty()).unwrap_or_else(|| object.name_any())
}
