//! The agent's cache: the objects in this rabbit's namespace and the objects that they refer to. When an object
//! changes, the cache decides which objects to wake. Does no I/O.

mod key;
mod kinds;
mod storage_use;
#[cfg(test)]
mod tests;
mod wakes;

use std::{collections::BTreeMap, sync::Arc};

use agent::{dropped::DroppedMounts, records::MountRecords};
use api::{
    ClientMount, NnfDataMovement, NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage,
    NnfStorageProfile, NodeContainers, RabbitLabels, SystemConfiguration,
    names::{NNF_NODE, SYSTEM_CONFIGURATION},
};
use controller::{Change, Event, Fingerprint, Object, Store};
use fence::chassis::Chassis;
use kube::ResourceExt;
use storage::desired::NodeName;
use thiserror::Error;

use self::storage_use::refers_to;
pub use self::{key::Key, storage_use::block_name};

/// Why an object enters the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// The object is new, or another program than this agent changed it.
    Changed(Key),
    /// Another object or the node changed, in a way that concerns the object.
    Related(Key),
    /// The status with this resourceVersion differs from the cached status: a running pass or
    /// another writer changed it.
    StatusChanged(Key, String),
    /// The ClientMount with this name and uid was deleted without the agent's finalizer: its mount points are free.
    Deleted(String, String),
}

/// Why an object has no profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoProfile {
    #[error(
        "metadata.labels name no pinned NnfStorageProfile: the controller that creates the object must set them"
    )]
    Unnamed,
    #[error("NnfStorageProfile {namespace}/{name} does not exist: create it with data.pinned true")]
    Missing { namespace: String, name: String },
}

/// The stores of all kinds that the agent watches.
#[derive(Debug, Clone)]
pub struct Cache {
    node: NodeName,
    pub(crate) block_storages: Store<NnfNodeBlockStorage>,
    pub(crate) node_storages: Store<NnfNodeStorage>,
    pub(crate) client_mounts: Store<ClientMount>,
    nodes: Store<NnfNode>,
    profiles: Store<NnfStorageProfile>,
    systems: Store<SystemConfiguration>,
    lustre_mgts: Store<NnfLustreMgt>,
    pub(crate) containers: Store<NodeContainers>,
    pub(crate) movements: Store<NnfDataMovement>,
    vanished: BTreeMap<String, Arc<ClientMount>>,
    /// Earlier versions of ClientMounts whose mounts may still be there.
    pub(crate) dropped: DroppedMounts,
    /// ClientMounts before and after a change that the agent has not handled yet.
    pub(crate) altered: Vec<(Arc<ClientMount>, Arc<ClientMount>)>,
    /// Whether a device event has come since the agent started.
    pub(crate) had_device_event: bool,
}

pub trait Cached: Object {
    /// Returns the store of this kind.
    fn store(cache: &mut Cache) -> &mut Store<Self>;
    /// Returns the key under which the agent works on the object; `None` for kinds that it only reads.
    fn key(&self) -> Option<Key>;
    /// Returns the further objects to wake after a change. For kinds with a key, the cache calls this function only for
    /// objects of this rabbit.
    fn wakes(_: &mut Cache, _: &Change<Self>) -> Vec<Wake> {
        Vec::new()
    }
    /// Returns whether both objects have the same status; fields that other programs write do not count. True for kinds
    /// whose status this agent does not write.
    fn same_status(&self, _other: &Self) -> bool {
        true
    }
}

impl Cache {
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            block_storages: Store::default(),
            node_storages: Store::default(),
            client_mounts: Store::default(),
            nodes: Store::default(),
            profiles: Store::default(),
            systems: Store::default(),
            lustre_mgts: Store::default(),
            containers: Store::default(),
            movements: Store::default(),
            vanished: BTreeMap::new(),
            dropped: DroppedMounts::default(),
            altered: Vec::new(),
            had_device_event: false,
        }
    }

    /// Returns a cache with the ClientMounts that earlier agents recorded.
    pub fn with_records(node: NodeName, records: &MountRecords) -> Self {
        let mut cache = Self::new(node);
        records.earlier_records().iter().for_each(|versions| cache.restore(versions.clone()));
        cache
    }

    /// Applies an event of a watch, and returns the wakes that follow.
    pub fn apply<K: Cached>(&mut self, event: Event<K>) -> Vec<Wake> {
        let changes = K::store(self).take(event);
        let mut wakes: Vec<Wake> =
            changes.iter().flat_map(|change| self.wakes_of(change)).collect();
        wakes.extend(changes.iter().filter_map(|change| self.status_change(change)));
        wakes
    }

    /// Detects that another writer changed the status: a pass puts its own writes into the cache, so a status that
    /// differs from the cached one is not this agent's.
    fn status_change<K: Cached>(&self, change: &Change<K>) -> Option<Wake> {
        let (old, new) = (change.old.as_ref()?, change.new.as_ref()?);
        // An object that was restored from a record on disk has no version and no status.
        old.resource_version()?;
        let same = old.uid() != new.uid() || old.same_status(new) || !self.is_ours(&**new);
        (!same).then(|| Some(Wake::StatusChanged(new.key()?, new.resource_version()?)))?
    }

    /// Applies the API's answer to a write of this agent, and returns the wakes that follow.
    pub fn wrote<K: Cached>(&mut self, object: K) -> Vec<Wake> {
        let changes = K::store(self).apply_written(object);
        changes.iter().flat_map(|change| self.wakes_of(change)).collect()
    }

    fn wakes_of<K: Cached>(&mut self, change: &Change<K>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let key = object.key();
        if key.is_some() && !self.is_ours(&**object) {
            return Vec::new();
        }
        let mut wakes: Vec<_> =
            key.filter(|_| change.needs_reconcile()).map(Wake::Changed).into_iter().collect();
        wakes.extend(K::wakes(self, change));
        wakes
    }

    /// Returns whether every kind was listed completely. Before that, an object that is missing from
    /// the cache may exist.
    pub fn is_complete(&self) -> bool {
        self.block_storages.is_complete()
            && self.node_storages.is_complete()
            && self.client_mounts.is_complete()
            && self.nodes.is_complete()
            && self.profiles.is_complete()
            && self.systems.is_complete()
    }

    pub fn block_storage(&self, name: &str) -> Option<&Arc<NnfNodeBlockStorage>> {
        self.block_storages.get(self.node.as_str(), name)
    }

    pub fn node_storage(&self, name: &str) -> Option<&Arc<NnfNodeStorage>> {
        self.node_storages.get(self.node.as_str(), name)
    }

    pub fn client_mount(&self, name: &str) -> Option<&Arc<ClientMount>> {
        self.client_mounts.get(self.node.as_str(), name)
    }

    pub fn lustre_mgt(&self, name: &str) -> Option<&Arc<NnfLustreMgt>> {
        self.lustre_mgts.get(self.node.as_str(), name)
    }

    pub fn containers(&self, name: &str) -> Option<&Arc<NodeContainers>> {
        self.containers.get(self.node.as_str(), name)
    }

    pub fn movement(&self, name: &str) -> Option<&Arc<NnfDataMovement>> {
        self.movements.get(self.node.as_str(), name)
    }

    /// Returns a ClientMount that disappeared although it may still be mounted.
    pub fn vanished(&self, uid: &str) -> Option<&Arc<ClientMount>> {
        self.vanished.get(uid)
    }

    /// Returns the uids of the ClientMounts that disappeared under this name.
    pub fn vanished_under(&self, name: &str) -> Vec<String> {
        let same_name = self.vanished.iter().filter(|(_, object)| object.name_any() == name);
        same_name.map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns whether a pass over the object erases namespaces.
    pub fn erases(&self, key: &Key) -> bool {
        let Key::BlockStorage(name) = key else { return false };
        self.block_storage(name).is_some_and(|block| block.metadata.deletion_timestamp.is_some())
    }

    /// Restores a ClientMount from its record, until the API sends the object. `versions` are the object's versions
    /// that may be mounted, the latest last.
    pub fn restore(&mut self, mut versions: Vec<ClientMount>) {
        let Some(last) = versions.pop() else { return };
        for version in &versions {
            self.dropped.record_change(version, Some(&last), |_| true);
        }
        // If two records have the same name, the first is of an object that disappeared.
        self.apply(Event::Applied(Ok(last)));
    }

    /// Forgets a ClientMount that is completely unmounted.
    pub fn forget_vanished(&mut self, uid: &str) {
        self.vanished.remove(uid);
    }

    pub fn nnf_node(&self) -> Option<&Arc<NnfNode>> {
        self.nodes.get(self.node.as_str(), NNF_NODE)
    }

    /// Returns the chassis as the SystemConfiguration describes it.
    pub fn chassis(&self) -> Chassis {
        let system = self.systems.get(SYSTEM_CONFIGURATION, SYSTEM_CONFIGURATION);
        Chassis::new(&self.node, system.map(AsRef::as_ref))
    }

    /// Returns the profile that an object's labels name.
    pub fn profile<K: Object>(&self, object: &K) -> Result<Arc<NnfStorageProfile>, NoProfile> {
        let named = object.pinned_profile().ok_or(NoProfile::Unnamed)?;
        self.profiles.get(named.namespace, named.name).cloned().ok_or_else(|| NoProfile::Missing {
            namespace: named.namespace.to_owned(),
            name: named.name.to_owned(),
        })
    }

    /// Returns the parts of the object that decide whether a pass is needed.
    pub fn fingerprint(&self, key: &Key) -> Option<Fingerprint> {
        fn print<K: Object>(object: &Arc<K>) -> Fingerprint {
            Fingerprint::new(&**object)
        }
        match key {
            Key::Node => self.nnf_node().map(print),
            Key::BlockStorage(name) => self.block_storage(name).map(print),
            Key::NodeStorage(name) => self.node_storage(name).map(print),
            Key::ClientMount(name) => self.client_mount(name).map(print),
            Key::LustreMgt(name) => self.lustre_mgt(name).map(print),
            Key::Containers(name) => self.containers(name).map(print),
            Key::Movement(name) => self.movement(name).map(print),
            Key::Vanished(_) => None,
        }
    }

    /// Returns the keys of all objects, for the first pass over each.
    pub fn all_keys(&self) -> Vec<Key> {
        let mut keys = vec![Key::Node];
        keys.extend(self.block_storages.iter().filter_map(|block| block.key()));
        keys.extend(self.node_storages.iter().filter_map(|storage| storage.key()));
        keys.extend(self.client_mounts.iter().filter_map(|mount| mount.key()));
        keys.extend(self.lustre_mgts.iter().filter_map(|mgt| mgt.key()));
        keys.extend(self.containers.iter().filter_map(|containers| containers.key()));
        keys.extend(self.movements.iter().filter_map(|movement| movement.key()));
        keys.extend(self.vanished.keys().cloned().map(Key::Vanished));
        keys
    }

    /// Returns whether the object is in this rabbit's namespace; the agent works on no others.
    fn is_ours<K: Object>(&self, object: &K) -> bool {
        object.namespace().as_deref() == Some(self.node.as_str())
    }
}
