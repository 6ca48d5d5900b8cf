//! Defines for each kind its store and key in the cache, and the objects to wake after a change.

use std::sync::Arc;

use api::{
    ClientMount, NnfDataMovement, NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage,
    NnfStorageProfile, NodeContainers, RabbitLabels, SystemConfiguration,
    names::{NNF_NODE, finalizer},
};
use controller::{Change, Store, has_finalizer};
use kube::ResourceExt;

use super::{
    Cache, Cached, Key, Wake, block_name, refers_to,
    wakes::{has_failed, related},
};
use crate::kinds::movement;

/// Implements the store and key of a kind whose objects the agent reconciles by name. The agent writes all fields
/// of the kind's status.
macro_rules! reconciled {
    ($store:ident, $key:ident) => {
        fn store(cache: &mut Cache) -> &mut Store<Self> {
            &mut cache.$store
        }

        fn key(&self) -> Option<Key> {
            Some(Key::$key(self.name_any()))
        }

        fn same_status(&self, other: &Self) -> bool {
            self.status == other.status
        }
    };
}

impl Cached for NnfNodeBlockStorage {
    reconciled!(block_storages, BlockStorage);

    /// Wakes NnfNodeStorages and ClientMounts that wait for the devices. After a deletion, wakes block storages that
    /// wait for room.
    fn wakes(cache: &mut Cache, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let mut wakes = Vec::new();
        let status =
            |object: &Option<Arc<Self>>| object.as_ref().and_then(|object| object.status.clone());
        if status(&change.old) != status(&change.new) || change.needs_reconcile() {
            let name = object.name_any();
            wakes.extend(cache.waiting_storages(|storage| block_name(storage) == name));
            wakes.extend(cache.waiting_mounts(|mount| refers_to(mount, &name)));
        }
        let held = |block: &Option<Arc<Self>>| {
            block.as_ref().is_some_and(|block| has_finalizer(&**block, finalizer::NNF_NODE_STORAGE))
        };
        if held(&change.old) && change.new.is_some() && !held(&change.new) {
            // The passes over the NnfNodeStorages on this block storage add the finalizer again.
            let name = object.name_any();
            let storages = cache.node_storages.iter().filter(|storage| block_name(storage) == name);
            wakes.extend(storages.filter_map(related));
        }
        if change.new.is_none() {
            let failed = cache.block_storages.iter().filter(has_failed);
            wakes.extend(failed.filter_map(related));
            wakes.push(Wake::Related(Key::Node));
        }
        wakes
    }
}

impl Cached for NnfNodeStorage {
    reconciled!(node_storages, NodeStorage);

    /// Wakes ClientMounts that wait for the file systems.
    fn wakes(cache: &mut Cache, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let mut wakes = Vec::new();
        let ready = |object: &Option<Arc<Self>>| {
            object
                .as_ref()
                .and_then(|object| object.status.as_ref())
                .is_some_and(|status| status.ready)
        };
        if !ready(&change.old) && ready(&change.new) {
            let name = object.name_any();
            wakes.extend(cache.waiting_mounts(|mount| refers_to(mount, &name)));
        }
        if change.new.is_none() {
            wakes.push(Wake::Related(Key::BlockStorage(block_name(object))));
        }
        wakes
    }
}

impl Cached for ClientMount {
    reconciled!(client_mounts, ClientMount);

    /// If a ClientMount disappeared, or was replaced by another object of its name, while it carried the agent's
    /// finalizer: wakes the pass that removes its mounts. Without the finalizer nothing was mounted, but mount points
    /// were reserved for the object.
    fn wakes(cache: &mut Cache, change: &Change<Self>) -> Vec<Wake> {
        let mut wakes = Vec::new();
        if let Some(object) = change.object() {
            wakes.extend(cache.deleted_storages_of(object));
        }
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && old.uid() == new.uid()
            && (&old.spec, old.labels()) != (&new.spec, new.labels())
        {
            cache.altered.push((Arc::clone(old), Arc::clone(new)));
        }
        if let Some(old) = &change.old
            && change.new.as_ref().is_none_or(|new| new.uid() != old.uid())
        {
            let uid = old.uid().unwrap_or_default();
            if has_finalizer(&**old, finalizer::CLIENT_MOUNT) {
                cache.vanished.insert(uid.clone(), Arc::clone(old));
                wakes.push(Wake::Related(Key::Vanished(uid)));
            } else {
                wakes.push(Wake::Deleted(old.name_any(), uid));
            }
        }
        wakes
    }
}

impl Cached for NnfNode {
    fn store(cache: &mut Cache) -> &mut Store<Self> {
        &mut cache.nodes
    }

    fn key(&self) -> Option<Key> {
        (self.name_any() == NNF_NODE).then_some(Key::Node)
    }

    fn same_status(&self, other: &Self) -> bool {
        let own = |object: &Self| {
            let mut status = object.status.clone().unwrap_or_default();
            // Programs other than this agent write these two fields.
            status.fenced = false;
            status.lnet_nid.clear();
            status
        };
        own(self) == own(other)
    }
}

impl Cached for NnfLustreMgt {
    reconciled!(lustre_mgts, LustreMgt);
}

impl Cached for NodeContainers {
    reconciled!(containers, Containers);

    /// Wakes the object on a request for logs. The request is an annotation, which does not
    /// change the object's generation.
    fn wakes(_: &mut Cache, change: &Change<Self>) -> Vec<Wake> {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return Vec::new() };
        let is_requested = new.unanswered_log_request().is_some()
            && new.unanswered_log_request() != old.unanswered_log_request();
        new.key().filter(|_| is_requested).map(Wake::Related).into_iter().collect()
    }
}

impl Cached for NnfDataMovement {
    fn store(cache: &mut Cache) -> &mut Store<Self> {
        &mut cache.movements
    }

    /// `None` for movements that another program carries out.
    fn key(&self) -> Option<Key> {
        (self.is_ours() && !self.is_by_mpi()).then(|| Key::Movement(self.name_any()))
    }

    fn same_status(&self, other: &Self) -> bool {
        self.status == other.status
    }

    /// Wakes the waiting movements when a movement has ended or is no longer to be carried out.
    fn wakes(cache: &mut Cache, change: &Change<Self>) -> Vec<Wake> {
        let waits = |object: &Option<Arc<Self>>| {
            object.as_ref().is_some_and(|object| movement::is_wanted(object))
        };
        let is_over = waits(&change.old) && !waits(&change.new);
        if is_over { cache.waiting_movements() } else { Vec::new() }
    }
}

impl Cached for NnfStorageProfile {
    fn store(cache: &mut Cache) -> &mut Store<Self> {
        &mut cache.profiles
    }

    fn key(&self) -> Option<Key> {
        None
    }

    /// Wakes the objects that wait for the profile. A change of a profile does not affect storage that exists already.
    fn wakes(cache: &mut Cache, change: &Change<Self>) -> Vec<Wake> {
        let (Some(new), true) = (
            &change.new,
            change.old.as_ref().map(|profile| profile.data())
                != change.new.as_ref().map(|profile| profile.data()),
        ) else {
            return Vec::new();
        };
        let (name, namespace) = (new.name_any(), new.namespace().unwrap_or_default());
        let names = |named: Option<api::names::ProfileRef<'_>>| {
            named.is_some_and(|profile| profile.name == name && profile.namespace == namespace)
        };
        let mut wakes = cache.waiting_storages(|storage| names(storage.pinned_profile()));
        wakes.extend(cache.waiting_mounts(|mount| names(mount.pinned_profile())));
        wakes
    }
}

impl Cached for SystemConfiguration {
    fn store(cache: &mut Cache) -> &mut Store<Self> {
        &mut cache.systems
    }

    fn key(&self) -> Option<Key> {
        None
    }

    /// Wakes all block storages and the NnfNode: the slots decide which computes get access, and the
    /// NnfNode lists the slots.
    fn wakes(cache: &mut Cache, change: &Change<Self>) -> Vec<Wake> {
        if !change.needs_reconcile() {
            return Vec::new();
        }
        let blocks = cache.block_storages.iter().filter_map(related);
        blocks.chain([Wake::Related(Key::Node)]).collect()
    }
}
