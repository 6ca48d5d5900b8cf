//! What the API told of this rabbit: the objects of its namespace and what they refer to, and who must look again when
//! one of them changes. Pure.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    ClientMount, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, RabbitLabels,
    SystemConfiguration,
    names::{NNF_NODE, SYSTEM_CONFIGURATION, finalizer},
};
use kube::{ResourceExt, runtime::watcher::Event};
use storage::desired::NodeName;

use crate::{
    chassis::Chassis,
    shelf::{Change, Fingerprint, Shelf},
    write::{Object, has_finalizer},
};

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The NnfNode.
    Node,
    /// A NnfNodeBlockStorage, by name.
    BlockStorage(String),
    /// A NnfNodeStorage, by name.
    NodeStorage(String),
    /// A ClientMount, by name.
    ClientMount(String),
    /// A ClientMount that went away without our doing, by uid: what it had is unmounted.
    Vanished(String),
}

/// Why something is worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// The object itself is new or changed; not a reason if we wrote the change.
    Changed(Key),
    /// Something that it refers to changed.
    Related(Key),
}

/// The objects that this rabbit's agent knows.
#[derive(Debug)]
pub struct World {
    node: NodeName,
    pub(crate) block_storages: Shelf<NnfNodeBlockStorage>,
    pub(crate) node_storages: Shelf<NnfNodeStorage>,
    pub(crate) client_mounts: Shelf<ClientMount>,
    nodes: Shelf<NnfNode>,
    profiles: Shelf<NnfStorageProfile>,
    systems: Shelf<SystemConfiguration>,
    vanished: BTreeMap<String, Arc<ClientMount>>,
}

/// Something to tell the world, whatever its kind.
pub type Tell = Box<dyn FnOnce(&mut World) -> Vec<Wake> + Send>;

/// A kind that the world keeps.
pub trait Kept: Object {
    /// Where.
    fn shelf(world: &mut World) -> &mut Shelf<Self>;
    /// The work on it, if there is any.
    fn key(&self) -> Option<Key>;
    /// Who must look again.
    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake>;
}

impl World {
    /// A rabbit of which nothing is known yet.
    #[must_use]
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            block_storages: Shelf::default(),
            node_storages: Shelf::default(),
            client_mounts: Shelf::default(),
            nodes: Shelf::default(),
            profiles: Shelf::default(),
            systems: Shelf::default(),
            vanished: BTreeMap::new(),
        }
    }

    /// Takes in an event of a watch.
    pub fn take<K: Kept>(&mut self, event: Event<K>) -> Vec<Wake> {
        let changes = K::shelf(self).take(event);
        changes.iter().flat_map(|change| K::wakes(self, change)).collect()
    }

    /// Takes in the API's answer to a write of ours.
    pub fn wrote<K: Kept>(&mut self, object: K) -> Vec<Wake> {
        let changes = K::shelf(self).wrote(object);
        changes.iter().flat_map(|change| K::wakes(self, change)).collect()
    }

    /// Whether every kind was listed to its end. Before that, nothing is concluded from an object's absence.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.block_storages.is_complete()
            && self.node_storages.is_complete()
            && self.client_mounts.is_complete()
            && self.nodes.is_complete()
            && self.profiles.is_complete()
            && self.systems.is_complete()
    }

    /// A NnfNodeBlockStorage of this rabbit.
    #[must_use]
    pub fn block_storage(&self, name: &str) -> Option<&Arc<NnfNodeBlockStorage>> {
        self.block_storages.get(self.node.as_str(), name)
    }

    /// A NnfNodeStorage of this rabbit.
    #[must_use]
    pub fn node_storage(&self, name: &str) -> Option<&Arc<NnfNodeStorage>> {
        self.node_storages.get(self.node.as_str(), name)
    }

    /// A ClientMount of this rabbit.
    #[must_use]
    pub fn client_mount(&self, name: &str) -> Option<&Arc<ClientMount>> {
        self.client_mounts.get(self.node.as_str(), name)
    }

    /// A ClientMount that went away while something of it may be mounted.
    #[must_use]
    pub fn vanished(&self, uid: &str) -> Option<&Arc<ClientMount>> {
        self.vanished.get(uid)
    }

    /// Nothing of it is left.
    pub fn forget_vanished(&mut self, uid: &str) {
        self.vanished.remove(uid);
    }

    /// This rabbit's NnfNode.
    #[must_use]
    pub fn nnf_node(&self) -> Option<&Arc<NnfNode>> {
        self.nodes.get(self.node.as_str(), NNF_NODE)
    }

    /// The chassis as configured.
    #[must_use]
    pub fn chassis(&self) -> Chassis {
        let system = self.systems.get(SYSTEM_CONFIGURATION, SYSTEM_CONFIGURATION);
        Chassis::new(&self.node, system.map(AsRef::as_ref))
    }

    /// The profile that an object's labels name, or in words for the user why it cannot be had.
    ///
    /// # Errors
    /// When the labels name none, or it does not exist.
    pub fn profile<K: Object>(&self, object: &K) -> Result<Arc<NnfStorageProfile>, String> {
        let Some(named) = object.pinned_profile() else {
            return Err("metadata.labels name no pinned NnfStorageProfile: the controller that creates the object must set them".into());
        };
        self.profiles.get(named.namespace, named.name).cloned().ok_or_else(|| {
            format!(
                "NnfStorageProfile {}/{} does not exist: create it with data.pinned true",
                named.namespace, named.name
            )
        })
    }

    /// What a key's object looks like to its reconcile.
    #[must_use]
    pub fn fingerprint(&self, key: &Key) -> Option<Fingerprint> {
        match key {
            Key::Node => self.nnf_node().map(|it| Fingerprint::of(&**it)),
            Key::BlockStorage(name) => self.block_storage(name).map(|it| Fingerprint::of(&**it)),
            Key::NodeStorage(name) => self.node_storage(name).map(|it| Fingerprint::of(&**it)),
            Key::ClientMount(name) => self.client_mount(name).map(|it| Fingerprint::of(&**it)),
            Key::Vanished(_) => None,
        }
    }

    /// Every object there is work for, for the first pass.
    #[must_use]
    pub fn everything(&self) -> Vec<Key> {
        let mut keys = vec![Key::Node];
        keys.extend(self.block_storages.iter().map(|it| Key::BlockStorage(it.name_any())));
        keys.extend(self.node_storages.iter().map(|it| Key::NodeStorage(it.name_any())));
        keys.extend(self.client_mounts.iter().map(|it| Key::ClientMount(it.name_any())));
        keys
    }

    /// Whether the object lies in this rabbit's namespace; no other is ever acted on.
    fn is_ours<K: Object>(&self, object: &K) -> bool {
        object.namespace().as_deref() == Some(self.node.as_str())
    }

    /// ClientMounts that are not done and for which `concerned` holds.
    fn waiting_mounts(&self, concerned: impl Fn(&ClientMount) -> bool) -> Vec<Wake> {
        let undone = |it: &ClientMount| {
            it.status.as_ref().is_none_or(|status| !status.all_ready || status.error.is_some())
        };
        let mounts = self.client_mounts.iter().filter(|it| undone(it) && concerned(it));
        mounts.map(|it| Wake::Related(Key::ClientMount(it.name_any()))).collect()
    }

    /// NnfNodeStorages that are not done and for which `concerned` holds.
    fn waiting_storages(&self, concerned: impl Fn(&NnfNodeStorage) -> bool) -> Vec<Wake> {
        let undone = |it: &NnfNodeStorage| {
            let done =
                it.status.as_ref().is_some_and(|status| status.ready && status.error.is_none());
            !done || it.metadata.deletion_timestamp.is_some()
        };
        let storages = self.node_storages.iter().filter(|it| undone(it) && concerned(it));
        storages.map(|it| Wake::Related(Key::NodeStorage(it.name_any()))).collect()
    }
}

fn changed<K: Kept>(change: &Change<K>) -> Vec<Wake> {
    let key = change.object().filter(|_| change.to_act_on()).and_then(|object| object.key());
    key.map(Wake::Changed).into_iter().collect()
}

/// Name of the block storage under a NnfNodeStorage: the one it refers to, or else its namesake.
#[must_use]
pub fn block_name(object: &NnfNodeStorage) -> String {
    let referred = object.spec.block_reference.as_ref().and_then(|it| it.name.clone());
    referred.filter(|name| !name.is_empty()).unwrap_or_else(|| object.name_any())
}

impl Kept for NnfNodeBlockStorage {
    fn shelf(world: &mut World) -> &mut Shelf<Self> {
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
        if change.new.is_none() {
            let failing =
                |it: &&Arc<Self>| it.status.as_ref().is_some_and(|status| status.error.is_some());
            let failing = world.block_storages.iter().filter(failing);
            wakes.extend(failing.map(|it| Wake::Related(Key::BlockStorage(it.name_any()))));
            wakes.push(Wake::Related(Key::Node));
        }
        wakes
    }
}

fn refers_to(mount: &ClientMount, name: &str) -> bool {
    let references = mount.spec.mounts.iter().filter_map(|it| it.device.device_reference.as_ref());
    references.into_iter().any(|it| it.object_reference.name.as_deref() == Some(name))
}

impl Kept for NnfNodeStorage {
    fn shelf(world: &mut World) -> &mut Shelf<Self> {
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
}

impl Kept for ClientMount {
    fn shelf(world: &mut World) -> &mut Shelf<Self> {
        &mut world.client_mounts
    }

    fn key(&self) -> Option<Key> {
        Some(Key::ClientMount(self.name_any()))
    }

    /// One that is gone, or gone and made anew under its name, while it still carried our finalizer is cleaned up after.
    fn wakes(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        if !change.object().is_some_and(|it| world.is_ours(&**it)) {
            return Vec::new();
        }
        let mut wakes = changed(change);
        if let Some(old) = &change.old
            && change.new.as_ref().is_none_or(|new| new.uid() != old.uid())
            && has_finalizer(&**old, finalizer::CLIENT_MOUNT)
        {
            let uid = old.uid().unwrap_or_default();
            world.vanished.insert(uid.clone(), Arc::clone(old));
            wakes.push(Wake::Related(Key::Vanished(uid)));
        }
        wakes
    }
}

impl Kept for NnfNode {
    fn shelf(world: &mut World) -> &mut Shelf<Self> {
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
}

impl Kept for NnfStorageProfile {
    fn shelf(world: &mut World) -> &mut Shelf<Self> {
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
    fn shelf(world: &mut World) -> &mut Shelf<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn world() -> World {
        World::new("rabbit-1".parse().unwrap())
    }

    fn versioned<K: Object>(mut object: K, version: u32) -> K {
        object.meta_mut().resource_version = Some(version.to_string());
        object
    }

    #[test]
    fn objects_of_another_namespace_wake_nobody() {
        let mut world = world();
        let mut foreign = samples::client_mount(1);
        foreign.metadata.namespace = Some("rabbit-2".to_owned());
        assert!(world.take(Event::Apply(foreign)).is_empty());
        let mut foreign = samples::block_storage(&[(1, &["rabbit-1"])]);
        foreign.metadata.namespace = Some("default".to_owned());
        assert!(world.take(Event::Apply(foreign)).is_empty());
    }

    #[test]
    fn our_status_does_not_wake_us_and_wakes_those_who_wait() {
        let mut world = world();
        world.take(Event::Apply(versioned(samples::node_storage(1, "xfs"), 1)));
        world.take(Event::Apply(versioned(samples::block_storage(&[(1 << 30, &["rabbit-1"])]), 2)));
        let wakes = world.wrote(versioned(samples::block_storage_ready(1), 3));
        assert_eq!(wakes, [Wake::Related(Key::NodeStorage(samples::NAME.into()))]);
        assert!(
            world.take(Event::Apply(versioned(samples::block_storage_ready(1), 3))).is_empty(),
            "the echo"
        );
    }

    #[test]
    fn a_client_mount_whose_finalizer_was_stripped_is_cleaned_up_after() {
        let mut world = world();
        let mut mount = samples::client_mount(1);
        mount.metadata.finalizers = Some(vec![finalizer::CLIENT_MOUNT.into()]);
        let uid = mount.uid().unwrap();
        world.take(Event::Apply(mount.clone()));
        let wakes = world.take(Event::Delete(mount.clone()));
        assert!(wakes.contains(&Wake::Related(Key::Vanished(uid.clone()))), "{wakes:?}");
        assert!(world.vanished(&uid).is_some());
    }

    #[test]
    fn a_client_mount_that_we_released_needs_nothing() {
        let mut world = world();
        let mount = samples::client_mount(1);
        world.take(Event::Apply(mount.clone()));
        let wakes = world.take(Event::Delete(mount));
        assert!(!wakes.iter().any(|it| matches!(it, Wake::Related(Key::Vanished(_)))), "{wakes:?}");
    }

    #[test]
    fn a_missing_profile_is_named_and_its_coming_wakes_who_waits() {
        let mut world = world();
        let storage = samples::node_storage(1, "xfs");
        world.take(Event::Apply(storage.clone()));
        assert!(world.profile(&storage).unwrap_err().contains("default/job-7-0"));
        let wakes = world.take(Event::Apply(samples::profile()));
        assert_eq!(wakes, [Wake::Related(Key::NodeStorage(samples::NAME.into()))]);
        assert!(world.profile(&storage).is_ok());
    }

    #[test]
    fn new_slots_make_every_block_storage_look_again() {
        let mut world = world();
        world.take(Event::Apply(samples::block_storage(&[(1, &["rabbit-1"])])));
        let wakes = world.take(Event::Apply(samples::system()));
        assert_eq!(
            wakes,
            [Wake::Related(Key::BlockStorage(samples::NAME.into())), Wake::Related(Key::Node)]
        );
    }
}
