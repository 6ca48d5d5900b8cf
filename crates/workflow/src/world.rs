//! All objects that the engine acts on, as the API last sent them, sorted by the workflow or persistent
//! storage they belong to.

mod children;
mod claims;
mod containers;
mod counts;
mod groups;
mod kinds;
mod movements;
mod persistent;
mod site_kinds;
mod system_storage;
mod unreadable;
mod used;
mod workflow_kinds;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use api::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, KubernetesNode,
    LustreFileSystem, NnfContainerProfile, NnfDataMovement, NnfDataMovementProfile, NnfLustreMgt,
    NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile,
    NnfSystemStorage, NodeContainers, PersistentStorageInstance, PersistentVolume, RabbitLabels,
    Servers, Storage, SystemConfiguration, SystemStatus, Workflow,
    names::{PROFILE_TEMPLATE_NAMESPACE, STORAGE_NAMESPACE},
};
use controller::{Change, Event, Object, ObjectKey, Store, Trouble};
use directive::Ruleset;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::ResourceExt;

pub use self::kinds::{ForEachKind, Scope};
use self::{children::Children, kinds::Kinds};
use crate::{
    execute::Refusal,
    objects::site::{Settings, Site},
};

/// A unit of the engine's work that is planned separately.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Workflow(ObjectKey),
    Persistent(ObjectKey),
    /// Storage outside any job.
    SystemStorage(ObjectKey),
    /// The Storage of a rabbit.
    Rabbit(String),
    /// A Lustre management target outside of the rabbits.
    Mgt(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow((namespace, name)) => write!(f, "Workflow {namespace}/{name}"),
            Self::Persistent((namespace, name)) => {
                write!(f, "PersistentStorageInstance {namespace}/{name}")
            }
            Self::SystemStorage((namespace, name)) => {
                write!(f, "NnfSystemStorage {namespace}/{name}")
            }
            Self::Mgt((namespace, name)) => write!(f, "NnfLustreMGT {namespace}/{name}"),
            Self::Rabbit(rabbit) => write!(f, "Storage {STORAGE_NAMESPACE}/{rabbit}"),
        }
    }
}

/// Keys to plan again after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Only this key.
    Key(Key),
    /// Every workflow that waits for something.
    Waiting,
    /// Every workflow that waits for the agent of this node.
    Awaiting(String),
    /// Every workflow with an outcome that is Failed or Queued: there may be room for the workflow now.
    Failing,
}

/// All objects that the engine acts on.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// System, rabbits, profiles and rules, which all workflows share.
    pub site: Site,
    kinds: Kinds,
    workflows: Store<Workflow>,
    computes: Store<Computes>,
    breakdowns: Store<DirectiveBreakdown>,
    servers: Store<Servers>,
    blocks: Store<NnfNodeBlockStorage>,
    file_systems: Store<NnfNodeStorage>,
    mounts: Store<ClientMount>,
    mgts: Store<NnfLustreMgt>,
    profiles: Store<NnfStorageProfile>,
    container_profiles: Store<NnfContainerProfile>,
    movements: Store<NnfDataMovement>,
    movement_profiles: Store<NnfDataMovementProfile>,
    lustre: Store<LustreFileSystem>,
    ports: Store<NnfPortManager>,
    on_rabbits: Store<NodeContainers>,
    runs: Store<ContainerRun>,
    jobs: Store<Job>,
    pods: Store<Pod>,
    services: Store<Service>,
    network_policies: Store<NetworkPolicy>,
    config_maps: Store<ConfigMap>,
    volumes: Store<PersistentVolume>,
    volume_claims: Store<PersistentVolumeClaim>,
    storages: Store<Storage>,
    kubernetes_nodes: Store<KubernetesNode>,
    nodes: Store<NnfNode>,
    systems: Store<SystemConfiguration>,
    statuses: Store<SystemStatus>,
    persistent: Store<PersistentStorageInstance>,
    system_storages: Store<NnfSystemStorage>,
    rules: Store<DWDirectiveRule>,
    children: BTreeMap<ObjectKey, Children>,
    /// Keys of the objects of each persistent storage.
    instance_children: BTreeMap<ObjectKey, Children>,
    /// Keys of the objects of each system storage.
    system_storage_children: BTreeMap<ObjectKey, Children>,
    /// Workflows that name a persistent storage in a directive, by persistent storage.
    naming: persistent::Names,
    /// Newest resource version that each watch delivered, by kind.
    newest_versions: BTreeMap<String, u64>,
    /// Number of lists that the watches delivered. [`World::take_created`] compares it with an earlier value.
    lists: u64,
    /// Kinds that were listed, and optional kinds that cannot be listed.
    answered: BTreeSet<String>,
    /// Workflows before and after their changes since the last [`World::changed_workflows`].
    changed: Vec<(Arc<Workflow>, Arc<Workflow>)>,
    /// Changes that the API refused, by key.
    refused: BTreeMap<Key, Refused>,
}

/// Changes of one plan that the API refused.
#[derive(Clone, Debug)]
struct Refused {
    /// The changes and the reasons.
    refusals: Vec<Refusal>,
    /// True if the API refused the same changes before. A first refusal mostly means that another writer was faster.
    is_repeated: bool,
}

/// A kind that the engine acts on.
pub trait WatchedKind: Object {
    /// Where the world keeps objects of this kind.
    fn store(world: &mut World) -> &mut Store<Self>;

    /// Takes in a change and returns which keys to plan again: by default the workflow of the object.
    fn on_change(_: &mut World, change: &Change<Self>) -> Vec<Wake> {
        wake_workflow(change.object().and_then(|object| workflow_of(&**object)))
    }

    /// Called after the changes of a complete list; returns which keys to plan again.
    fn on_list(_: &mut World) -> Vec<Wake> {
        Vec::new()
    }
}

impl World {
    /// Returns a world without objects.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let kinds = Kinds::new(&settings);
        Self { site: Site::new(settings), kinds, ..Self::default() }
    }

    /// Returns the site's rules; `None` before they were listed: until then it is unknown whether the site has rules.
    #[must_use]
    pub fn rules(&self) -> Option<&Arc<Ruleset>> {
        self.rules.is_complete().then_some(&self.site.rules)
    }

    /// Records the changes of a plan that the API refused. Returns true if they differ from the changes that
    /// the API refused before.
    pub fn set_refused(&mut self, key: &Key, refusals: Vec<Refusal>) -> bool {
        if refusals.is_empty() {
            self.refused.remove(key);
            return false;
        }
        let is_repeated = self.refused.get(key).is_some_and(|before| before.refusals == refusals);
        self.refused.insert(key.clone(), Refused { refusals, is_repeated });
        !is_repeated
    }

    /// Returns the changes of a key's plan that the API refused twice.
    fn refused_again(&self, key: &Key) -> Vec<Refusal> {
        let refused = self.refused.get(key);
        let repeated = refused.filter(|refused| refused.is_repeated);
        repeated.map(|refused| refused.refusals.clone()).unwrap_or_default()
    }

    /// Takes in an event of a watch, and returns which keys to plan again.
    pub fn take<K: WatchedKind>(&mut self, event: Event<K>) -> Vec<Wake> {
        let kind = K::kind(&());
        let is_list = matches!(event, Event::Listed(_));
        match &event {
            Event::Listed(_) => {
                self.lists += 1;
                self.answered.insert(kind.into_owned());
            }
            Event::Failing(Trouble::Kind(_)) if self.kinds.is_optional(&kind) => {
                self.answered.insert(kind.into_owned());
            }
            Event::Applied(Ok(object)) | Event::Deleted(Ok(object)) => self.note_version(object),
            _ => {}
        }
        let before = K::store(self).unreadable().count();
        let changes = K::store(self).take(event);
        let mut wakes: Vec<Wake> =
            changes.iter().flat_map(|change| K::on_change(self, change)).collect();
        wakes.extend(self.update_unreadable());
        if is_list {
            wakes.extend(K::on_list(self));
        }
        // `on_change` is not called for the deletion of an object that was never readable, but this deletion may
        // release capacity or names that other keys wait for.
        if K::store(self).unreadable().count() < before {
            wakes.push(Wake::Failing);
        }
        wakes
    }

    /// Takes in the API's answer to a patch, before the watch delivers it.
    pub fn take_patched<K: WatchedKind>(&mut self, object: K) -> Vec<Wake> {
        // A deleted object without finalizers is gone: the watch delivers its deletion.
        if object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty() {
            return Vec::new();
        }
        let changes = K::store(self).apply_written(object);
        changes.iter().flat_map(|change| K::on_change(self, change)).collect()
    }

    /// Takes in an object that the engine created. Ignores the object if the watch has delivered a later version of
    /// any object of the kind, or any list since `lists`: by then the object may be deleted again, and no later
    /// event would remove it.
    pub fn take_created<K: WatchedKind>(&mut self, object: K, lists: u64) -> Vec<Wake> {
        let newest = self.newest_versions.get(&*K::kind(&())).copied().unwrap_or_default();
        let is_ahead = numeric_version(&object).is_some_and(|version| version > newest);
        if !is_ahead || lists != self.lists {
            return Vec::new();
        }
        let changes = K::store(self).take(Event::Applied(Ok(object)));
        changes.iter().flat_map(|change| K::on_change(self, change)).collect()
    }

    /// Returns the number of lists that the watches delivered.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// Returns the changes of workflows since the last call, each with the workflow before and after it. Watches and
    /// answers of the API deliver such changes.
    pub fn changed_workflows(&mut self) -> Vec<(Arc<Workflow>, Arc<Workflow>)> {
        std::mem::take(&mut self.changed)
    }

    fn note_version<K: WatchedKind>(&mut self, object: &K) {
        let newest = self.newest_versions.entry(K::kind(&()).into_owned()).or_default();
        *newest = numeric_version(object).unwrap_or_default().max(*newest);
    }

    /// Returns all keys that can be planned.
    pub fn keys(&self) -> Vec<Key> {
        let workflows =
            self.workflows.iter().map(|workflow| Key::Workflow(object_key(&**workflow)));
        let orphans = self.children.keys().cloned().map(Key::Workflow);
        let rabbits = self.site.rabbits().into_iter().map(|rabbit| Key::Rabbit(rabbit.to_owned()));
        let mgts = self.site.mgts.external().cloned().map(Key::Mgt);
        let persistent = self.persistent.iter().map(|instance| object_key(&**instance));
        let persistent = persistent.chain(self.instance_children.keys().cloned());
        let persistent = persistent.map(Key::Persistent);
        let storages = persistent.chain(self.system_storage_keys());
        let all: BTreeSet<Key> =
            workflows.chain(orphans).chain(rabbits).chain(mgts).chain(storages).collect();
        all.into_iter().collect()
    }

    /// Updates the reservations of a Servers, which last until the workflow of the Servers is in Teardown.
    fn reserve(&mut self, servers: &Servers, is_there: bool) {
        let at = object_key(servers);
        let workflow = workflow_of(servers);
        let torn_down =
            workflow.and_then(|at| self.workflows.get(&at.0, &at.1)).is_some_and(|workflow| {
                workflow
                    .status
                    .as_ref()
                    .and_then(|status| status.state.as_ref())
                    .map(|state| state.as_str())
                    == Some("Teardown")
            });
        self.site.reservations.reserve(&at, Some(servers).filter(|_| is_there && !torn_down));
    }
}

/// Returns an object's resource version as a number; `None` if the version is no number, and so cannot be compared.
/// Since Kubernetes 1.35 (KEP-5504), versions may be compared as numbers.
fn numeric_version<K: Object>(object: &K) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

fn object_key<K: Object>(object: &K) -> ObjectKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn workflow_of<K: Object>(object: &K) -> Option<ObjectKey> {
    let workflow = object.workflow()?;
    Some((workflow.namespace.to_owned(), workflow.name.to_owned()))
}

/// Stores the new value of a key, or removes the key.
fn set_or_remove<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, new: Option<V>) {
    match new {
        Some(new) => map.insert(key, new),
        None => map.remove(&key),
    };
}

/// Takes in a profile: keeps a template, which jobs may name, or wakes the workflow of a pinned copy.
fn take_profile<K: Object>(
    change: &Change<K>,
    templates: &mut BTreeMap<String, Arc<K>>,
    is_pinned: impl Fn(&K) -> bool,
) -> Vec<Wake> {
    let Some(object) = change.object() else { return Vec::new() };
    let (namespace, name) = object_key(&**object);
    if namespace != PROFILE_TEMPLATE_NAMESPACE {
        return wake_workflow(workflow_of(&**object));
    }
    set_or_remove(templates, name, change.new.clone().filter(|profile| !is_pinned(profile)));
    vec![Wake::Waiting]
}

fn wake_workflow(at: Option<ObjectKey>) -> Vec<Wake> {
    at.map(|at| Wake::Key(Key::Workflow(at))).into_iter().collect()
}
