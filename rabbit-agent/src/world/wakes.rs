//! Which work an event is a reason for.

use std::sync::Arc;

use api::{
    ClientMount, NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfNodeStorageStatus,
    NnfStorageProfile, RabbitLabels, SystemConfiguration,
    names::{NNF_NODE, finalizer},
    nnf_node_storage::{FileSystemType, NnfStorageHealth},
};
use controller::{Change, Store, has_finalizer};
use kube::ResourceExt;

use super::{Kept, Key, Wake, World, block_name, refers_to};
use crate::fence::is_shared;

impl World {
    /// Who is fenced decides who is given a GFS2, and is shown in the NnfNode.
    pub(crate) fn fences_changed(&self) -> Vec<Wake> {
        let shared = self.block_storages.iter().filter(|it| is_shared(&it.metadata));
        let shared = shared.map(|it| Wake::Related(Key::BlockStorage(it.name_any())));
        shared.chain([Wake::Related(Key::Node)]).collect()
    }

    /// The rabbit's own state is told anew, and whoever failed may not any more: the drive that was missing may be back. A
    /// Lustre target serves for as long as it is there, and no event says what happens to its pool; those that failed are
    /// tried again by the clock, for their tries may be what moves.
    pub(crate) fn node_moved(&mut self) -> Vec<Wake> {
        self.has_moved = true;
        let failing = |it: &&Arc<NnfNodeBlockStorage>| {
            it.status.as_ref().is_some_and(|status| status.error.is_some())
        };
        let failing = self.block_storages.iter().filter(failing);
        let again = failing.map(|it| Wake::Related(Key::BlockStorage(it.name_any())));
        let serves = |it: &&Arc<NnfNodeStorage>| {
            it.spec.file_system_type == FileSystemType::Lustre
                && it.status.as_ref().is_some_and(|status| status.error.is_none())
        };
        let serving = self.node_storages.iter().filter(serves);
        let serving = serving.map(|it| Wake::Related(Key::NodeStorage(it.name_any())));
        [Wake::Related(Key::Node)].into_iter().chain(again).chain(serving).collect()
    }

    /// What was made on drives may have lost one, or be completed or repaired with one that came.
    pub(crate) fn drives_changed(&self) -> Vec<Wake> {
        let blocks = self.block_storages.iter().map(|it| Key::BlockStorage(it.name_any()));
        let storages = self.node_storages.iter().map(|it| Key::NodeStorage(it.name_any()));
        blocks.chain(storages).map(Wake::Related).collect()
    }

    /// ClientMounts that are not done and for which `concerned` holds.
    fn waiting_mounts(&self, concerned: impl Fn(&ClientMount) -> bool) -> Vec<Wake> {
        let undone = |it: &ClientMount| {
            it.status.as_ref().is_none_or(|status| !status.all_ready || status.error.is_some())
        };
        let mounts = self.client_mounts.iter().filter(|it| undone(it) && concerned(it));
        mounts.map(|it| Wake::Related(Key::ClientMount(it.name_any()))).collect()
    }

    /// NnfNodeStorages that are being deleted and wait for this ClientMount.
    pub(crate) fn leaving_storages(&self, mount: &ClientMount) -> Vec<Wake> {
        self.waiting_storages(|it| {
            it.metadata.deletion_timestamp.is_some() && refers_to(mount, &it.name_any())
        })
    }

    /// NnfNodeStorages that are not done, or wait to be repaired, and for which `concerned` holds. A Lustre target is never
    /// done: it serves for as long as it is there, and is mounted again when its devices are back after a restart.
    fn waiting_storages(&self, concerned: impl Fn(&NnfNodeStorage) -> bool) -> Vec<Wake> {
        let undone = |it: &NnfNodeStorage| {
            let whole = |status: &NnfNodeStorageStatus| {
                let is_degraded = status.health == Some(NnfStorageHealth::Degraded);
                status.ready && status.error.is_none() && !is_degraded
            };
            let done = it.status.as_ref().is_some_and(whole);
            let serves = it.spec.file_system_type == FileSystemType::Lustre;
            !done || serves || it.metadata.deletion_timestamp.is_some()
        };
        let storages = self.node_storages.iter().filter(|it| undone(it) && concerned(it));
        storages.map(|it| Wake::Related(Key::NodeStorage(it.name_any()))).collect()
    }
}

fn changed<K: Kept>(change: &Change<K>) -> Vec<Wake> {
    let key = change.object().filter(|_| change.to_act_on()).and_then(|object| object.key());
    key.map(Wake::Changed).into_iter().collect()
}

impl Kept for NnfNodeBlockStorage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.block_storages
    }

    fn key(&self) -> Option<Key> {
        Some(Key::BlockStorage(self.name_any()))
    }

    /// Its file systems and mounts wait for its devices; whoever lacks room waits for it to go.
    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object().filter(|it| world.is_ours(&***it)) else {
            return Vec::new();
        };
        let mut wakes = changed(change);
        let status = |it: &Option<Arc<Self>>| it.as_ref().and_then(|it| it.status.clone());
        if status(&change.old) != status(&change.new) || change.to_act_on() {
            let name = object.name_any();
            wakes.extend(world.waiting_storages(|it| block_name(it) == name));
            wakes.extend(world.waiting_mounts(|it| refers_to(it, &name)));
        }
        let held = |it: &Option<Arc<Self>>| {
            it.as_ref().is_some_and(|it| has_finalizer(&**it, finalizer::NNF_NODE_STORAGE))
        };
        if held(&change.old) && change.new.is_some() && !held(&change.new) {
            // Whoever has file systems on it puts the finalizer on again.
            let name = object.name_any();
            let storages = world.node_storages.iter().filter(|it| block_name(it) == name);
            wakes.extend(storages.map(|it| Wake::Related(Key::NodeStorage(it.name_any()))));
        }
        if change.new.is_none() {
            let failing =
                |it: &&Arc<Self>| it.status.as_ref().is_some_and(|status| status.error.is_some());
            let failing = world.block_storages.iter().filter(failing);
            wakes.extend(failing.map(|it| Wake::Related(Key::BlockStorage(it.name_any()))));
            wakes.push(Wake::Related(Key::Node));
        }
        wakes
    }

    fn tells_the_same(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Kept for NnfNodeStorage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.node_storages
    }

    fn key(&self) -> Option<Key> {
        Some(Key::NodeStorage(self.name_any()))
    }

    /// Mounts wait for the file systems to be made.
    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object().filter(|it| world.is_ours(&***it)) else {
            return Vec::new();
        };
        let mut wakes = changed(change);
        let ready = |it: &Option<Arc<Self>>| {
            it.as_ref().and_then(|it| it.status.as_ref()).is_some_and(|it| it.ready)
        };
        if !ready(&change.old) && ready(&change.new) {
            let name = object.name_any();
            wakes.extend(world.waiting_mounts(|it| refers_to(it, &name)));
        }
        if change.new.is_none() {
            wakes.push(Wake::Related(Key::BlockStorage(block_name(object))));
        }
        wakes
    }

    fn tells_the_same(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Kept for ClientMount {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.client_mounts
    }

    fn key(&self) -> Option<Key> {
        Some(Key::ClientMount(self.name_any()))
    }

    /// One that is gone, or gone and made anew under its name, while it still carried our finalizer is cleaned up after. Of any
    /// other nothing was made, but its paths were claimed.
    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if !change.object().is_some_and(|it| world.is_ours(&**it)) {
            return Vec::new();
        }
        let mut wakes = changed(change);
        if let Some(object) = change.object() {
            wakes.extend(world.leaving_storages(object));
        }
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && old.uid() == new.uid()
            && (&old.spec, old.labels()) != (&new.spec, new.labels())
        {
            world.altered.push((Arc::clone(old), Arc::clone(new)));
        }
        if let Some(old) = &change.old
            && change.new.as_ref().is_none_or(|new| new.uid() != old.uid())
        {
            let uid = old.uid().unwrap_or_default();
            if has_finalizer(&**old, finalizer::CLIENT_MOUNT) {
                world.vanished.insert(uid.clone(), Arc::clone(old));
                wakes.push(Wake::Related(Key::Vanished(uid)));
            } else {
                wakes.push(Wake::LetGo(old.name_any(), uid));
            }
        }
        wakes
    }

    fn tells_the_same(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Kept for NnfNode {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.nodes
    }

    fn key(&self) -> Option<Key> {
        (self.name_any() == NNF_NODE).then_some(Key::Node)
    }

    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if change.object().is_some_and(|it| world.is_ours(&**it)) {
            changed(change)
        } else {
            Vec::new()
        }
    }

    fn tells_the_same(&self, other: &Self) -> bool {
        let own = |object: &Self| {
            let mut status = object.status.clone().unwrap_or_default();
            // The cluster's fencing and LNet tell these.
            status.fenced = false;
            status.lnet_nid.clear();
            status
        };
        own(self) == own(other)
    }
}

impl Kept for NnfLustreMgt {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.lustre_mgts
    }

    fn key(&self) -> Option<Key> {
        Some(Key::LustreMgt(self.name_any()))
    }

    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if change.object().is_some_and(|it| world.is_ours(&**it)) {
            changed(change)
        } else {
            Vec::new()
        }
    }

    fn tells_the_same(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Kept for NnfStorageProfile {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.profiles
    }

    fn key(&self) -> Option<Key> {
        None
    }

    /// What is done stays done when its profile is edited; what waits for it looks again.
    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let (Some(new), true) = (
            &change.new,
            change.old.as_ref().map(|it| it.data()) != change.new.as_ref().map(|it| it.data()),
        ) else {
            return Vec::new();
        };
        let (name, namespace) = (new.name_any(), new.namespace().unwrap_or_default());
        let names = |named: Option<api::names::ProfileRef<'_>>| {
            named.is_some_and(|it| it.name == name && it.namespace == namespace)
        };
        let mut wakes = world.waiting_storages(|it| names(it.pinned_profile()));
        wakes.extend(world.waiting_mounts(|it| names(it.pinned_profile())));
        wakes
    }
}

impl Kept for SystemConfiguration {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.systems
    }

    fn key(&self) -> Option<Key> {
        None
    }

    /// Slots decide who gets access, and are shown in the NnfNode.
    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if !change.to_act_on() {
            return Vec::new();
        }
        let blocks =
            world.block_storages.iter().map(|it| Wake::Related(Key::BlockStorage(it.name_any())));
        blocks.chain([Wake::Related(Key::Node)]).collect()
    }
}
